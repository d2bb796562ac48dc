"""Runs ``mirrorlake`` itself, as a user would type it, in a process that does not outlive this one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

# As in `embedded.guarded_process`, but what the program says may go to the terminal: a reader holds the end of
# a pipe whose writing end is ours, and kills the program where that closes without a line.
_GUARDED_EXEC = 'exec 3<&0 </dev/null; { read -r _ <&3 || kill -KILL $$; } >/dev/null 2>&1 & exec "$@" 3<&-'

_ASKED_TWICE = 2
_STOP_SECONDS = 3.0


def command_line(arguments: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None) -> str:
    """Returns what a user would type in the demo's folder for the same effect."""
    line = " ".join(["mirrorlake", *arguments])
    line += f" > {stdout.name}" if stdout else ""
    return line + (f" 2> {stderr.name}" if stderr else "")


def program() -> str:
    """Returns how ``mirrorlake`` is called from the user's shell: by its name, or by its path if that is not found."""
    own = Path(sys.executable).with_name("mirrorlake")
    found = shutil.which("mirrorlake")
    return "mirrorlake" if found and Path(found).resolve() == own.resolve() else str(own)


class RunningCommand:
    """A running ``mirrorlake`` command. Use as a context manager: at the end it is stopped if it still runs.

    It has a session of its own, so that Ctrl-C reaches this process alone, which then ends it in good order.

    Args:
        arguments: after ``mirrorlake``.
        folder: where it runs.
        stdout: the file its results go to; without one, where ours go.
        stderr: the same for logs and progress.
    """

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, stdout: Path | None = None, stderr: Path | None = None
    ) -> None:
        command = [sys.executable, "-m", "mirrorlake", *arguments]
        sys.stdout.flush()
        sys.stderr.flush()
        with ExitStack() as files:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED_EXEC, "mirrorlake-guard", *command],
                stdin=subprocess.PIPE,
                stdout=files.enter_context(stdout.open("wb")) if stdout else None,
                stderr=files.enter_context(stderr.open("wb")) if stderr else None,
                cwd=folder,
                # The interpreter looks for modules in the folder it is called in: not in the demo's.
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                start_new_session=True,
                bufsize=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Returns how it ended."""
        return self._process.wait()

    def stop(self) -> None:
        """Asks it to end, asks again more firmly, then kills it. Idempotent."""
        for _ in range(_ASKED_TWICE):
            if self._process.poll() is None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None and not self._process.stdin.closed:
            # The guard gets its line and ends: so it cannot kill another process that was given the id meanwhile.
            with self._process.stdin, suppress(BrokenPipeError):
                self._process.stdin.write(b"stand down\n")
