"""A subprocess that ends when the process that started it dies, however hard that is."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# The shell becomes the program (exec), so the process id is the program's. The reader beside it holds the end
# of a pipe whose writing end is ours: when we die the read ends without a line, and the program is killed.
# PR_SET_PDEATHSIG would do it on Linux only, and already when the *thread* that started the program ends.
_GUARDED_EXEC = 'exec 3<&0 </dev/null; { read -r _ <&3 || kill -KILL $$; } >/dev/null 2>&1 & exec "$@" 3<&-'


class GuardedProcess:
    """A running program in a session of its own: Ctrl-C in the caller's terminal does not reach it.

    Args:
        command: the program and its arguments; it reads nothing.
        log_path: both its outputs are appended here.
        environ: its whole environment; the caller's by default.

    Raises:
        OSError: ``log_path`` cannot be opened. A program that does not exist ends with exit code 127 and
            says so in its log.
    """

    def __init__(self, command: Sequence[str], *, log_path: Path, environ: Mapping[str, str] | None = None) -> None:
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED_EXEC, "mirrorlake-guard", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
                bufsize=0,  # a line kept back for a guard that is gone would surface as an error much later
            )

    @property
    def pid(self) -> int:
        """The program's process id, also after its end."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs. A paused one runs."""
        return self._process.poll()

    def stop(self, *, timeout_seconds: float) -> None:
        """Asks it to end (SIGTERM), kills it where it has not after ``timeout_seconds``, and waits.

        Idempotent, also where it has ended by itself.
        """
        self._process.send_signal(signal.SIGTERM)
        self._process.send_signal(signal.SIGCONT)  # a paused process would never see the first
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """Ends it at once (SIGKILL), as a crash would, and waits. Idempotent."""
        self._process.kill()
        self._reap()

    def pause(self) -> None:
        """Freezes it (SIGSTOP); where the system tells, not one of its threads runs any more when this returns."""
        self._process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
            # One that has ended is left for who waits for its exit code.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets it go on (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdin is not None and not self._process.stdin.closed:
            # The guard gets its line and ends: so it cannot kill another process that was given the id meanwhile.
            with self._process.stdin, suppress(BrokenPipeError):
                self._process.stdin.write(b"stand down\n")
