"""The ``mirrorlake`` command as a process under test, with everything it starts."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from support.copies import wait_until
from support.forked_command import ForkedCommand

_MARK = "MIRRORLAKE_TEST_MARK"
EXIT_SECONDS_MAX = 120.0

_PARTITIONS = re.compile(r" partitions=(\d+)")


def _catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal; true where only the process itself knows (macOS)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return caught is None or bool(int(caught[1], 16) >> (number - 1) & 1)


class _Process(Protocol):
    """What is asked of a process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


class ServiceProcess:
    """One ``mirrorlake`` process, leader of its own session and process group; killed with its test.

    Args:
        arguments: of the command.
        folder: its stderr goes to a file in there.
        environ: added to the environment.
        through: a Python program that becomes the command, and its arguments.
        program: what takes the arguments in place of Python with the package.
        without_spark: with an engine in its own process, see `ForkedCommand`.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        program: Sequence[str] = (),
        without_spark: bool = False,
    ) -> None:
        self._mark = uuid.uuid4().hex
        self._log = folder / f"stderr-{self._mark[:8]}"
        environ = {**os.environ, _MARK: self._mark, **(environ or {})}
        if without_spark:
            assert not through
            assert not program
            self._process: _Process = ForkedCommand(*arguments, environ=environ, out=self._log, err=self._log)
            return
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*(program or (sys.executable, *through, "-m", "mirrorlake")), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
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

    def await_partitions(self, words: str, count: int) -> None:
        """Waits until lines with these words speak of so many partitions; one line may be about several."""

        def told() -> int:
            lines = [line for line in self.said().splitlines() if words in line]
            return sum(int(found[1]) if (found := _PARTITIONS.search(line)) else 1 for line in lines)

        wait_until(lambda: told() >= count or not self.is_running, f"{words!r} of {count} partitions", log=self.said)
        assert told() >= count, self.said()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        """Asks for a graceful stop once it takes one: SIGTERM ends a process that has not begun, as any program."""
        wait_until(lambda: _catches(self.pid, signal.SIGTERM) or not self.is_running, "the service to begin")
        self.signal(signal.SIGTERM)

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
                # What a forked command is told to be its environment is seen in what it starts, not in itself.
                is_ours = process.pid == self.pid or process.environ().get(_MARK) == self._mark
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
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

    def kill_python_workers(self) -> int:
        """SIGKILL to each of them that has not ended by itself meanwhile; returns to how many."""
        killed = 0
        for worker in self.python_workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
                killed += 1
        return killed

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not self.processes(), f"every process of {self.pid} to be gone")

    def kill(self) -> None:
        """SIGKILL to the process alone, as a crash would; waits for it."""
        self._process.send_signal(signal.SIGKILL)
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
