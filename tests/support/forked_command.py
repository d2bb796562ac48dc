"""The ``mirrorlake`` command, forked from a process that has imported it: its imports take two CPU-seconds each time.

Its engine is in its own process: for what is no matter of Spark's. It is the command as users run it in all else:
arguments, environment, folder, streams, signals and exit code are its own.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path

from mirrorlake.cli.main import main
from mirrorlake.pipeline.in_process import InProcessEngine
from support.fork_server import fork_context

_polling = threading.Lock()
"""Starting a process asks all that were started before whether they have ended; of two who ask at one time one is told
255, whatever the process said.
"""


class ForkedCommand:
    """One such process, started in this one's folder, leader of a session of its own; asked as a `subprocess.Popen` is.

    Args:
        arguments: of the command.
        environ: its whole environment.
        out: its stdout goes to the end of this file.
        err: its stderr; may be the same file.
    """

    def __init__(self, *arguments: str, environ: Mapping[str, str], out: Path, err: Path) -> None:
        for path in (out, err):
            path.touch()
        self._process = fork_context().Process(
            target=_become_command,
            args=(arguments, dict(environ), str(Path.cwd()), str(out), str(err)),
            daemon=True,  # ended with the tests
        )
        with _polling:
            self._process.start()
        assert self._process.pid is not None
        self._pid = self._process.pid

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs."""
        with _polling:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("mirrorlake", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, sig)


def _become_command(arguments: tuple[str, ...], environ: dict[str, str], folder: str, out: str, err: str) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_APPEND),
        (2, err, os.O_WRONLY | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["mirrorlake", *arguments]
    main(InProcessEngine)
