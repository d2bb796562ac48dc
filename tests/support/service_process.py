"""The ``mirrorlake`` command as a process under test, with everything it starts."""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from support.copies import wait_until

_MARK = "MIRRORLAKE_TEST_MARK"
EXIT_SECONDS_MAX = 120.0


class ServiceProcess:
    """One ``mirrorlake`` process, leader of its own session and process group; killed with its test.

    Args:
        arguments: of the command.
        folder: its stderr goes to a file in there.
        environ: added to the environment.
        through: a Python program that becomes the command, and its arguments.
    """

    def __init__(
        self, *arguments: str, folder: Path, environ: Mapping[str, str] | None = None, through: Sequence[str] = ()
    ) -> None:
        self._mark = uuid.uuid4().hex
        self._log = folder / f"stderr-{self._mark[:8]}"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *through, "-m", "mirrorlake", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, _MARK: self._mark, **(environ or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        """What it wrote so far."""
        return self._log.read_text(errors="replace")

    def await_words(self, words: str, times: int = 1) -> None:
        wait_until(lambda: self.said().count(words) >= times or not self.is_running, repr(words), log=self.said)
        assert self.said().count(words) >= times, self.said()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def signal_group(self, number: int) -> None:
        os.killpg(self.pid, number)

    def exit_code(self) -> int:
        """Waits for its end."""
        try:
            return self._process.wait(EXIT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end: {self.said()}") from None

    def processes(self) -> list[psutil.Process]:
        """All living processes that it or its children started, also those it lost."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def jvm(self) -> psutil.Process:
        """Spark's JVM."""
        (jvm,) = [p for p in self.processes() if p.name() == "java" and "SparkSubmit" in " ".join(p.cmdline())]
        return jvm

    def python_workers(self) -> list[psutil.Process]:
        """Spark's Python workers: children of the daemon, which is a child of the JVM."""
        return [worker for daemon in self.jvm().children() for worker in daemon.children()]

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not self.processes(), f"every process of {self.pid} to be gone")

    def kill(self) -> None:
        """SIGKILL to the process alone, as a crash would; waits for it."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended by itself meanwhile
                process.kill()
        self._process.wait()
