"""Snapshots over random histories of a compacted log: whatever is written, cleaned and waited for, the view is right.

The cleaner is Kafka's as far as it matters (KIP-534): it removes what has a newer record of its key behind it, gives a
tombstone its horizon in the first pass and removes it in a pass after that. What a view must hold is told by all that
was ever written, kept beside the log.
"""

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.archive.snapshots.view import read_snapshot_footer
from mirrorlake.errors import PositionMovedError
from support.records import Record
from support.snapshots import snapshots, view
from unit.destinations.snapshots.test_sink import Bench, Log, record

KEPT_SECONDS = 100
KEYS = 5
LEASES = 8
HISTORIES = 12


class CleanedLog(Log):
    """A log with its cleaner, and the memory of everything that was written."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Record] = []
        self._horizons: dict[int, float] = {}

    def write(self, chance: random.Random) -> None:
        value = None if chance.random() < 0.4 else b"%d" % self.end
        written = record(b"key %d" % chance.randrange(KEYS), value)
        self.history.append(written)
        self.append(written)

    def clean_up_to(self, end: int, now_seconds: float) -> None:
        newest = {each.key: offset for offset, each in self.records.items() if offset < end}
        for offset, each in [item for item in self.records.items() if item[0] < end]:
            is_over = each.value is None and self._horizons.get(offset, now_seconds + 1) <= now_seconds
            if newest[each.key] != offset or is_over:
                del self.records[offset]
            elif each.value is None:
                self._horizons.setdefault(offset, now_seconds + KEPT_SECONDS)


class Story:
    """One random history over a bench."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.chance = random.Random(seed)
        self.log = bench.log = CleanedLog()
        bench.rule = SnapshotRule(tombstones_kept_seconds=KEPT_SECONDS, keeps_what_retention_took=False)
        self.triggers: list[str] = []

    def happen(self, times: int) -> None:
        """Lets things happen at the source, and time go by."""
        for _ in range(times):
            match self.chance.choice(["write", "write", "clean", "wait"]):
                case "write":
                    self.log.write(self.chance)
                case "clean":
                    self.log.clean_up_to(self.chance.randint(0, self.log.end), self.bench.clock.elapsed_seconds())
                case _:
                    self.bench.clock.advance(self.chance.choice([1, 5, 20, 60]))

    def lose_tombstones(self) -> None:
        """The cleaner comes, and again when tombstones are kept no longer."""
        self.log.clean_up_to(self.log.end, self.bench.clock.elapsed_seconds())
        self.bench.clock.advance(KEPT_SECONDS)
        self.log.clean_up_to(self.log.end, self.bench.clock.elapsed_seconds())

    async def lease(self, *, is_quiet: bool) -> None:
        """Reads up to the end there is at the beginning; unless ``is_quiet``, while things happen."""
        sink, end = self.bench.sink(), self.log.end
        await sink.open()
        while not sink.is_done:
            start = sink.next_offset
            try:
                await sink.deliver(self.log.delivery(start, min(start + self.chance.randint(1, 4), end)))
            except PositionMovedError:
                await sink.open()
            if not is_quiet:
                self.happen(self.chance.choice([0, 0, 3]))
                if self.chance.random() < 0.1:
                    self.lose_tombstones()
        await sink.finish()
        self.triggers += [flush.trigger for flush in sink.progress.flushes]

    def position(self) -> int:
        return snapshots(self.bench.root, "users").read_chain().position

    def expected(self, end: int) -> dict[bytes | None, bytes | None]:
        latest = {each.key: each.value for each in self.log.history[:end]}
        return {key: value for key, value in latest.items() if value is not None}

    def check_newest(self) -> bool:
        """Where a snapshot says that it is exact, each key without a later record has its right value."""
        folder = snapshots(self.bench.root, "users")
        newest = folder.read_chain().tail
        if newest is None:
            return False
        footer = read_snapshot_footer(folder.store, folder.prefix, newest)
        assert footer is not None
        assert footer.snapshot is not None
        if footer.snapshot.is_exact:
            end = newest.name.end_offset
            later = {each.key for each in self.log.history[end:]}
            held = {each.key: each.value for each in view(self.bench.root, "users").values()}
            assert {k: v for k, v in held.items() if k not in later} == {
                k: v for k, v in self.expected(end).items() if k not in later
            }
        return footer.snapshot.is_exact

    def run(self) -> int:
        """Returns how many snapshots said that they are exact."""
        exact = 0
        for _ in range(LEASES):
            self.happen(self.chance.randint(1, 16))
            if self.chance.random() < 0.2:
                self.lose_tombstones()
            self.bench.records_max = self.chance.choice([2, 5, 1000])
            asyncio.run(self.lease(is_quiet=False))
            exact += self.check_newest()
        self.log.write(self.chance)  # there is no new snapshot without something new
        while self.position() < self.log.end:
            asyncio.run(self.lease(is_quiet=True))
        self.check_newest()
        assert {e.key: e.value for e in view(self.bench.root, "users").values()} == self.expected(self.log.end)
        return exact


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def run_histories(count: int, folder: Path, executor: ThreadPoolExecutor) -> None:
    triggers: list[str] = []
    exact = 0
    for seed in range(count):
        root = folder / str(seed)
        root.mkdir()
        story = Story(Bench(root, executor), seed)
        try:
            exact += story.run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        triggers += story.triggers
    # Every way was gone often, or this proves little.
    assert triggers.count("rebuilt") > count
    assert triggers.count("explicit") > count
    assert count * LEASES * 0.3 < exact < count * LEASES


def test_the_view_is_right_whatever_happened(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    run_histories(HISTORIES, tmp_path, executor)


@pytest.mark.soak
def test_the_view_is_right_whatever_happened_many_times(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    run_histories(500, tmp_path, executor)
