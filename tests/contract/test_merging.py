"""What merging owes in every format on every store: the same records and gaps in one segment, and nothing is lost."""

import io
import re
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from contract.test_archive_formats import FRAMED, GUID, segment_of
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.parquet_copying import COPIED_GROUP_BYTES_MIN
from mirrorlake.archive.formats.registry import LOG, NDJSON, PARQUET, open_segment
from mirrorlake.archive.maintenance.cleaning import delete_covered
from mirrorlake.archive.maintenance.holds import Holds, lift_hold, place_hold, read_holds, read_note
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge, Merged, prove_by_reading
from mirrorlake.archive.maintenance.publication import MergePublication, MergeStepAt
from mirrorlake.archive.maintenance.retiring import retire
from mirrorlake.archive.names import HoldName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, create_sidecar, sidecar_folder, sidecar_key
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError, PositionMovedError, StoreUnusableError
from mirrorlake.kafka.schema_ids.counts import Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectStore, StagedObject
from unit.archive.sample_records import Record, records_in

HELD = (
    [Record(0, b"k", b"v" * 2000), Record(1, None, None, headers=((b"a", None), (b"a", b"1"))), Record(2, b"", b"")],
    [Record(5, b"k", b"w"), Record(6, b"k", None, timestamp_ms=5)],
    [Record(12, b"\xff", b"x", headers=((b"\xff\xfe", b"1"),)), Record(14, b"k", b"y")],
    [Record(20, b"k", b"newest")],
)
ENDS = (3, 10, 17, 21)
HELD_LAST = ([Record(4, b"k", b"newest")], 5)
TRUNCATED = Gap(offsets=OffsetRange(start_offset=3, end_offset=5), kind=GapKind.TRUNCATED)
ALL = OffsetRange(start_offset=0, end_offset=21)


COPIED = "parquet, copied"
"""Parquet whose row groups are copied, however small; the others are decoded."""

_copied_bytes_min = COPIED_GROUP_BYTES_MIN


@pytest.fixture(params=[PARQUET, COPIED, NDJSON, LOG])
def archived(request: pytest.FixtureRequest, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ArchivedPartition:
    extension = PARQUET if request.param == COPIED else request.param
    if request.param == COPIED:
        monkeypatch.setattr(sys.modules[__name__], "_copied_bytes_min", 1)
    made = ArchivedPartition(store, destination_name="orders", partition=3, extension=extension)
    start = 0
    for records, end in zip(HELD, ENDS, strict=True):
        gaps = (TRUNCATED,) if start == 3 else ()
        segment_of(made, records, start, *gaps).publish(end_offset=end, trigger="max-time")
        start = end
    return made


def merge(archived: ArchivedPartition, *, deletes: bool = True, crash_point: CrashPoint = no_crash) -> Merged:
    """Merges all but the newest segment."""
    return GroupMerge(
        archived,
        look_at(archived).chain[:-1],
        compression="zstd-1",
        writer="merger",
        token="token",
        clock=ManualClock(),
        copied_bytes_min=_copied_bytes_min,
        crash_point=crash_point,
    ).run(deletes_inputs=deletes)


def records_of(archived: ArchivedPartition) -> list[Record]:
    return [record for columns in read_archived_range(archived, ALL) for record in records_in(columns)]


def footer_of(archived: ArchivedPartition, segment: Segment) -> SegmentFooter:
    with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
        assert reader.footer is not None
        return reader.footer


def has_sums_of_blocks(footer: SegmentFooter) -> bool:
    return footer.pages is not None or (footer.file is not None and footer.file.blocks is not None)


def clean(archived: ArchivedPartition) -> int:
    def prove(cover: Segment, covered: object) -> None:
        prove_by_reading(archived, cover, covered)  # type: ignore[arg-type]

    cleaned = delete_covered(archived, look_at(archived), keep_seconds=0, now_seconds=0, prove=prove)
    assert not cleaned.flaws
    return cleaned.files


def record_byte(data: bytes, extension: str) -> int:
    """Where a byte of a record's value lies."""
    if extension != PARQUET:
        return len(data) // 2
    values = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(6)
    assert values.path_in_schema == "value"
    return int(values.data_page_offset + values.total_compressed_size - 1)


def names_in(archived: ArchivedPartition) -> list[str]:
    return [info.name for info in archived.store.list(archived.prefix)]


WANTED = [record for records in HELD for record in records]


def test_merged_segments_hold_what_their_inputs_held_and_those_go(archived: ArchivedPartition) -> None:
    before = footer_of(archived, look_at(archived).chain[2])
    merged = merge(archived)
    assert (merged.offsets, merged.inputs, merged.records, merged.deleted) == (
        OffsetRange(start_offset=0, end_offset=17),
        3,
        7,
        3,
    )
    assert names_in(archived) == [
        f"{0:020}-{16:020}.{archived.extension}",
        f"{17:020}-{20:020}.{archived.extension}",
    ]
    described = 2 if archived.extension in FORMATS_WITH_SIDECAR else 0
    assert len(list(archived.store.list(sidecar_folder(archived.prefix)))) == described
    assert records_of(archived) == WANTED
    assert check_archived_content(archived) == 2
    footer = footer_of(archived, look_at(archived).chain[0])
    assert len(footer.parts) == (3 if _copied_bytes_min == 1 else 0), "who copied row groups did not decode them"
    assert footer.gap_offsets == {GapKind.TRUNCATED: 2, GapKind.ABSENT: 8}
    assert has_sums_of_blocks(footer)
    assert [gap for gap in footer.gaps if gap.kind is GapKind.TRUNCATED] == [TRUNCATED]
    assert (footer.first_offset, footer.last_offset, footer.leader_epoch) == (0, 14, before.leader_epoch)
    assert footer.timestamp_ms_max == max(record.timestamp_ms for record in WANTED[:-1])
    assert footer.envelope == replace(
        before.envelope, start_offset=0, writer="merger", created_at=footer.envelope.created_at
    )


@pytest.mark.parametrize("form", [PARQUET, NDJSON, LOG])
@pytest.mark.parametrize(
    ("selects", "merged"), [(("a", "a"), "a"), (("a", "b"), "several"), (("", "a"), "several"), (("", ""), "")]
)
def test_a_merged_segment_says_by_which_select_all_of_its_records_were_made(
    selects: tuple[str, str], merged: str, form: str, store: ObjectStore
) -> None:
    made = ArchivedPartition(store, destination_name="orders", partition=3, extension=form)
    start = 0
    for records, end, select in zip(HELD, ENDS, (*selects, ""), strict=False):
        segment_of(made, records, start, select=select).publish(end_offset=end, trigger="max-time")
        start = end
    before = [footer_of(made, segment).envelope.select for segment in look_at(made).chain]
    assert merge(made).inputs == 2
    assert before == [*selects, ""]
    assert [footer_of(made, segment).envelope.select for segment in look_at(made).chain] == [merged, ""]


@pytest.mark.parametrize(
    "step", [each for each in MergeStepAt if each not in (MergeStepAt.WITHDRAW, MergeStepAt.CONFIRM)]
)
def test_a_merge_killed_at_any_step_leaves_a_readable_archive_that_the_next_run_finishes(
    archived: ArchivedPartition, step: MergeStepAt
) -> None:
    class KilledError(Exception):
        pass

    def kill(at: str) -> None:
        if at == step:
            raise KilledError

    with pytest.raises(KilledError):
        merge(archived, crash_point=kill)
    assert records_of(archived) == WANTED
    clean(archived)
    if len(look_at(archived).chain) > 2:
        merge(archived)
    assert len(names_in(archived)) == 2
    assert records_of(archived) == WANTED
    assert check_archived_content(archived) == 2


def test_inputs_that_are_kept_are_passed_over_and_go_later_once_they_are_proven(archived: ArchivedPartition) -> None:
    assert merge(archived, deletes=False).deleted == 0
    assert (len(names_in(archived)), len(look_at(archived).covered)) == (5, 3)
    assert records_of(archived) == WANTED
    assert clean(archived) == 3
    assert clean(archived) == 0
    assert records_of(archived) == WANTED


def test_what_a_larger_file_does_not_hold_is_never_deleted(archived: ArchivedPartition) -> None:
    """A file of the right name with other records in it: a covered segment would be lost with it."""
    other = [Record(0, b"k", b"other"), *HELD[0][1:], *HELD[1], *HELD[2]]
    foreign = ArchivedPartition(archived.store, destination_name="foreign", partition=3, extension=archived.extension)
    segment_of(foreign, other, 0, TRUNCATED).publish(end_offset=17, trigger="max-time")
    name = names_in(foreign)[0]
    for folder in ("", "/_meta"):
        for info in archived.store.list(f"foreign{folder}/3"):
            archived.store.create(f"orders{folder}/3/{info.name}", archived.store.read(info.key))
    look = look_at(archived)
    assert [str(each.cover.name) for each in look.covered] == [name] * 3

    def prove(cover: Segment, covered: object) -> None:
        prove_by_reading(archived, cover, covered)  # type: ignore[arg-type]

    cleaned = delete_covered(archived, look, keep_seconds=0, now_seconds=0, prove=prove)
    assert (cleaned.files, len(cleaned.flaws)) == (0, 1)
    assert "nothing inside of it was deleted" in cleaned.flaws[0].hint
    assert len(names_in(archived)) == 5


def forget(archived: ArchivedPartition, *numbers: int) -> None:
    """Deletes what describes these segments."""
    for number in numbers:
        archived.store.delete(sidecar_key(f"{archived.prefix}/{look_at(archived).chain[number].name}"))


def forget_blocks(archived: ArchivedPartition) -> None:
    """Gives a log the descriptions that versions before wrote."""
    for segment in look_at(archived).chain:
        key, footer = f"{archived.prefix}/{segment.name}", footer_of(archived, segment)
        assert footer.file is not None
        archived.store.delete(sidecar_key(key))
        create_sidecar(archived.store, key, replace(footer, file=replace(footer.file, blocks=None)))
        assert not has_sums_of_blocks(footer_of(archived, segment))


def refused(archived: ArchivedPartition) -> str:
    """Returns why a merge is refused, which must change nothing."""
    before = names_in(archived)
    with pytest.raises(ChainBrokenError) as caught:
        merge(archived)
    assert names_in(archived) == before
    return caught.value.message


@pytest.mark.parametrize("lost", [(0,), (2,), (0, 1), (0, 1, 2)])
def test_segments_that_have_lost_their_descriptions_are_not_merged_as_if_mirror_v3_had_written_them(
    archived: ArchivedPartition, lost: tuple[int, ...]
) -> None:
    """Their gaps and checksums went with them: a merge would make it impossible to tell."""
    if archived.extension not in FORMATS_WITH_SIDECAR:
        assert footer_of(archived, look_at(archived).chain[0]), "it describes itself"
        return
    forget(archived, *lost)
    assert "has no description" in refused(archived)


def test_a_segment_that_ends_before_its_name_does_is_not_merged(store: ObjectStore) -> None:
    archived = ArchivedPartition(store, destination_name="orders", partition=3, extension=NDJSON)
    start = 0
    for records, end in (([Record(n, b"k", b"v") for n in range(3)], 3), ([Record(3, b"k", b"w")], 4), HELD_LAST):
        segment_of(archived, records, start).publish(end_offset=end, trigger="max-time")
        start = end
    key = f"{archived.prefix}/{look_at(archived).chain[0].name}"
    forget(archived, 0, 1, 2)
    whole = store.read(key)
    store.delete(key)
    store.create(key, b"".join(whole.splitlines(keepends=True)[:-1]))
    assert "no record of offset 2" in refused(archived)


def test_a_damaged_input_stops_its_merge_and_nothing_is_published(archived: ArchivedPartition) -> None:
    key = f"{archived.prefix}/{look_at(archived).chain[1].name}"
    data = bytearray(archived.store.read(key))
    data[record_byte(bytes(data), archived.extension)] ^= 1
    archived.store.delete(key)
    archived.store.create(key, bytes(data))
    with pytest.raises(ChainBrokenError, match=f"^{re.escape(key)} "):
        merge(archived)
    assert len(names_in(archived)) == 4


def test_a_damaged_log_of_a_version_before_is_named_and_not_what_was_to_be_made_of_it(store: ObjectStore) -> None:
    """Nothing compares it as it is read, so its merge fails for what was made, which is nowhere to be found."""
    log = ArchivedPartition(store, destination_name="orders", partition=3, extension=LOG)
    for records, start, end in zip(HELD, (0, *ENDS), ENDS, strict=False):
        segment_of(log, records, start).publish(end_offset=end, trigger="max-time")
    forget_blocks(log)
    key = f"{log.prefix}/{look_at(log).chain[1].name}"
    data = bytearray(store.read(key))
    data[-1] ^= 1
    store.delete(key)
    store.create(key, bytes(data))
    with pytest.raises(ChainBrokenError, match=f"^{re.escape(key)} has {len(data)} bytes with checksum [0-9a-f]{{32}}"):
        merge(log)
    assert len(names_in(log)) == 4


def test_two_mergers_of_one_group_make_one_segment(archived: ArchivedPartition) -> None:
    def other_first(step: str) -> None:
        if step == MergeStepAt.PUBLISH:
            merge(archived)

    merged = merge(archived, crash_point=other_first)
    assert not merged.is_ours
    assert len(names_in(archived)) == 2
    assert records_of(archived) == WANTED


def test_retention_takes_the_old_end_and_its_descriptions_only(archived: ArchivedPartition) -> None:
    retired = retire(archived, 12, now_seconds=0)
    assert (retired.floor, retired.cleaned.files) == (10, 2)
    chain = archived.read_chain()
    assert (chain.start_offset, chain.position, chain.segment_count) == (10, 21, 2)
    described = 2 if archived.extension in FORMATS_WITH_SIDECAR else 0
    assert len(list(archived.store.list(sidecar_folder(archived.prefix)))) == described
    assert retire(archived, 2**40, now_seconds=0).floor == 17  # never the newest segment
    assert names_in(archived)[-1] == f"_floor-{17:020}"
    assert check_archived_content(archived) == 1


def test_what_is_held_stays_in_every_store_until_the_hold_is_lifted(archived: ArchivedPartition) -> None:
    hold = HoldName(label="case-1", partition=3, first=12, last=12)
    clock = ManualClock()
    (held,) = place_hold(archived.store, "orders", hold, [3], reason="court", clock=clock, wait=lambda: False)
    assert (held.floor, held.is_certain) == (0, True)
    assert retire(archived, 17, now_seconds=0).floor == 10
    assert retire(archived, 17, now_seconds=0).floor == 10
    assert read_note(archived.store, "orders", hold).reason == "court"
    lift_hold(archived.store, "orders", hold)
    assert read_holds(archived.store, "orders") == Holds()
    assert retire(archived, 17, now_seconds=0).floor == 17
    assert names_in(archived)[-1] == f"_floor-{17:020}", "what was announced was withdrawn"


def archive_framed(archived: ArchivedPartition, store: ObjectStore, sides: tuple[int, ...]) -> ArchivedPartition:
    """Segments of two framed records each, each counted on some sides, and a newest one."""
    made = ArchivedPartition(store, destination_name="framed", partition=3, extension=archived.extension)
    for number, counted in enumerate((*sides, 0)):
        records = [replace(each, offset=2 * number + row) for row, each in enumerate(FRAMED[2 * (number % 3) :][:2])]
        segment = segment_of(made, records, 2 * number, schema_sides=counted)
        segment.publish(end_offset=2 * number + 2, trigger="max-time")
    return made


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        ((0b11, 0b11, 0b11), ("key", "value")),
        ((0b10, 0b11, 0b10), ("value",)),
        ((0b01, 0b10, 0b11), ()),
        ((0b11, 0b00, 0b11), ()),
    ],
)
def test_schema_ids_of_the_inputs_add_up_where_all_of_them_tell(
    archived: ArchivedPartition, store: ObjectStore, sides: tuple[int, ...], told: tuple[str, ...]
) -> None:
    made = archive_framed(archived, store, sides)
    merge(made)
    counted = {
        "key": SideCounts(
            nameless={Framing.NOT_FRAMED: Seen(4, 0), Framing.NULL: Seen(1, 2)},
            names={9: Seen(1, 3)},
        ),
        "value": SideCounts(
            nameless={Framing.NULL: Seen(1, 1)}, names={7: Seen(3, 0), 8: Seen(1, 3), GUID: Seen(1, 5)}
        ),
    }
    assert footer_of(made, look_at(made).chain[0]).schema_ids == ({side: counted[side] for side in told} or None)
    assert check_archived_content(made) == 2


def test_what_was_made_and_the_store_has_lost_is_said_to_be_lost_and_nothing_is_deleted(
    archived: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look_at(archived).chain
    monkeypatch.setattr(MergePublication, "publish", lambda _publication, _staged: True)
    with pytest.raises(StoreUnusableError, match="was published, and is not there: the store has lost it"):
        merge(archived)
    assert look_at(archived).chain == before


def test_what_was_made_and_merged_further_at_once_is_not_said_to_be_lost(
    archived: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def passed_by_a_larger_one(_publication: MergePublication, _staged: StagedObject) -> bool:
        monkeypatch.undo()
        merge(archived)
        return True

    slow = GroupMerge(
        archived,
        look_at(archived).chain[:2],
        compression="zstd-1",
        writer="merger",
        token="slow",
        clock=ManualClock(),
    )
    monkeypatch.setattr(MergePublication, "publish", passed_by_a_larger_one)
    with pytest.raises(PositionMovedError, match=r"-00000000000000000016\.\w+ a moment after it was published"):
        slow.run(deletes_inputs=True)
    assert check_archived_content(archived) == 2
