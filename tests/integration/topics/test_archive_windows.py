"""Which part of an archive a mirror reads, while looks at it fail and the archive grows and is merged.

Each failure of a look is crossed with each bound, at the first look and at a later one. What counts is what leases are
told: nothing may be read that no look has found to lie within the window.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.cli.start import load
from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import (
    MirrorlakeError,
    OtherSourceError,
    RangeUnknownError,
    StoreUnavailableError,
    TransientError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.service import partition_state
from mirrorlake.service.changes import find_changes
from mirrorlake.service.lifecycle.endings import EXIT_DONE, EXIT_FAILED
from mirrorlake.service.lifecycle.partition_starts import sources_found
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.service.service import Service
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.state_table import StateTable
from mirrorlake.service.states import state_of
from mirrorlake.sources.archive import work as work_module
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.client import Bounds
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectInfo
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target
from mirrorlake.topics.windows import count_left_out
from mirrorlake.window import Window
from support.archived_source import archive, held_records, settings_at, source_at, write_segment
from support.copies import wait_until
from support.held_source import HeldPartition
from support.reading import Taking, source_context
from support.records import build_batch, simple_records
from support.running_service import ClosingEngine, RunningService

RECORDS = simple_records(200, size=50)
FIRST_MS = RECORDS[0].timestamp
P0, P1, PAY = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("pay", 0)

BOUNDS = {
    "until a record that is there": ("until", 59, (0, 60)),
    "until one that is still to come": ("until", 150, (0, 100)),
    "from a record that is there": ("from", 30, (30, None)),
}
"""What is configured, of which record's time, and what is then to be read of a hundred records."""


def in_tens(count: int = 100) -> HeldPartition:
    return held_records([(base, build_batch(RECORDS[base : base + 10])) for base in range(0, count, 10)])


def moment(record: int) -> str:
    """The time of a record, as a configuration says it."""
    assert FIRST_MS % 1000 == 0
    return f"2023-11-14T22:13:{20 + record // 1000:02}.{record % 1000:03}Z"


def merge(lake: FilesystemSettings, where: TopicPartition, start: int, end: int) -> None:
    """Merges the segments of ten records each between two offsets, as `archive merge` does."""
    store = open_store(lake)
    write_segment(store, where, in_tens(200), start, end, form="parquet")
    for base in range(start, end, 10):
        store.delete(f"{where.topic}/{where.partition}/{base:020}-{base + 9:020}.parquet")


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemSettings:
    (tmp_path / "lake").mkdir()
    (tmp_path / "copy").mkdir()
    settings = settings_at(tmp_path / "lake")
    for where in (P0, P1, PAY):
        archive(settings, where, in_tens(), list(range(10, 101, 10)), form="parquet")
    return settings


def configured(lake: FilesystemSettings, window: str, *, topics: str = '["/.*/"]', more: str = "") -> Path:
    path = lake.root.parent / "mirror.yaml"
    path.write_text(
        f"""
stores:
  lake: {{type: filesystem, root: "{lake.root}"}}
  copy: {{type: filesystem, root: "{lake.root.parent / "copy"}"}}
mirrors:
  - name: back
    source: {{store: lake, topics: {topics}, {window}}}
    destinations: [{{type: archive, store: copy, format: log, flush: {{max-time: 1s}}}}]
service: {{metrics: off}}
engine: {{lanes: 1, memory: 512MiB, discovery: 500ms}}
{more}
"""
    )
    return path


class Driver:
    """Looks at the sources as a service does, and keeps what leases are told."""

    def __init__(self, config: Configuration) -> None:
        clock = SystemClock()
        self._config = config
        self._cache = WorkerCache()
        self.table = StateTable(once=False, clock=clock, events=Events(Metrics(), clock, {"back": "copy"}))
        self.errors: dict[TopicPartition, MirrorlakeError] = {}

    async def look(self) -> None:
        targets = await find_targets(self._config, self._cache)
        self.errors = {target.source: target.error for target in targets if target.error is not None}
        self.table.sources_seen(sources_found(targets))
        changes = find_changes(targets, self.table.states)
        assert self.table.retire(changes.retired)
        self._begin(changes.fresh)

    def _begin(self, targets: Sequence[Target]) -> None:
        ready = [each for each in targets if each.is_due and not isinstance(each.error, TransientError)]
        self.table.sources_seen(sources_found(ready))
        sources = {mirror.name: source_of(mirror) for mirror in self._config.enabled_mirrors}
        self.table.add([state_of(each, writer="test") for each in ready], sources)

    def told(self, partition: TopicPartition) -> tuple[int, int | None] | str:
        """The range that a lease is told to read of a partition, or that it may read nothing."""
        source = self.table.sources["back"]
        assert isinstance(source, ArchiveSourceWork)
        try:
            found = source.range_of(partition)
        except RangeUnknownError:
            return "nothing"
        return found.start_offset, found.end_offset


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders whose listing fails as if the store did not answer."""
    folders: set[str] = set()
    listed = FilesystemStore.list

    def fails_or_lists(self: FilesystemStore, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        if prefix in folders:
            raise StoreUnavailableError(f"{prefix}: no answer")
        return listed(self, prefix, start_after=start_after)

    monkeypatch.setattr(FilesystemStore, "list", fails_or_lists)
    return folders


def damage(lake: FilesystemSettings, topic: str) -> Callable[[], None]:
    """Makes a topic's record unreadable; returns what puts it back."""
    path = max((lake.root / topic).glob("_topic*.json"), key=lambda each: len(each.name))
    content = path.read_bytes()
    path.write_bytes(b"{")

    def mend() -> None:
        path.write_bytes(content)

    return mend


@pytest.mark.parametrize("bound", list(BOUNDS))
@pytest.mark.parametrize("fails", ["a request", "a topic's record"])
def test_a_partition_that_the_first_look_cannot_tell_of_is_not_read_until_one_can(
    lake: FilesystemSettings, run_async: RunAsync, failing: set[str], bound: str, fails: str
) -> None:
    key, record, expected = BOUNDS[bound]
    driver = Driver(load(configured(lake, f'{key}: "{moment(record)}"')))

    async def body() -> None:
        mend = damage(lake, "pay") if fails == "a topic's record" else lambda: failing.clear()
        if fails == "a request":
            failing.add("pay/0")
        await driver.look()
        assert [driver.told(each) for each in (P0, P1, PAY)] == [expected, expected, "nothing"]
        assert [source.topic for source in driver.errors] == ["pay"]
        mend()
        await driver.look()
        assert [driver.told(each) for each in (P0, P1, PAY)] == [expected] * 3

    run_async(body())


@pytest.mark.parametrize("bound", list(BOUNDS))
@pytest.mark.parametrize("fails", ["a request", "a topic's record", "the source"])
def test_a_look_that_fails_leaves_the_range_that_was_known(
    lake: FilesystemSettings, run_async: RunAsync, failing: set[str], bound: str, fails: str
) -> None:
    key, record, expected = BOUNDS[bound]
    driver = Driver(load(configured(lake, f'{key}: "{moment(record)}"')))

    async def body() -> None:
        await driver.look()
        if fails == "a topic's record":
            damage(lake, "pay")
        failing.update({"a request": {"pay/0"}, "the source": {"_mirrorlake/topics"}}.get(fails, set()))
        for where in (P0, PAY):
            write_segment(open_store(lake), where, in_tens(200), 100, 200, form="parquet")
        await driver.look()
        assert driver.told(PAY) == expected
        if fails == "the source":
            assert driver.told(P0) == expected

    run_async(body())


@pytest.mark.parametrize("bound", list(BOUNDS))
def test_a_new_partition_whose_look_fails_is_not_read(
    lake: FilesystemSettings, run_async: RunAsync, failing: set[str], bound: str
) -> None:
    key, record, expected = BOUNDS[bound]
    driver = Driver(load(configured(lake, f'{key}: "{moment(record)}"')))
    new = TopicPartition("orders", 2)

    async def body() -> None:
        await driver.look()
        archive(lake, new, in_tens(), [100], form="parquet")
        failing.add("orders/2")
        await driver.look()
        assert (driver.told(P0), driver.told(new)) == (expected, "nothing")
        failing.clear()
        await driver.look()
        assert driver.told(new) == expected

    run_async(body())


@pytest.mark.parametrize("bound", list(BOUNDS))
def test_segments_that_are_merged_between_two_looks_move_no_bound(
    lake: FilesystemSettings, run_async: RunAsync, bound: str
) -> None:
    key, record, expected = BOUNDS[bound]
    config = load(configured(lake, f'{key}: "{moment(record)}"'))
    driver = Driver(config)

    async def body() -> None:
        await driver.look()
        for start, end in ((0, 40), (40, 90)):
            merge(lake, P0, start, end)
            for _ in range(2):
                await driver.look()
                assert driver.errors == {}
                assert [driver.told(each) for each in (P0, P1, PAY)] == [expected] * 3

    run_async(body())


def test_what_the_driver_knows_of_a_folder_is_read_anew_where_a_segment_was_merged_away(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    work = source_at(lake)

    async def body() -> None:
        cache = WorkerCache()
        client, log = work.client(cache), work.log(P0, cache)
        until, ended = Window(until_ms=FIRST_MS + 59), replace(work, ranges={P0: ArchivedRange(end_offset=10)})
        assert (await client.bounds([P0]))[P0] == Bounds(0, 100)
        # Each question by itself meets a folder whose segments were merged since.
        merge(lake, P0, 0, 20)
        assert await client.offsets_at([P0], FIRST_MS + 15) == {P0: 15}
        merge(lake, P0, 20, 40)
        assert await log.offset_at(FIRST_MS + 35) == 35
        merge(lake, P0, 40, 60)
        assert (await client.batch_at(P0, 45)) is not None
        merge(lake, P0, 60, 80)
        assert await client.try_reading(P0, 70) is None
        merge(lake, P0, 80, 100)
        assert await count_left_out(ended, until, P0, cache) == 50
        await cache.close()

    run_async(body())


def test_a_partition_without_a_record_that_is_due_is_not_begun_and_a_plan_says_so(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    config = load(configured(lake, f'from: "{moment(150)}"'))
    driver = Driver(config)
    for where in (P0, P1):
        write_segment(open_store(lake), where, in_tens(200), 100, 140, form="parquet")

    async def body() -> None:
        await driver.look()
        assert (driver.errors, driver.table.states) == ({}, [])
        assert {driver.told(each) for each in (P0, P1, PAY)} == {"nothing"}
        rows: list[PlanRow] = await read_plan(config)
        assert {row.action for row in rows} == {Action.NOTHING}
        assert {row.note for row in rows} == {"no record is as late as `from` yet"}
        # What comes is read from the first record on that is due, whatever came before it.
        write_segment(open_store(lake), P0, in_tens(200), 140, 200, form="parquet")
        write_segment(open_store(lake), P1, in_tens(200), 140, 150, form="parquet")
        await driver.look()
        assert [driver.told(each) for each in (P0, P1, PAY)] == [(150, None), "nothing", "nothing"]
        assert [state.source for state in driver.table.states] == [P0]

    run_async(body())


def test_a_hole_in_which_the_first_record_that_is_due_may_lie_is_waited_for(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    driver = Driver(load(configured(lake, f'from: "{moment(90)}"')))
    lost = lake.root / "orders" / "0" / f"{90:020}-{99:020}.parquet"
    content = lost.read_bytes()
    lost.unlink()

    async def body() -> None:
        await driver.look()
        assert "offsets [90, 100) are missing" in str(driver.errors[P0])
        assert (driver.told(P0), driver.told(P1)) == ("nothing", (90, None))
        lost.write_bytes(content)
        await driver.look()
        assert (driver.told(P0), driver.told(P1)) == ((90, None), (90, None))

    run_async(body())


# --- a service --------------------------------------------------------------------------------------------------------


def archived_end(lake: FilesystemSettings, where: TopicPartition) -> int:
    """Where the copy of a partition ends."""
    names = [each.name for each in (lake.root.parent / "copy" / where.topic / str(where.partition)).glob("*.log")]
    return max((int(name[21:41]) + 1 for name in names), default=0)


def ends(lake: FilesystemSettings) -> list[int]:
    return [archived_end(lake, each) for each in (P0, P1, PAY)]


@pytest.mark.slow
def test_a_mirror_that_follows_up_to_a_time_stops_there_while_the_archive_grows_is_merged_and_cannot_be_looked_at(
    lake: FilesystemSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "LOOKS_APART_SECONDS", 0.2)
    mend = damage(lake, "pay")
    store = open_store(lake)
    with RunningService(configured(lake, f'until: "{moment(149)}"')):
        wait_until(lambda: ends(lake) == [100, 100, 0], "all that there is", log=lambda: str(ends(lake)))
        merge(lake, P0, 0, 40)
        write_segment(store, P0, in_tens(200), 100, 130, form="parquet")
        mend()
        wait_until(lambda: ends(lake) == [130, 100, 100], "what came", log=lambda: str(ends(lake)))
        mend = damage(lake, "orders")
        time.sleep(1.5)  # a look that had read it before is over
        merge(lake, P1, 0, 90)
        for where in (P0, P1, PAY):
            write_segment(store, where, in_tens(200), archived_end(lake, where), 200, form="parquet")
        wait_until(lambda: ends(lake)[2] == 150, "the topic that can be looked at", log=lambda: str(ends(lake)))
        time.sleep(2.0)  # leases, looks and more leases
        assert ends(lake) == [130, 100, 150], "no look has told that more may be read"
        mend()
        wait_until(lambda: ends(lake) == [150] * 3, "the end", log=lambda: str(ends(lake)))
        time.sleep(2.0)
        assert ends(lake) == [150] * 3


def test_a_bounded_run_copies_up_to_its_times_and_passes_by_what_is_not_due(lake: FilesystemSettings) -> None:
    store = open_store(lake)
    write_segment(store, P0, in_tens(200), 100, 200, form="parquet")
    config = load(configured(lake, f'from: "{moment(120)}", until: "{moment(149)}"'))
    assert Service(config, RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE
    assert ends(lake) == [150, 0, 0]
    write_segment(store, P1, in_tens(200), 100, 130, form="parquet")
    assert Service(config, RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE
    assert ends(lake) == [150, 130, 0]


@pytest.mark.slow
def test_a_bounded_run_ends_as_failed_where_a_partition_cannot_be_looked_at_and_reads_nothing_of_it(
    lake: FilesystemSettings, failing: set[str]
) -> None:
    failing.add("orders/1")
    config = load(configured(lake, f'until: "{moment(59)}"'))
    assert Service(config, RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_FAILED
    assert ends(lake) == [60, 0, 60]
    failing.clear()
    assert Service(config, RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE
    assert ends(lake) == [60, 60, 60]


# --- the archive that is meant ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("in_its_place", ["another archive", "none"])
def test_an_archive_that_is_exchanged_under_a_running_service_is_appended_nowhere_and_waited_for(
    lake: FilesystemSettings, monkeypatch: pytest.MonkeyPatch, in_its_place: str
) -> None:
    monkeypatch.setattr(work_module, "LOOKS_APART_SECONDS", 0.2)
    other = settings_at(lake.root.parent / "other")
    other.root.mkdir()
    if in_its_place == "another archive":
        for where in (P0, P1, PAY):
            archive(other, where, in_tens(200), [100, 200], form="parquet")
    with RunningService(configured(lake, "")) as running:
        wait_until(lambda: ends(lake) == [100] * 3, "all that there is", log=lambda: str(ends(lake)))
        aside = lake.root.parent / "aside"
        lake.root.rename(aside)
        other.root.rename(lake.root)
        time.sleep(4.0)  # looks, leases and looks again
        assert ends(lake) == [100] * 3
        # The right one is back, and goes on.
        lake.root.rename(other.root)
        aside.rename(lake.root)
        write_segment(open_store(lake), P0, in_tens(200), 100, 150, form="parquet")
        wait_until(lambda: ends(lake) == [150, 100, 100], "what came", log=lambda: str(running.rows()))
        assert "parked" not in running.states()


def test_a_copy_behind_a_hole_waits_for_the_segment_and_is_not_past_its_source(
    lake: FilesystemSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "LOOKS_APART_SECONDS", 0.2)
    monkeypatch.setattr(partition_state, "AHEAD_SECONDS", 0.5)
    config = configured(lake, "")
    assert Service(load(config), RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE
    lost = lake.root / "orders" / "0" / f"{30:020}-{39:020}.parquet"
    content = lost.read_bytes()
    lost.unlink()
    assert Service(load(config), RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_FAILED
    with RunningService(config) as running:
        wait_until(
            lambda: any("offsets [30, 40) are missing" in str(row.get("error")) for row in running.rows()),
            "what is missing to be said",
            log=lambda: str(running.rows()),
        )
        assert "parked" not in running.states()
        write_segment(open_store(lake), P0, in_tens(200), 100, 150, form="parquet")
        lost.write_bytes(content)
        wait_until(lambda: ends(lake)[0] == 150, "what came behind it", log=lambda: str(ends(lake)))
        assert "parked" not in running.states()


# --- snapshots ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["", f'until: "{moment(150)}"'], ids=["all", "with a time"])
def test_a_copy_of_snapshots_is_of_one_snapshot_whatever_is_published_while_it_is_made(
    lake: FilesystemSettings, run_async: RunAsync, window: str
) -> None:
    view = TopicPartition("view", 0)
    content = in_tens()
    archive(lake, view, content, [100], form="snapshot")
    config = load(configured(lake, window, topics="[view]"))
    driver, restarted = Driver(config), Driver(config)

    async def lease(of: Driver, start: int, end: int) -> list[int]:
        source = of.table.sources["back"]
        async with source_context(WorkerCache()) as context:
            taking = Taking(start, enough=end, end=end)
            await taking.until_over(await source.open(view, "", context).reader(is_live=False))
            await context.stop()
        return [int(offset) for offset in taking.records().offsets if start <= offset < end]

    async def body() -> None:
        await driver.look()
        found = await lease(driver, 0, 50)
        # A key of the rest is superseded: a later snapshot holds it behind the end of this copy.
        content.add(100, build_batch([replace(RECORDS[80], value=b"newer")]))
        write_segment(open_store(lake), view, content, 100, 101, form="snapshot")
        for _ in range(2):
            await driver.look()
        assert found + await lease(driver, 50, 100) == list(range(100))
        bounds = await driver.table.sources["back"].client(WorkerCache()).bounds([view])
        assert bounds == {view: Bounds(start=0, end=100)}
        # One that begins now takes the newest.
        await restarted.look()
        assert await lease(restarted, 0, 101) == [n for n in range(101) if n != 80]
        (lake.root / "view" / "0" / f"{0:020}-{99:020}.parquet").unlink()
        await driver.look()
        with pytest.raises(OtherSourceError, match="is gone, of which a copy was begun"):
            await lease(driver, 50, 100)
        # What is begun anew is of the newest.
        assert driver.table.retire(driver.table.states)
        await driver.look()
        assert await lease(driver, 0, 101) == [n for n in range(101) if n != 80]

    run_async(body())


def test_a_snapshot_that_no_look_has_named_is_not_read(lake: FilesystemSettings, run_async: RunAsync) -> None:
    view = TopicPartition("view", 0)
    archive(lake, view, in_tens(), [100], form="snapshot")
    config = load(configured(lake, "", topics="[view]"))

    async def body() -> None:
        source = source_of(config.mirrors[0])
        found = (await source.client(WorkerCache()).bounds([view]))[view]
        assert isinstance(found, RangeUnknownError)

    run_async(body())
