"""The demo as a user meets it: it says what it did, ends well, and leaves nothing behind however it ends."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

SCALE = "0.01"
PATIENCE_SECONDS = 240.0  # far longer than it takes; keeps a hanging demo from holding the suite
MARK = "MIRRORLAKE_TEST_MARK"


class DemoProcess:
    """A running ``mirrorlake demo`` whose descendants can be told by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self._out, self._err = folder / "out", folder / "err"
        own = {MARK: self.mark, "MIRRORLAKE_DEMO_SCALE": SCALE, "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mirrorlake", "demo"], stdout=out, stderr=err, env={**os.environ, **own}
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def marked(self) -> list[psutil.Process]:
        """The demo's process and everything below it, adopted or not."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found

    def runs_something_with(self, word: str) -> bool:
        commands = []
        for process in self.marked():
            try:
                commands.append(" ".join(process.cmdline()))
            except psutil.NoSuchProcess:
                continue
        return any(word in command for command in commands)

    def until(self, what: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not what():
            assert time.monotonic() < give_up_at, f"did not come about; stdout:\n{self.out}\nstderr:\n{self.err}"
            time.sleep(0.1)

    def is_starting_clusters(self) -> bool:
        return self.runs_something_with("kafka.tools.StorageTool")

    def is_mirroring(self) -> bool:
        return self.runs_something_with("org.apache.spark.deploy.SparkSubmit")

    def is_restoring(self) -> bool:
        return self.runs_something_with("restore -c after.yaml")


@pytest.fixture
def demo(kafka_libs: Path, tmp_path: Path) -> Iterator[DemoProcess]:
    started = DemoProcess(tmp_path)
    yield started
    for process in started.marked():
        process.kill()
    started.process.wait()


def rows_of_equals(text: str) -> list[list[str]]:
    """The words of each row of a table that ends in equal."""
    return [line.split() for line in text.splitlines() if line.rstrip().endswith(" equal")]


@pytest.mark.slow
def test_the_demo_mirrors_verifies_restores_a_lost_cluster_and_leaves_nothing_behind(demo: DemoProcess) -> None:
    code = demo.process.wait(PATIENCE_SECONDS)

    assert code == 0, f"stdout:\n{demo.out}\nstderr:\n{demo.err}"
    assert demo.marked() == []
    assert list(demo.temporary.iterdir()) == []
    assert demo.err == ""
    copied, _, lost = demo.out.partition("The result")[2].partition("East is lost, for good")
    rows = rows_of_equals(copied)
    assert [(row[0], row[1]) for row in rows[:-1]] == [
        ("orders", "west"),
        ("payments", "west"),
        *((topic, "lake") for topic in ("orders", "payments", "customers", "ledger")),
    ]
    assert rows[-1][0] == "all"
    # A hundredth of the amounts that people get.
    assert rows[0][2] == "3000"
    assert rows[1][2] == "800"
    assert "$ mirrorlake plan -c demo.yaml" in demo.out
    assert demo.out.count("$ mirrorlake run -c demo.yaml --once") == 2
    restored, _, found = lost.partition("What readers find in north")
    assert "$ mirrorlake restore -c after.yaml --store lake" in restored
    # As many as were copied to the archive by both runs.
    archived = {row[0]: int(row[2]) + int(row[-2]) for row in rows if row[1] == "lake"}
    assert {row[0]: int(row[3]) for row in rows_of_equals(found)} == archived
    assert len(archived) == 4
    assert re.search(r"The archive: \d+ Parquet files, [\d.]+ MB", demo.out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "moment", "code"),
    [
        (signal.SIGTERM, DemoProcess.is_starting_clusters, 130),
        (signal.SIGINT, DemoProcess.is_mirroring, 130),
        (signal.SIGKILL, DemoProcess.is_mirroring, -signal.SIGKILL),
        (signal.SIGKILL, DemoProcess.is_restoring, -signal.SIGKILL),
    ],
    ids=[
        *("SIGTERM while clusters start", "SIGINT while it mirrors"),
        *("SIGKILL while it mirrors", "SIGKILL while it restores"),
    ],
)
def test_a_signal_leaves_nothing_running(
    demo: DemoProcess, number: signal.Signals, moment: Callable[[DemoProcess], bool], code: int
) -> None:
    demo.until(lambda: moment(demo))

    demo.process.send_signal(number)

    # CPython ends by SIGINT itself where the interrupt has passed through code that C has run (``exit_sigint`` in its
    # ``main.c``), whoever handled it later; a shell calls that 130, too.
    assert demo.process.wait(PATIENCE_SECONDS) in ((code, -signal.SIGINT) if code == 130 else (code,))
    demo.until(lambda: not demo.marked())
    if number != signal.SIGKILL:
        assert "Interrupted" in demo.out
        assert list(demo.temporary.glob("mirrorlake-demo-*")) == []
    assert "Traceback" not in demo.err


def test_an_unreadable_scale_is_an_error(tmp_path: Path) -> None:
    environ = {**os.environ, "MIRRORLAKE_DEMO_SCALE": "much"}

    done = subprocess.run(
        [sys.executable, "-m", "mirrorlake", "demo"], capture_output=True, text=True, env=environ, check=False
    )

    assert done.returncode == 1
    assert done.stderr == "error: MIRRORLAKE_DEMO_SCALE is 'much', not a number above 0 and up to 100\n"
