"""``engine_program.py`` as a process under test, and waiting for what it does."""

import contextlib
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil

HERE = Path(__file__).parent
PATIENCE_SECONDS = 120.0
MARK = "ENGINE_PROGRAM_MARK"


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Polls until the condition holds; fails after a time far beyond any real one."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, f"waited in vain for {what}"
        time.sleep(0.05)


class EngineProgram:
    """``engine_program.py`` as the leader of its own session and process group.

    Args:
        folder: where its leases write their process ids.
        lease_seconds: how long each lease is busy.
        restarts_max: how many dead JVMs it survives.
        environ: added to its environment.
    """

    def __init__(self, folder: Path, *, lease_seconds: float, restarts_max: int, environ: dict[str, str]) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._stderr = (folder / "stderr").open("wb")
        self._mark = uuid.uuid4().hex
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "engine_program.py"),
                str(folder),
                str(lease_seconds),
                str(restarts_max),
            ],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE), MARK: self._mark, **environ},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, beginning: str) -> str:
        """Returns the first line with that beginning, waiting for it."""
        wait_until(lambda: self.said(beginning) or not self._reader.is_alive(), f"{beginning!r}: {self.stderr()}")
        return self.said(beginning)[0]

    def said(self, beginning: str) -> list[str]:
        return [line for line in self.lines if line.startswith(beginning)]

    def await_note(self, name: str) -> int:
        """Returns the process id of the worker that runs a lease of that name, waiting for it."""
        note = self.folder / name
        wait_until(note.exists, f"{name}: {self.lines} {self.stderr()}")
        return int(note.read_text())

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def signal_everyone(self, number: int) -> None:
        """Signals every process of the program in one go, as systemd does with a service."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself meanwhile
                process.send_signal(number)

    def processes(self) -> list[psutil.Process]:
        """The living processes of this program, also those that it lost."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def exit_code(self) -> int:
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                self.lines.append(line.strip())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._reader.join(PATIENCE_SECONDS)
        self._stderr.close()


class StartProgram:
    """Starts engine programs that end with their test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[EngineProgram] = []

    def __call__(self, *, lease_seconds: float = 0.5, restarts_max: int = 1, **environ: str) -> EngineProgram:
        program = EngineProgram(self._folder, lease_seconds=lease_seconds, restarts_max=restarts_max, environ=environ)
        self.started.append(program)
        return program
