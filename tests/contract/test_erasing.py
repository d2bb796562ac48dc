"""What an erasure owes in every format on every store: these records gone to the last byte, all others as they were."""

import json
import os
import re
from pathlib import Path
from signal import SIGKILL

import pytest

from contract.test_archive_formats import FRAMED, segment_of
from contract.test_merging import (
    TRUNCATED,
    clean,
    footer_of,
    has_sums_of_blocks,
    merge,
    names_in,
    record_byte,
    records_of,
)
from mirrorlake.archive.formats.registry import LOG, NDJSON, PARQUET
from mirrorlake.archive.maintenance import making
from mirrorlake.archive.maintenance.erase_audit import audit_folder, key_hash
from mirrorlake.archive.maintenance.erase_plan import plan_erasure
from mirrorlake.archive.maintenance.erased_keys import Key
from mirrorlake.archive.maintenance.erasing import Erased, GroupErase
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge
from mirrorlake.archive.maintenance.on_hold import HoldsOf, holds_as_they_are, no_holds
from mirrorlake.archive.maintenance.publication import MergePublication, MergeStepAt
from mirrorlake.archive.names import floor_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError, PositionMovedError, StoreUnusableError, UnsupportedError
from mirrorlake.kafka.schema_ids.counts import Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from unit.archive.sample_records import Record

SECRET = b"SECRET-SECRET-SECRET-SECRET-SECRET"
HELD = (
    [Record(0, b"k", b"v" * 2000), Record(1, b"gone", SECRET + b"1"), Record(2, b"", b"")],
    [Record(5, b"gone", SECRET + b"2", headers=((b"h", SECRET),)), Record(6, None, b"null key"), Record(7, b"k", b"x")],
    [Record(12, b"\xff", b"x", headers=((b"\xff\xfe", b"1"),)), Record(14, b"k", b"y")],
    [Record(20, b"k", b"newest")],
)
ENDS = (3, 10, 17, 21)
KEPT = [record for records in HELD for record in records if record.key != b"gone"]
SALT = b"salt"
HELD_AFTER = [Record(6, b"k", b"newest")]


@pytest.fixture(params=[PARQUET, NDJSON, LOG])
def archived(request: pytest.FixtureRequest, store: ObjectStore) -> ArchivedPartition:
    return filled(store, request.param)


def filled(store: ObjectStore, extension: str) -> ArchivedPartition:
    """An archive of ``HELD``."""
    made = ArchivedPartition(store, destination_name="orders", partition=3, extension=extension)
    start = 0
    for records, end in zip(HELD, ENDS, strict=True):
        gaps = (TRUNCATED,) if start == 3 else ()
        segment_of(made, records, start, *gaps).publish(end_offset=end, trigger="max-time")
        start = end
    return made


def erase(
    archived: ArchivedPartition,
    *keys: Key,
    inputs: slice = slice(0, 2),
    token: str = "token",
    crash_point: CrashPoint = no_crash,
    holds: HoldsOf = no_holds,
) -> Erased:
    return GroupErase(
        archived,
        look_at(archived).chain[inputs],
        keys,
        compression="uncompressed",
        writer="eraser",
        token=token,
        salt=SALT,
        clock=ManualClock(),
        crash_point=crash_point,
        holds=holds,
    ).run()


def all_bytes(archived: ArchivedPartition) -> bytes:
    """Everything that lies below the topic's folder."""
    found = [info.key for info in archived.store.list(archived.prefix)]
    for folder in (sidecar_folder(archived.prefix), audit_folder(archived)):
        found += [info.key for info in archived.store.list(folder)]
    return b"".join(archived.store.read(key) for key in found)


def audits(archived: ArchivedPartition) -> list[dict[str, object]]:
    return [json.loads(archived.store.read(info.key)) for info in archived.store.list(audit_folder(archived))]


def test_records_of_a_key_are_gone_and_all_others_stay_at_their_offsets(archived: ArchivedPartition) -> None:
    erased = erase(archived, b"gone")
    assert (erased.offsets, erased.inputs, erased.records, erased.deleted) == (
        OffsetRange(start_offset=0, end_offset=10),
        2,
        2,
        2,
    )
    assert len(names_in(archived)) == 3
    assert records_of(archived) == KEPT
    assert check_archived_content(archived) == 3
    footer = footer_of(archived, look_at(archived).chain[0])
    assert footer.gap_offsets == {GapKind.TRUNCATED: 2, GapKind.ERASED: 2, GapKind.ABSENT: 2}
    assert has_sums_of_blocks(footer)
    assert [gap for gap in footer.gaps if gap.kind is GapKind.ERASED] == [
        Gap(offsets=OffsetRange(start_offset=1, end_offset=2), kind=GapKind.ERASED),
        Gap(offsets=OffsetRange(start_offset=5, end_offset=6), kind=GapKind.ERASED),
    ]
    described = 3 if archived.extension in FORMATS_WITH_SIDECAR else 0
    assert len(list(archived.store.list(sidecar_folder(archived.prefix)))) == described
    if archived.extension == PARQUET:
        assert SECRET not in all_bytes(archived)


def test_an_audit_object_says_what_was_erased_and_not_the_key(archived: ArchivedPartition) -> None:
    before = [str(each.name) for each in look_at(archived).chain[:2]]
    erase(archived, b"gone", b"not there")
    (audit,) = audits(archived)
    footer = footer_of(archived, look_at(archived).chain[0])
    assert audit == {
        "format_version": 1,
        "cluster_id": "cluster",
        "topic_id": "topic-id",
        "topic": "orders",
        "partition": 3,
        "file": f"{0:020}-{9:020}.{archived.extension}",
        "checksum": {"algorithm": footer.algorithm, "value": footer.checksum},
        "inputs": before,
        "records": 2,
        "offsets": [[1, 2], [5, 6]],
        "offsets_complete": True,
        "key_hash": {"algorithm": "sha256", "salt": SALT.hex()},
        "keys": [key_hash(b"gone", SALT)],
        "writer": "eraser",
        "created_at": audit["created_at"],
    }
    assert b"gone" not in json.dumps(audit).encode()


@pytest.mark.parametrize(("key", "offset"), [(None, 6), (b"", 2), (b"\xff", 12)])
def test_null_empty_and_binary_keys_are_each_themselves(archived: ArchivedPartition, key: Key, offset: int) -> None:
    erase(archived, key, inputs=slice(0, 3))
    wanted = [record for records in HELD for record in records if record.offset != offset]
    assert records_of(archived) == wanted
    assert audits(archived)[0]["keys"] == ["null" if key is None else key_hash(key, SALT)]


def test_a_segment_of_which_nothing_is_left_is_a_gap(archived: ArchivedPartition) -> None:
    keys = {record.key for records in HELD[:2] for record in records}
    erase(archived, *keys)
    assert [record.offset for record in records_of(archived)] == [12, 14, 20]
    assert check_archived_content(archived) == 3


def test_a_restore_begins_where_the_archive_does_although_its_first_record_was_erased(
    archived: ArchivedPartition,
) -> None:
    erase(archived, b"k")
    view = SourceFolder(archived.store, archived.prefix, clock=ManualClock()).look(holds_snapshots=False, reached=0)
    assert (view.start, view.end, view.hole) == (0, 21, None)


def test_the_newest_segment_is_never_taken(archived: ArchivedPartition) -> None:
    with pytest.raises(PositionMovedError):
        erase(archived, b"k", inputs=slice(2, 4))
    assert len(names_in(archived)) == 4


def test_a_merge_of_what_was_erased_keeps_the_gap(archived: ArchivedPartition) -> None:
    erase(archived, b"gone")
    merge(archived)
    footer = footer_of(archived, look_at(archived).chain[0])
    assert footer.gap_offsets == {GapKind.TRUNCATED: 2, GapKind.ERASED: 2, GapKind.ABSENT: 7}
    assert records_of(archived) == KEPT
    erase_again = plan_erasure(look_at(archived), {look_at(archived).chain[0].name}, now_seconds=0)
    assert not erase_again.groups  # one segment and the newest: it waits
    assert [each.segment for each in erase_again.waiting] == [look_at(archived).chain[0]]


class KilledError(Exception):
    """Ends an erasure where a process would die."""


STEPS = [each for each in MergeStepAt if each is not MergeStepAt.WITHDRAW]


@pytest.mark.parametrize("step", STEPS)
def test_an_erasure_killed_at_any_step_leaves_a_readable_archive_that_the_next_run_finishes(
    archived: ArchivedPartition, step: MergeStepAt
) -> None:
    def kill(at: str) -> None:
        if at == step:
            raise KilledError

    with pytest.raises(KilledError):
        erase(archived, b"gone", crash_point=kill)
    assert records_of(archived) in (KEPT, [record for records in HELD for record in records])
    clean(archived)
    if len(look_at(archived).chain) == 4:
        erase(archived, b"gone", token="next")
    clean(archived)
    assert len(names_in(archived)) == 3
    assert records_of(archived) == KEPT
    assert check_archived_content(archived) == 3
    assert audits(archived)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("extension", [PARQUET, NDJSON, LOG])
def test_a_process_that_is_killed_at_any_step_leaves_what_the_next_one_finishes(
    extension: str, step: MergeStepAt, tmp_path: Path
) -> None:
    archived = filled(FilesystemStore(tmp_path), extension)
    child = os.fork()
    if not child:
        try:
            erase(archived, b"gone", crash_point=lambda at: os.kill(os.getpid(), SIGKILL) if at == step else None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -SIGKILL
    assert records_of(archived) in (KEPT, [record for records in HELD for record in records])
    clean(archived)
    if len(look_at(archived).chain) == 4:
        erase(archived, b"gone", token="next")
    clean(archived)
    FilesystemStore(tmp_path, stale_after_seconds=-1).sweep_staged(archived.prefix)
    assert len(names_in(archived)) == 3
    assert records_of(archived) == KEPT
    assert not any(SECRET in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_what_a_merger_has_read_before_is_not_published_behind_it(archived: ArchivedPartition) -> None:
    def erase_first(step: str) -> None:
        if step == MergeStepAt.ANNOUNCE:
            erase(archived, b"gone")

    with pytest.raises(PositionMovedError):
        merge(archived, crash_point=erase_first)
    assert records_of(archived) == KEPT


@pytest.mark.parametrize("tidies_up", [True, False], ids=["by itself", "with the folder"])
def test_a_merger_that_looked_dead_takes_back_what_it_published_inside_of_what_was_erased(
    archived: ArchivedPartition, tidies_up: bool
) -> None:
    """Its announcement is gone, as a larger segment held its range: nobody could know that it lives."""

    def erase_first(step: str) -> None:
        if step == MergeStepAt.PUBLISH:
            for info in list(archived.store.list(archived.prefix, start_after="_merge-")):
                archived.store.delete(info.key)
            erase(archived, b"gone", inputs=slice(0, 3), token="e")

    GroupMerge(
        archived,
        look_at(archived).chain[:2],
        compression="uncompressed",
        writer="merger",
        token="m",
        clock=ManualClock(),
        crash_point=erase_first,
    ).run(deletes_inputs=True, tidies_up=tidies_up)
    if not tidies_up:
        assert len(names_in(archived)) == 3
        assert clean(archived) == 1
    assert len(names_in(archived)) == 2
    assert records_of(archived) == KEPT


@pytest.mark.parametrize("floor", [3, 10])
def test_inputs_that_retention_passes_meanwhile_are_deleted_with_the_others(
    archived: ArchivedPartition, floor: int
) -> None:
    """Retention that was killed behind its floor: nobody else may ever come to delete them."""

    def pass_floor(step: str) -> None:
        if step == MergeStepAt.RELEASE:
            archived.store.create(f"{archived.prefix}/{floor_name(floor)}", b"")

    inputs = [str(each.name) for each in look_at(archived).chain[:2]]
    assert erase(archived, b"gone", crash_point=pass_floor).deleted == 2
    assert not set(inputs) & set(names_in(archived))
    if archived.extension == PARQUET:
        assert SECRET not in all_bytes(archived)


def test_a_damaged_input_stops_the_erasure_and_nothing_is_published(archived: ArchivedPartition) -> None:
    key = f"{archived.prefix}/{look_at(archived).chain[1].name}"
    data = bytearray(archived.store.read(key))
    data[record_byte(bytes(data), archived.extension)] ^= 1
    archived.store.delete(key)
    archived.store.create(key, bytes(data))
    with pytest.raises(ChainBrokenError, match=f"^{re.escape(key)} "):
        erase(archived, b"gone")
    assert len([name for name in names_in(archived) if not name.startswith("_")]) == 4


def test_more_runs_of_erased_offsets_than_a_segment_lists_are_refused_with_a_remedy(
    archived: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two records are two runs, and the truncated offsets between them one more."""
    monkeypatch.setattr(making, "KNOWN_GAPS_MAX", 2)
    before = names_in(archived)
    with pytest.raises(
        UnsupportedError, match=r"would have 3 runs of erased or truncated offsets.* lists 2 at most"
    ) as it:
        erase(archived, b"gone")
    assert "copy the archive into smaller files" in it.value.hint
    assert names_in(archived) == before
    assert not audits(archived)
    monkeypatch.setattr(making, "KNOWN_GAPS_MAX", 3)
    assert erase(archived, b"gone", token="next").records == 2


def test_a_hold_that_was_placed_meanwhile_stops_it(archived: ArchivedPartition) -> None:
    archived.store.create("orders/_hold-case-7", b"")
    with pytest.raises(PositionMovedError, match="held by"):
        erase(archived, b"gone", holds=holds_as_they_are(archived))
    assert len(names_in(archived)) == 4
    assert not audits(archived)
    archived.store.delete("orders/_hold-case-7")
    assert erase(archived, b"gone", holds=holds_as_they_are(archived), token="next").records == 2


@pytest.mark.parametrize(
    ("sides", "told"), [((0b11, 0b11), ("key", "value")), ((0b11, 0b10), ("value",)), ((1, 2), ())]
)
def test_schema_ids_of_erased_records_are_not_counted_any_more(
    archived: ArchivedPartition, store: ObjectStore, sides: tuple[int, ...], told: tuple[str, ...]
) -> None:
    made = ArchivedPartition(store, destination_name="framed", partition=3, extension=archived.extension)
    for start, side_bits in zip((0, 3), sides, strict=True):
        segment_of(made, FRAMED[start : start + 3], start, schema_sides=side_bits).publish(
            end_offset=start + 3, trigger="max-time"
        )
    segment_of(made, HELD_AFTER, 6).publish(end_offset=7, trigger="max-time")

    erase(made, b"k")

    counted = {
        "key": SideCounts(nameless={Framing.NOT_FRAMED: Seen(1, 0), Framing.NULL: Seen(1, 2)}, names={9: Seen(1, 3)}),
        "value": SideCounts(nameless={}, names={7: Seen(2, 0), 8: Seen(1, 3)}),
    }
    assert footer_of(made, look_at(made).chain[0]).schema_ids == ({side: counted[side] for side in told} or None)
    assert check_archived_content(made) == 2


def test_what_a_store_only_says_to_have_deleted_is_not_called_erased(
    archived: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(archived.store), "delete", lambda _store, _key: None)
    with pytest.raises(PositionMovedError, match="still lists it: run again"):
        erase(archived, b"gone")
    monkeypatch.undo()
    clean(archived)
    assert records_of(archived) == KEPT


def test_what_was_made_and_the_store_has_lost_is_said_to_be_lost_and_nothing_is_deleted(
    archived: ArchivedPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look_at(archived).chain
    monkeypatch.setattr(MergePublication, "publish", lambda _publication, _staged: True)
    with pytest.raises(StoreUnusableError, match="was published, and is not there: the store has lost it"):
        erase(archived, b"gone")
    assert look_at(archived).chain == before
