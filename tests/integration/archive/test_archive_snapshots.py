"""`archive snapshot` makes the latest record of every key of any archive, and what stands in its way is said."""

import contextlib
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import floor_name
from mirrorlake.archive.publish import Step
from mirrorlake.archive.topic_record import read_topic_record
from mirrorlake.clock import SystemClock
from mirrorlake.errors import (
    ChainBrokenError,
    CommandRefusedError,
    ConfigurationError,
    MirrorlakeError,
    OtherSourceError,
    OutcomeUnknownError,
    RecordRefusedError,
    SourceTruncatedError,
    StoreUnavailableError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshot_plan import pickled_plan, plan_snapshot
from mirrorlake.sources.archive import snapshot_work
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from support.archived_source import archive, held_records, mark, settings_at, write_segment
from support.held_source import HeldPartition
from support.object_servers import ObjectServer
from support.records import Record, build_batch
from support.taken_snapshots import latest_below, place_at, snapshots_at, take, taken

WHERE = TopicPartition("orders", 0)
FORMS = ("log", "parquet", "ndjson", "mirror-v3")
FIRST_MS = 1_700_000_000_000
KEYS = [b"", b"\x00", b"a", b"aa", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\x00", "é".encode(), b"z" * 300]


def some_records(count: int, *, seed: int = 1) -> list[Record]:
    """Few keys, of bytes that sort differently as text or signed numbers; tombstones, headers, times out of order."""
    rng = random.Random(seed)
    headers = ((), (("h", b"1"), ("h", None), ("", b"")))
    times = [FIRST_MS + n - (7 if n % 9 == 0 else 0) for n in range(count)]
    values = [rng.choice((None, b"", b"v%d" % n)) for n in range(count)]
    return [Record(times[n], rng.choice(KEYS), values[n], headers[n % 2]) for n in range(count)]


def hold(records: list[Record], *, start: int = 0, step: int = 7) -> tuple[HeldPartition, dict[int, Record]]:
    """The records in batches with a hole of one offset behind each; and the same by offset."""
    batches: list[tuple[int, bytes]] = []
    offsets: dict[int, Record] = {}
    position = start
    for first in range(0, len(records), step):
        part = records[first : first + step]
        batches.append((position, build_batch(part)))
        offsets |= {position + n: record for n, record in enumerate(part)}
        position += len(part) + 1
    return held_records(batches, start=start), offsets


@pytest.fixture(params=["filesystem", "versitygw"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSettings:
    if request.param == "filesystem":
        return settings_at(tmp_path)
    server: ObjectServer = request.getfixturevalue(request.param)
    return server.settings()


@pytest.mark.parametrize("form", FORMS)
def test_the_latest_record_of_every_key_comes_out_of_every_form(place: StoreSettings, form: str) -> None:
    held, records = hold(some_records(100))
    # A file of mirror-v3 ends with its last record: no hole at an edge.
    archive(place, WHERE, held, (15, 47, max(records) + 1), form=form)
    (row,) = take(place_at(place))
    assert (row.result, row.error) == ("made", None)
    assert taken(place) == latest_below(records)
    made = row.as_json()
    assert (made["start"], made["end"], made["records"]) == (0, max(records) + 1, len(latest_below(records)))
    record = read_topic_record(open_store(place), "orders.snapshot")
    assert record is not None
    assert (record.holds_snapshots, record.topic, record.configs) == (True, "orders", {"retention.ms": "-1"})
    assert [each.result for each in take(place_at(place))] == ["nothing"]


def test_merged_segments_beside_their_inputs_and_several_formats_are_read_once(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(80))
    store, end = open_store(place), max(records) + 1
    archive(place, WHERE, held, (15, 31), form="mirror-v3")
    write_segment(store, WHERE, held, 0, 31, form="parquet")
    write_segment(store, WHERE, held, 31, 50, form="log")
    write_segment(store, WHERE, held, 50, end, form="ndjson")
    assert [row.result for row in take(place_at(place))] == ["made"]
    assert taken(place) == latest_below(records)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"", b"x"])), min_size=1, max_size=60),
    cuts=st.sets(st.integers(1, 59), max_size=5),
    end=st.integers(1, 70),
    form=st.sampled_from(("log", "parquet", "ndjson")),
    tombstones=st.booleans(),
)
def test_whatever_the_segments_and_the_end_a_dictionary_says_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[bytes, bytes | None]],
    cuts: set[int],
    end: int,
    form: str,
    tombstones: bool,
) -> None:
    place = settings_at(tmp_path_factory.mktemp("lake"))
    held, records = hold([Record(FIRST_MS, key, value) for key, value in changes])
    last = max(records) + 1
    archive(place, WHERE, held, (*sorted(cut for cut in cuts if cut < last), last), form=form)
    options = SnapshotOptions(until_offset=end, keeps_tombstones=tombstones, writer="test")
    (row,) = take(place_at(place), options=options)
    assert (row.result, row.error) == ("made", None)
    assert taken(place) == latest_below(records, end, tombstones=tombstones)


def test_tombstones_that_are_kept_are_said_and_read_back(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold([Record(FIRST_MS, b"a", b"1"), Record(FIRST_MS, b"b", b"2"), Record(FIRST_MS, b"a", None)])
    archive(place, WHERE, held, (3,), form="parquet")
    take(place_at(place), options=SnapshotOptions(keeps_tombstones=True, writer="test"))
    assert taken(place) == [(2, records[2]), (1, records[1])]
    folder = snapshots_at(place)
    newest = folder.read_chain().tail
    with open_segment(folder.store, f"{folder.prefix}/{newest.name}") as reader:  # type: ignore[union-attr]
        assert reader.footer is not None
        assert reader.footer.snapshot is not None
        assert reader.footer.snapshot.holds_tombstones


def test_a_time_ends_a_partition_before_its_first_later_record(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    times = (0, 10, 20, 20, 30, 5, 40, 20)
    held, records = hold([Record(FIRST_MS + ms, b"%d" % (n % 3), b"v") for n, ms in enumerate(times)], step=8)
    archive(place, WHERE, held, (3, 8), form="parquet")
    (row,) = take(place_at(place), options=SnapshotOptions(until_ms=FIRST_MS + 20, writer="test"))
    assert (row.result, row.as_json()["end"]) == ("made", 4)
    assert row.reason == "2 records behind offset 4 are not later, and left out"
    assert taken(place) == latest_below(records, 4)
    (later,) = take(place_at(place), options=SnapshotOptions(until_ms=FIRST_MS + 40, writer="test"))
    assert (later.as_json()["start"], later.as_json()["end"]) == (0, 8), "the name begins where the one before ends"
    assert [str(each.name)[:41] for each in snapshots_at(place).snapshots()] == [f"{0:020}-{3:020}", f"{4:020}-{7:020}"]
    (early,) = take(place_at(place), options=SnapshotOptions(until_ms=FIRST_MS + 20, writer="test"))
    assert isinstance(early.error, CommandRefusedError)
    (none,) = take(place_at(place), options=SnapshotOptions(until_ms=FIRST_MS - 1, name_template="x", writer="test"))
    assert (none.result, none.reason) == ("nothing", "there is no record up to there")


def test_gaps_of_the_range_are_counted_by_their_kinds(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(20), start=5)
    archive(place, WHERE, held, (12, max(records) + 1), form="parquet")
    take(place_at(place))
    folder = snapshots_at(place)
    with open_segment(folder.store, f"{folder.prefix}/{folder.read_chain().tail.name}") as reader:  # type: ignore[union-attr]
        assert reader.footer is not None
        counted = {kind.value: count for kind, count in reader.footer.gap_offsets.items()}
    assert counted == {"truncated": 5, "absent": 2}


def test_what_retention_took_is_said_and_an_end_below_it_refused(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (16, 32, max(records) + 1), form="parquet")
    (tmp_path / "orders" / "0" / floor_name(16)).touch()
    for file in (tmp_path / "orders" / "0").glob(f"{0:020}*"):
        file.unlink()
    (refused,) = take(place_at(place), options=SnapshotOptions(until_offset=16, writer="test"))
    assert isinstance(refused.error, SourceTruncatedError)
    (row,) = take(place_at(place))
    assert row.reason == "the archive begins at offset 16: keys last written before are not in it"
    assert taken(place) == latest_below({offset: record for offset, record in records.items() if offset >= 16})


def test_a_hole_stops_a_snapshot_that_reaches_it_and_no_other(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (16, 32, max(records) + 1), form="parquet")
    (hole,) = (tmp_path / "orders" / "0").glob(f"{16:020}*")
    hole.unlink()
    (row,) = take(place_at(place))
    assert isinstance(row.error, StoreUnavailableError)
    assert "[16, 32)" in row.error.message
    (late,) = take(place_at(place), options=SnapshotOptions(until_offset=20, writer="test"))
    assert isinstance(late.error, StoreUnavailableError)
    (early,) = take(place_at(place), options=SnapshotOptions(until_offset=16, writer="test"))
    assert early.result == "made"
    assert taken(place) == latest_below(records, 16)


def test_newest_segments_that_are_gone_are_told_by_the_topics_record(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, _ = hold(some_records(60))
    archive(place, WHERE, held, (16, 32), form="parquet")
    (newest,) = (tmp_path / "orders" / "0").glob(f"{16:020}*")
    newest.unlink()
    (row,) = take(place_at(place))
    assert isinstance(row.error, StoreUnavailableError)


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
def test_a_damaged_segment_makes_no_snapshot(tmp_path: Path, form: str) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (30, max(records) + 1), form=form)
    (file,) = (tmp_path / "orders" / "0").glob(f"{0:020}-*.{form}")
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    (row,) = take(place_at(place))
    assert isinstance(row.error, ChainBrokenError)
    assert file.name in row.error.message
    assert not list((tmp_path / "orders.snapshot").rglob("*.parquet"))


def test_segments_of_two_sources_make_no_snapshot(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    store, end = open_store(place), max(records) + 1
    write_segment(store, WHERE, held, 0, 30, form="parquet", topic_id="one")
    write_segment(store, WHERE, held, 30, end, form="parquet", topic_id="another")
    (row,) = take(place_at(place))
    assert row.result == "failed"
    assert row.error is not None


def test_a_record_without_a_key_fails_its_partition_and_no_other(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    keyed, records = hold(some_records(10))
    bare, _ = hold([Record(FIRST_MS, b"k", b"1"), Record(FIRST_MS, None, b"2")])
    archive(place, WHERE, bare, (2,), form="parquet")
    archive(place, TopicPartition("orders", 1), keyed, (max(records) + 1,), form="parquet")
    rows = take(place_at(place), place_at(place, partition=1))
    failed, made = sorted(rows, key=lambda row: row.planned.place.partition)
    assert isinstance(failed.error, RecordRefusedError)
    assert "offset 1" in failed.error.message
    assert made.result == "made"
    assert taken(place, partition=1) == latest_below(records)
    (early,) = take(place_at(place), options=SnapshotOptions(until_offset=1, writer="test"))
    assert early.result == "made"


def test_it_goes_nowhere_where_something_else_is(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(20))
    end = max(records) + 1
    archive(place, WHERE, held, (end,), form="parquet")
    archive(place, TopicPartition("others", 0), held, (end,), form="parquet")

    def refused(name: str) -> MirrorlakeError | None:
        (row,) = take(place_at(place), options=SnapshotOptions(name_template=name, writer="test"))
        return row.error

    assert isinstance(refused("{topic}"), ConfigurationError)
    assert isinstance(refused("others"), ConfigurationError)
    record = tmp_path / "others" / "_topic.json"
    aside = record.rename(tmp_path / "aside")
    assert isinstance(refused("others"), ConfigurationError), "segments tell as well, where nothing was recorded"
    aside.rename(record)
    take(place_at(place, "others"), options=SnapshotOptions(name_template="views", writer="test"))
    held_more, more = hold(some_records(40))
    archive(place, TopicPartition("third", 0), held_more, (max(more) + 1,), form="parquet")
    (row,) = take(place_at(place, "third"), options=SnapshotOptions(name_template="views", writer="test"))
    assert isinstance(row.error, OtherSourceError)


def planned_at(place: StoreSettings) -> tuple[bytes, list[bytes]]:
    """The plan of the one partition there, and the tasks that read its parts."""
    planned = plan_snapshot(place_at(place), SnapshotOptions(writer="test"), clock=SystemClock())
    plan, orders = pickled_plan(planned, bucket=0, slots=3)
    assert len(orders) > 1
    return plan, orders


def make(plan: bytes, orders: list[bytes], crash_point: CrashPoint = no_crash) -> snapshot_work.SnapshotResult:
    """Runs the tasks of one snapshot."""
    return snapshot_work.make_snapshot(pickle.loads(plan), iter(blocks_of(orders)), crash_point=crash_point)


def blocks_of(orders: list[bytes]) -> list[snapshot_work.Block]:
    """What the tasks that read give, in the order in which the engine hands it on."""
    read = [block for order in orders for block in snapshot_work.read_part(order)]
    return sorted(read, key=lambda block: block[:3])


class Crash(BaseException):
    """What a kill is to the code under test: nothing of it runs on."""


@pytest.mark.parametrize("lost", ["a head", "a run", "a fragment", "all heads"])
def test_what_a_shuffle_has_lost_is_no_snapshot(tmp_path: Path, lost: str) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, max(records) + 1), form="parquet")
    plan, orders = planned_at(place)
    blocks = blocks_of(orders)
    kept = {
        "a head": lambda block: block[1:3] != (snapshot_work.HEAD, 1),
        "a run": lambda block: block[1] != 2,
        "a fragment": lambda block: block[1:3] != (1, 1),
        "all heads": lambda block: block[1] != snapshot_work.HEAD,
    }[lost]
    result = snapshot_work.make_snapshot(pickle.loads(plan), filter(kept, blocks))
    assert isinstance(result.error, OutcomeUnknownError)
    assert not list((tmp_path / "orders.snapshot").rglob("*.parquet"))


@pytest.mark.parametrize("step", [Step.CREATE_CLAIM, Step.LIST_TAIL, Step.PUBLISH_SEGMENT, Step.DELETE_CLAIM])
@pytest.mark.parametrize("grows", [False, True], ids=["at rest", "the archive grows"])
def test_a_crash_at_any_step_leaves_what_the_next_run_finishes(tmp_path: Path, step: Step, grows: bool) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, 32), form="parquet")

    def crash_point(at: object) -> None:
        if at == step:
            raise Crash

    with contextlib.suppress(Crash):
        make(*planned_at(place), crash_point)
    end = 32
    if grows:
        end = max(records) + 1
        write_segment(open_store(place), WHERE, held, 32, end, form="parquet")
        mark(open_store(place), WHERE, end, form="parquet")
    rows = take(place_at(place))
    assert {row.error for row in rows} == {None}
    assert taken(place) == latest_below(records, end)
    assert not list((tmp_path / "orders.snapshot" / "0").glob("_claim*"))


def test_a_claim_of_a_dead_run_behind_the_end_that_is_asked_for_is_not_passed_by(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, max(records) + 1), form="parquet")

    def crash_point(at: object) -> None:
        if at == Step.PUBLISH_SEGMENT:
            raise Crash

    with contextlib.suppress(Crash):
        make(*planned_at(place), crash_point)
    (row,) = take(place_at(place), options=SnapshotOptions(until_offset=15, writer="test"))
    assert isinstance(row.error, CommandRefusedError)
    assert [each.result for each in take(place_at(place))] == ["made"]


def test_two_runs_at_once_make_one_snapshot(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, max(records) + 1), form="parquet")
    plan, orders = planned_at(place)
    first, again = make(plan, orders), make(plan, orders)
    assert first.done is not None
    assert isinstance(again.error, MirrorlakeError), "its position has moved"
    assert taken(place) == latest_below(records)
    assert len(snapshots_at(place).snapshots()) == 1


class TwiceEngine(InProcessEngine):
    """Runs every shuffle a second time, as where the answers of the first one were lost with their executor."""

    def run_shuffle(self, *args: Any, **named: Any) -> list[LeaseRow]:
        super().run_shuffle(*args, **named)
        return super().run_shuffle(*args, **named)


def archived_place(folder: Path) -> tuple[StoreSettings, dict[int, Record], int]:
    place = settings_at(folder)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, end := max(records) + 1), form="parquet")
    return place, records, end


def test_a_snapshot_is_said_to_be_made_though_its_task_ran_again_and_found_it_there(tmp_path: Path) -> None:
    place, records, end = archived_place(tmp_path)
    engine = TwiceEngine(SessionSettings(lanes=1, batch_slots=0))
    (row,) = take(place_at(place), engine=engine)
    engine.stop()
    (again,) = take(place_at(place))
    assert (row.result, row.error, again.result) == ("made", None, "nothing")
    assert row.done is not None
    assert row.done.records == len(latest_below(records))
    assert [each.size_bytes for each in snapshots_at(place).snapshots()] == [row.done.size_bytes]
    record = read_topic_record(open_store(place), "orders.snapshot")
    assert record is not None, "its loss would not be told else"
    assert record.reached == {0: end}


def test_what_another_run_made_first_is_not_said_to_be_made_by_this_one(tmp_path: Path) -> None:
    place, records, _ = archived_place(tmp_path)

    class BeatenEngine(InProcessEngine):
        def run_shuffle(self, *args: Any, **named: Any) -> list[LeaseRow]:
            take(place_at(place), options=SnapshotOptions(writer="another"))
            return super().run_shuffle(*args, **named)

    engine = BeatenEngine(SessionSettings(lanes=1, batch_slots=0))
    (row,) = take(place_at(place), engine=engine, options=SnapshotOptions(writer="this"))
    engine.stop()
    assert (row.result, row.error) == ("nothing", None)
    assert taken(place) == latest_below(records)


def test_a_segment_that_is_merged_away_goes_on_with_what_covers_it(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    end = max(records) + 1
    archive(place, WHERE, held, (10, 20, 32, end), form="parquet")
    plan, orders = planned_at(place)
    write_segment(open_store(place), WHERE, held, 0, 32, form="parquet")
    for start in (0, 10, 20):
        for file in (tmp_path / "orders" / "0").glob(f"{start:020}-*"):
            if not file.name.endswith(f"{31:020}.parquet") or start:
                file.unlink()
    write_segment(open_store(place), WHERE, held, end, end + 5, form="parquet")  # what comes later does not count
    result = make(plan, orders)
    assert result.error is None
    assert taken(place) == latest_below(records)
    assert snapshots_at(place).read_chain().position == end


def test_what_retention_takes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    place = settings_at(tmp_path)
    held, records = hold(some_records(60))
    archive(place, WHERE, held, (10, 20, max(records) + 1), form="parquet")
    plan, orders = planned_at(place)
    (tmp_path / "orders" / "0" / floor_name(10)).touch()
    for file in (tmp_path / "orders" / "0").glob(f"{0:020}-*"):
        file.unlink()
    result = make(plan, orders)
    assert isinstance(result.error, SourceTruncatedError)
