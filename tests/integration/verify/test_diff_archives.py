"""Two archives are compared by their records, whatever their files are: what differs or is not known is named."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.archive.names import floor_name
from mirrorlake.archive.root_marker import ensure_root_marker
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import ManualClock
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.verify.diff.comparison import look_at_sides
from mirrorlake.verify.diff.looks import LookedAt
from mirrorlake.verify.digest import BLOCK_OFFSETS
from mirrorlake.verify.worker import SourceSide
from support.archived_source import archive, mark, settings_at, write_segment
from support.comparing import ORDERS, held, lake, said, verdict, verdicts, write_orders
from support.object_servers import ObjectServer
from support.records import Record

FIRST_MS = 1_700_000_000_000
FORMS = ("parquet", "ndjson", "log", "mirror-v3")
SAYING = ("parquet", "ndjson", "log")
"""Formats whose files say of their gaps of which kind they are."""
HEADERS = ((), (("one", b"1"),), (("same", b"a"), ("same", None), ("", b"")))


def some_records(count: int, *, gaps: tuple[int, ...] = (7, 8, 21)) -> dict[int, Record]:
    """Null, empty and present keys and values, with headers of every kind; none at ``gaps``."""
    keys, values = (None, b"", b"k"), (b"v%d", None, b"")
    return {
        n: Record(FIRST_MS + n, keys[n % 3], values[n % 4 % 3] and b"v%d" % n, HEADERS[n % 5 % 3])
        for n in range(count)
        if n not in gaps
    }


RECORDS = some_records(40)


def at(start: int, end: int | None = None, kind: GapKind = GapKind.ERASED) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=start + 1 if end is None else end), kind=kind)


@pytest.fixture(params=["filesystem", "versitygw"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[StoreSettings, StoreSettings]:
    if request.param == "filesystem":
        return settings_at(tmp_path / "a"), settings_at(tmp_path / "b")
    server: ObjectServer = request.getfixturevalue(request.param)
    return server.settings(), server.settings()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[StoreSettings, StoreSettings]:
    return settings_at(tmp_path / "a"), settings_at(tmp_path / "b")


@pytest.fixture(autouse=True)
def roots(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()


@pytest.mark.parametrize(("form_a", "form_b"), [(a, b) for a in FORMS for b in FORMS if a <= b])
def test_archives_of_any_two_formats_and_cuts_are_equal(
    folders: tuple[StoreSettings, StoreSettings], form_a: str, form_b: str
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 40), form=form_a)
    b = write_orders(folders[1], RECORDS, (5, 14, 31, 40), form=form_b, batch_records=7)
    found = verdict(a, b)
    assert said(found) == ("equal", [], [])
    assert (found.records_a, found.records_b, str(found.offsets)) == (37, 37, "[0, 40)")


@pytest.mark.parametrize("form", FORMS)
def test_what_was_changed_is_found_at_its_offset_in_every_format_on_every_store(
    places: tuple[StoreSettings, StoreSettings], form: str
) -> None:
    a = write_orders(places[0], RECORDS, (10, 40), form="parquet")
    altered = {**RECORDS, 25: replace(RECORDS[25], value=b"another")}
    b = write_orders(places[1], altered, (20, 40), form=form)
    assert said(verdict(a, b)) == ("differs", ["different 25-25"], [])


@st.composite
def cuts(draw: st.DrawFn, end: int) -> tuple[str, tuple[int, ...], int]:
    """A format, where its segments end, and how many records a batch has."""
    inside = draw(st.sets(st.integers(1, end - 1), max_size=4))
    return draw(st.sampled_from(SAYING)), (*sorted(inside), end), draw(st.integers(1, 9))


TEXTS = st.one_of(st.none(), st.binary(max_size=4))
PLACED = st.dictionaries(
    st.integers(0, 30),
    st.builds(
        Record,
        timestamp=st.integers(0, FIRST_MS),
        key=TEXTS,
        value=TEXTS,
        headers=st.lists(st.tuples(st.text(max_size=2), TEXTS), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def changed(records: Mapping[int, Record], offset: int, how: str) -> dict[int, Record]:
    """The records with one of them changed in one field, or taken."""
    record = records[offset]
    fields: dict[str, Record] = {
        "key": replace(record, key=b"" if record.key is None else None),
        "value": replace(record, value=b"" if record.value is None else None),
        "time": replace(record, timestamp=record.timestamp + 1),
        "header": replace(record, headers=(*record.headers, ("", None))),
    }
    rest = {each: known for each, known in records.items() if each != offset}
    return rest if how == "taken" else {**rest, offset: fields[how]}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_two_cuts_are_equal_and_one_change_is_found_at_its_offset(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    records = data.draw(PLACED)
    place_a, place_b = (settings_at(tmp_path_factory.mktemp(name)) for name in ("a", "b"))
    form, ends, batch_records = data.draw(cuts(31))
    a = write_orders(place_a, records, ends, form=form, batch_records=batch_records)
    how = data.draw(st.sampled_from(["nothing", "key", "value", "time", "header", "taken"]))
    offset = data.draw(st.sampled_from(sorted(records)))
    form, ends, batch_records = data.draw(cuts(31))
    content = records if how == "nothing" else changed(records, offset, how)
    b = write_orders(place_b, content, ends, form=form, batch_records=batch_records)
    expected = {"nothing": [], "taken": [f"only-a {offset}-{offset} absent"]}.get(how, [f"different {offset}-{offset}"])
    assert said(verdict(a, b)) == ("differs" if expected else "equal", expected, [])


@pytest.mark.parametrize("form", SAYING)
def test_a_gap_of_another_kind_is_told_and_what_was_erased_is_no_difference(
    folders: tuple[StoreSettings, StoreSettings], form: str
) -> None:
    kept = {offset: record for offset, record in RECORDS.items() if offset not in (3, 4, 30)}
    a = write_orders(folders[0], RECORDS, (10, 40), gaps=[at(21, kind=GapKind.MISSING)])
    b = write_orders(folders[1], kept, (15, 40), form=form, gaps=[at(3, 5), at(7, kind=GapKind.TRUNCATED), at(30)])
    assert said(verdict(a, b)) == (
        "explained",
        [],
        ["only-a 3-30 erased", "gap 7-7 absent in A, truncated in B", "gap 21-21 missing in A, absent in B"],
    )
    assert said(verdict(b, a))[2][0] == "only-b 3-30 erased"
    assert said(verdict(b, b)) == ("equal", [], [])


def test_records_that_a_side_has_lost_are_named_with_the_kind_of_its_gap(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    kept = {offset: record for offset, record in RECORDS.items() if offset not in (3, 4, 30)}
    lost = [at(3, 5, GapKind.TRUNCATED), at(30, kind=GapKind.MISSING)]
    a = write_orders(folders[0], RECORDS, (40,))
    b = write_orders(folders[1], kept, (40,), gaps=lost)
    assert said(verdict(a, b)) == ("differs", ["only-a 3-4 truncated", "only-a 30-30 missing"], [])


def test_an_archive_that_was_begun_late_lacks_what_its_source_had_lost(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    late = {offset: record for offset, record in RECORDS.items() if offset >= 12}
    a = write_orders(folders[0], RECORDS, (40,))
    b = write_orders(folders[1], late, (20, 40), start=12)
    assert said(verdict(a, b)) == (
        "differs",
        ["only-a 0-11 truncated"],
        ["gap 7-8 absent in A, truncated in B"],
    )
    assert said(verdict(b, b)) == ("equal", [], [])


def test_what_retention_took_of_one_side_is_explained_and_not_read(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 40))
    b = write_orders(folders[1], RECORDS, (10, 20, 40))
    open_store(folders[1]).create(f"orders/0/{floor_name(20)}", b"")
    found = verdict(a, b)
    assert said(found) == ("explained", [], ["only-a 0-19 retired"])
    assert str(found.offsets) == "[20, 40)"
    open_store(folders[0]).create(f"orders/0/{floor_name(10)}", b"")
    assert said(verdict(a, b))[2] == ["only-a 10-19 retired"]


def test_what_lies_behind_the_end_of_a_side_is_only_at_the_other(folders: tuple[StoreSettings, StoreSettings]) -> None:
    a = write_orders(folders[0], RECORDS, (10, 40))
    shorter = {offset: record for offset, record in RECORDS.items() if offset < 21}
    b = write_orders(folders[1], shorter, (21,))
    # Offset 21 has no record, 22 is the first that B lacks.
    assert said(verdict(a, b)) == ("differs", ["only-a 22-39 beyond"], [])
    assert said(verdict(b, a)) == ("differs", ["only-b 22-39 beyond"], [])
    within = OffsetRange(start_offset=5, end_offset=22)
    assert said(verdict(a, b, asked=within)) == ("explained", [], ["gap 21-21 beyond the end of B"])
    assert said(verdict(a, b, asked=OffsetRange(start_offset=5, end_offset=21))) == ("equal", [], [])
    assert verdict(a, b, asked=OffsetRange(start_offset=90, end_offset=99)).result == "empty"


def test_a_file_that_cannot_be_read_leaves_its_offsets_unknown_and_all_others_compared(
    folders: tuple[StoreSettings, StoreSettings], tmp_path: Path
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 20, 40))
    b = write_orders(folders[1], RECORDS, (40,))
    file = next((tmp_path / "a" / "orders" / "0").glob("*10-*19.parquet"))
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    found = verdict(a, b)
    assert said(found) == ("unknown", [], [])
    assert [(side, str(each.offsets)) for side, each in found.unread] == [("a", "[10, 20)")]
    assert file.name in str(found.unread[0][1].error)
    assert found.records_a is None
    altered = {**RECORDS, 25: replace(RECORDS[25], key=b"another")}
    archive(folders[1], ORDERS._replace(topic="altered"), held(altered), (40,), form="parquet")
    assert said(verdict(a, b, ("orders", "altered"))) == ("differs", ["different 25-25"], [])


def test_a_segment_that_is_gone_leaves_its_offsets_unknown(
    folders: tuple[StoreSettings, StoreSettings], tmp_path: Path
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 20, 40))
    b = write_orders(folders[1], RECORDS, (40,))
    for gone, hole in (("*10-*19", "[10, 20)"), ("*20-*39", "[10, 40)")):
        next((tmp_path / "a" / "orders" / "0").glob(f"{gone}.parquet")).unlink()
        found = verdict(b, a)
        assert found.result == "unknown"
        assert {(side, str(each.offsets)) for side, each in found.unread} == {("b", hole)}


def test_a_topic_or_a_partition_that_is_not_there_is_never_equal(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    a = write_orders(folders[0], RECORDS, (40,))
    mark(open_store(folders[1]), ORDERS, 0, form="parquet")
    archive(folders[0], ORDERS._replace(partition=2), held(RECORDS), (40,), form="parquet")
    (missing,) = verdicts(a, lake(folders[1]), ("orders", "nothing"))[:1]
    assert (missing.result, "has no topic nothing" in str(missing.error)) == ("unknown", True)
    found = {each.partition: (each.result, str(each.error or "")) for each in verdicts(a, lake(folders[1]))}
    assert found[2][0] == "unknown"
    assert "has no partition orders-2" in found[2][1]
    assert found[1][0] == "unknown", "partition 1 of A is nowhere on B"


def test_partitions_without_a_record_are_equal(folders: tuple[StoreSettings, StoreSettings]) -> None:
    for place in folders:
        mark(open_store(place), ORDERS, 0, form="parquet")
    found = verdict(lake(folders[0]), lake(folders[1]))
    assert (said(found), found.records_a) == (("equal", [], []), 0)


def test_a_side_that_became_another_one_while_it_was_compared_is_not_known(
    folders: tuple[StoreSettings, StoreSettings], tmp_path: Path
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 40))
    b = write_orders(folders[1], RECORDS, (40,))
    looks = 0

    def moving(sides: Sequence[SourceSide]) -> Mapping[SourceSide, LookedAt]:
        nonlocal looks
        looks += 1
        if looks == 2:
            (tmp_path / "b" / "_mirrorlake.json").unlink()
            ensure_root_marker(open_store(folders[1]), writer="test", now_seconds=1_800_000_000.0)
        return look_at_sides(sides)

    found = verdict(a, b, look=moving)
    assert (looks, found.result) == (2, "unknown")
    assert "is another one now: it moved while it was compared" in str(found.error)


def test_a_side_that_grew_or_was_merged_meanwhile_is_compared_as_far_as_it_was_seen(
    folders: tuple[StoreSettings, StoreSettings], tmp_path: Path
) -> None:
    a = write_orders(folders[0], RECORDS, (10, 40))
    b = write_orders(folders[1], RECORDS, (10, 20, 40))
    looks = 0

    def growing(sides: Sequence[SourceSide]) -> Mapping[SourceSide, LookedAt]:
        nonlocal looks
        found = look_at_sides(sides)
        looks += 1
        if looks == 1:
            more = {**RECORDS, 40: RECORDS[1]}
            write_segment(open_store(folders[0]), ORDERS, held(more), 40, 41, form="parquet")
            write_segment(open_store(folders[1]), ORDERS, held(RECORDS), 0, 20, form="parquet")
            for start, end in ((0, 9), (10, 19)):
                (tmp_path / "b" / "orders" / "0" / f"{start:020}-{end:020}.parquet").unlink()
        return found

    assert said(verdict(a, b, look=growing)) == ("equal", [], [])


def test_archives_of_a_compacted_topic_may_lack_what_its_cleaner_could_take(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    compacted = {"cleanup.policy": "compact"}
    early = {n: Record(FIRST_MS + n, b"k%d" % (n % 3), b"v%d" % n) for n in range(12)}
    late = {n: record for n, record in early.items() if n >= 9}
    a = write_orders(folders[0], early, (12,), configs=compacted)
    b = write_orders(folders[1], late, (12,), configs=compacted)
    assert said(verdict(a, b)) == ("explained", [], ["only-a 0-8 cleaned"])
    without_last = {n: record for n, record in late.items() if n != 11}
    archive(folders[1], ORDERS._replace(topic="short"), held(without_last), (12,), form="log", configs=compacted)
    # Nothing of key 2 is left there, and A has no later record of it than that at 11.
    assert said(verdict(a, b, ("orders", "short"))) == ("differs", ["only-a 11-11"], ["only-a 0-8 cleaned"])
    # It was compacted when its cleaner took them, whatever its policy is by now.
    for place, topic in ((folders[0], "orders"), (folders[1], "orders"), (folders[1], "short")):
        form = "log" if topic == "short" else "parquet"
        mark(open_store(place), ORDERS._replace(topic=topic), 12, form=form, configs={"cleanup.policy": "delete"})
    assert said(verdict(a, b)) == ("explained", [], ["only-a 0-8 cleaned"])
    assert said(verdict(a, b, ("orders", "short"))) == ("differs", ["only-a 11-11"], ["only-a 0-8 cleaned"])


def test_snapshots_are_compared_key_by_key_and_with_snapshots_only(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    records = {n: Record(FIRST_MS + n, b"k%d" % (n % 5), b"v%d" % n) for n in range(20)}
    a = write_orders(folders[0], records, (10, 20), form="snapshot")
    b = write_orders(folders[1], records, (20,), form="snapshot")
    found = verdict(a, b)
    assert (said(found), found.records_a) == (("equal", [], []), 5)
    altered = {**records, 17: replace(records[17], value=b"another")}
    archive(folders[1], ORDERS._replace(topic="altered"), held(altered), (20,), form="snapshot")
    assert said(verdict(a, b, ("orders", "altered"))) == ("differs", ["different 17-17"], [])
    archive(folders[1], ORDERS._replace(topic="older"), held(records), (10,), form="snapshot")
    assert said(verdict(a, b, ("orders", "older"))) == ("differs", ["only-a 10-19 beyond"], [])
    archive(folders[1], ORDERS._replace(topic="whole"), held(records), (20,), form="parquet")
    refused = verdict(a, b, ("orders", "whole"))
    assert refused.result == "unknown"
    assert "lake:orders holds snapshots, and lake:whole every record" in str(refused.error)


def test_keys_that_were_erased_from_one_of_two_snapshots_are_explained(
    folders: tuple[StoreSettings, StoreSettings],
) -> None:
    records = {n: Record(FIRST_MS + n, b"k%d" % (n % 5), b"v%d" % n) for n in range(20)}
    a, b = (write_orders(place, records, (20,), form="snapshot") for place in folders)
    folder = SnapshotPartition(open_store(folders[1]), destination_name="orders", partition=0, extension="parquet")
    SnapshotErase(
        folder=folder,
        snapshot=folder.snapshots()[-1],
        keys=[b"k1", b"k3"],
        compression="uncompressed",
        writer="eraser",
        token="a",
        salt=b"salt",
        clock=ManualClock(),
    ).run()
    found = verdict(a, b)
    assert said(found) == ("explained", [], ["only-a 16-18 erased"])
    assert (found.explained[0].records, found.records_a, found.records_b) == (2, 5, 3)
    assert said(verdict(b, a)) == ("explained", [], ["only-b 16-18 erased"])


def test_many_differences_are_cut_short_and_said_to_be(folders: tuple[StoreSettings, StoreSettings]) -> None:
    """Every other record of three blocks: more runs than are named, and blocks that need not be read for it."""
    count = 2 * BLOCK_OFFSETS + 10
    records = {n: Record(FIRST_MS, b"", b"") for n in range(count)}
    a = write_orders(folders[0], records, (count,), batch_records=1000)
    b = write_orders(folders[1], {n: r for n, r in records.items() if n % 2}, (count,), batch_records=1000)
    found = verdict(a, b)
    assert (found.result, found.differences[0].offsets.start_offset, found.is_complete) == ("differs", 0, False)
    assert len(found.differences) == 20
    assert (found.records_a, found.records_b) == (count, count // 2)
