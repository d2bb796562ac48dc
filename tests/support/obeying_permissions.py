"""Becomes another Python program that obeys the permissions of files, as every user but root does.

    obeying_permissions.py -m mirrorlake run …

Root gives up its right to pass over them, for itself and all that it starts; whoever is not root has no such right.
"""

import ctypes
import os
import sys

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def obey_permissions() -> None:
    """Takes effect with the next program this process becomes.

    Raises:
        OSError: root may not give its right up here.
    """
    if os.geteuid() != 0:
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        if prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"PR_CAPBSET_DROP: {os.strerror(number)}")


if __name__ == "__main__":
    obey_permissions()
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
