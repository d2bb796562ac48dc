"""What an erasure owes in snapshots, on every store: the keys gone to the last byte, every other record as it was."""

import contextlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.claims import RangeClaim, encode_claim
from mirrorlake.archive.envelope import SegmentEnvelope, SnapshotState
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.gaps import GapReport
from mirrorlake.archive.inspection import inspect_names
from mirrorlake.archive.maintenance.erase_audit import audit_folder, key_hash
from mirrorlake.archive.maintenance.erased_keys import Key
from mirrorlake.archive.maintenance.erasing import Erased
from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.archive.maintenance.snapshot_publication import SnapshotEraseStep, clean_snapshots
from mirrorlake.archive.names import ClaimName, SegmentName
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshots_content, read_snapshot_footer, read_view
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError, OtherSourceError, PositionMovedError
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.sources.archive.known_segments import KnownSegments
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from support.golden import MIRROR_V3_SCHEMA
from unit.archive.sample_records import ORIGIN, Record, columns_of, records_in

SECRET = b"SECRET-SECRET-SECRET-SECRET-SECRET"
OLDER = [Record(3, b"a", b"v" * 2000), Record(5, b"gone", SECRET), Record(4, b"k", b"old")]
NEWEST = [
    Record(18, b"", b""),
    Record(3, b"a", b"v" * 2000),
    Record(11, b"gone", SECRET, headers=((b"h", SECRET),)),
    Record(12, b"k", b"new"),
    Record(15, b"t", None),
    Record(16, b"\xff", b"x", headers=((b"\xff\xfe", b"1"), (b"\xff\xfe", None)), timestamp_ms=-1, timestamp_type=-1),
]
TRUNCATED = Gap(offsets=OffsetRange(start_offset=10, end_offset=12), kind=GapKind.TRUNCATED)
STATE = SnapshotState(complete_since_ms=4711, is_exact=True, leader_epoch=7, holds_tombstones=True)
SALT = b"salt"


def kept(records: Sequence[Record], *keys: Key) -> list[Record]:
    return [record for record in records if record.key not in (keys or (b"gone",))]


def publish(folder: SnapshotPartition, first: int, last: int, records: Sequence[Record], *gaps: Gap) -> None:
    file = io.BytesIO()
    rows = ParquetRows(file, "orders", 3, compression=Compression.UNCOMPRESSED)
    rows.write(columns_of(records))
    envelope = SegmentEnvelope(
        cluster_id="cluster",
        topic_id="topic-id",
        topic="orders",
        partition=3,
        start_offset=first,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    counts = {gap.kind: len(gap.offsets) for gap in gaps}
    report = GapReport(offsets=counts, listed=gaps, is_complete=True)
    rows.close(envelope, end_offset=last + 1, gaps=report, leader_epoch=5, snapshot=STATE)
    name = SegmentName(from_offset=first, to_offset=last, extension="parquet")
    folder.store.create(f"{folder.prefix}/{name}", file.getvalue())


def folder_in(store: ObjectStore) -> SnapshotPartition:
    return SnapshotPartition(store, destination_name="orders", partition=3, extension="parquet")


@pytest.fixture
def folder(store: ObjectStore) -> SnapshotPartition:
    return filled(store)


def filled(store: ObjectStore) -> SnapshotPartition:
    made = folder_in(store)
    publish(made, 0, 9, OLDER)
    publish(made, 10, 19, NEWEST, TRUNCATED)
    return made


def erase(
    folder: SnapshotPartition,
    *keys: Key,
    snapshot: Segment | None = None,
    token: str = "token",
    crash_point: CrashPoint = no_crash,
) -> Erased:
    return SnapshotErase(
        folder=folder,
        snapshot=snapshot or folder.snapshots()[-1],
        keys=keys or (b"gone",),
        compression="uncompressed",
        writer="eraser",
        token=token,
        salt=SALT,
        clock=ManualClock(),
        crash_point=crash_point,
    ).run()


def names_in(folder: SnapshotPartition) -> list[str]:
    return sorted(info.name for info in folder.store.list(folder.prefix))


def named(*ranges: tuple[int, int]) -> list[str]:
    return [f"{first:020}-{last:020}.parquet" for first, last in ranges]


def view_of(folder: SnapshotPartition, snapshot: Segment | None = None) -> list[Record]:
    chosen = snapshot or folder.snapshots()[-1]
    return [each for part in read_view(folder.store, folder.prefix, chosen) for each in records_in(part)]


def all_bytes(folder: SnapshotPartition) -> bytes:
    found = [info.key for place in (folder.prefix, audit_folder(folder)) for info in folder.store.list(place)]
    return b"".join(folder.store.read(key) for key in found)


def audits(folder: SnapshotPartition) -> list[dict[str, object]]:
    return [json.loads(folder.store.read(info.key)) for info in folder.store.list(audit_folder(folder))]


def test_the_newest_snapshot_is_without_the_key_and_the_position_stays(folder: SnapshotPartition) -> None:
    erased = erase(folder)
    assert (erased.records, erased.deleted) == (1, 1)
    assert names_in(folder) == named((0, 9), (11, 19))
    chain = folder.read_chain()
    assert chain.position == 20
    assert view_of(folder) == kept(NEWEST)
    assert check_snapshots_content(folder) == 2
    assert not inspect_names(folder).problems
    assert chain.tail is not None
    footer = read_snapshot_footer(folder.store, folder.prefix, chain.tail)
    assert footer is not None
    assert footer.snapshot == SnapshotState(
        complete_since_ms=4711, is_exact=True, leader_epoch=7, holds_tombstones=True, erased=1
    )
    assert (footer.leader_epoch, footer.records, footer.gap_offsets) == (5, 5, {GapKind.TRUNCATED: 1})
    assert [gap.offsets for gap in footer.gaps] == [OffsetRange(start_offset=11, end_offset=12)]


def test_older_snapshots_lose_the_key_and_nothing_else(folder: SnapshotPartition) -> None:
    for snapshot in folder.snapshots():
        erase(folder, snapshot=snapshot, token=f"t{snapshot.name.from_offset}")
    assert names_in(folder) == named((1, 9), (11, 19))
    assert [view_of(folder, each) for each in folder.snapshots()] == [kept(OLDER), kept(NEWEST)]
    assert SECRET not in all_bytes(folder)


def test_an_older_snapshot_of_one_offset_is_deleted_and_the_newest_one_waits(store: ObjectStore) -> None:
    folder = folder_in(store)
    publish(folder, 9, 9, OLDER)
    publish(folder, 19, 19, NEWEST)
    older, newest = folder.snapshots()
    with pytest.raises(PositionMovedError, match="newest"):
        erase(folder, snapshot=newest)
    assert erase(folder, snapshot=older).records == 1
    assert names_in(folder) == named((19, 19))
    (audit,) = audits(folder)
    assert (audit["file"], audit["checksum"], audit["inputs"], audit["offsets"]) == (
        None,
        None,
        named((9, 9)),
        [[5, 6]],
    )


def test_an_audit_object_says_what_was_erased_and_not_the_key(folder: SnapshotPartition) -> None:
    erase(folder, b"gone", b"a", b"not there")
    (audit,) = audits(folder)
    footer = read_snapshot_footer(folder.store, folder.prefix, folder.snapshots()[-1])
    assert footer is not None
    assert {name: value for name, value in audit.items() if name != "created_at"} == {
        "format_version": 1,
        "cluster_id": "cluster",
        "topic_id": "topic-id",
        "topic": "orders",
        "partition": 3,
        "file": named((11, 19))[0],
        "checksum": {"algorithm": footer.algorithm, "value": footer.checksum},
        "inputs": named((10, 19)),
        "records": 2,
        "offsets": [[3, 4], [11, 12]],
        "offsets_complete": True,
        "key_hash": {"algorithm": "sha256", "salt": SALT.hex()},
        "keys": sorted(key_hash(key, SALT) for key in (b"gone", b"a")),
        "writer": "eraser",
    }
    assert b"gone" not in json.dumps(audit).encode()


@pytest.mark.parametrize("key", [b"", b"\xff", b"t"], ids=["empty", "binary", "of a tombstone"])
def test_empty_and_binary_keys_and_tombstones_are_each_themselves(folder: SnapshotPartition, key: bytes) -> None:
    assert erase(folder, key).records == 1
    assert view_of(folder) == kept(NEWEST, key)


def test_a_snapshot_is_erased_from_again_and_again(folder: SnapshotPartition) -> None:
    for number, record in enumerate(NEWEST):
        erase(folder, record.key, token=str(number))
    assert names_in(folder) == named((0, 9), (10 + len(NEWEST), 19))
    assert view_of(folder) == []
    assert check_snapshots_content(folder) == 2
    assert folder.read_chain().position == 20


def test_a_snapshot_of_mirror_v3_is_rewritten_and_says_whose_it_is_from_then_on(store: ObjectStore) -> None:
    folder = folder_in(store)
    rows = [
        {"topic": "orders", "partition": 3, "offset": offset, "timestamp_ms": 1, "timestamp_type": "create_time"}
        | {"key": key, "value": SECRET, "headers": []}
        for offset, key in ((7, b"a"), (4, b"gone"))
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=MIRROR_V3_SCHEMA), file)
    store.create(f"{folder.prefix}/{named((0, 9))[0]}", file.getvalue())
    erase(folder)
    assert [record.offset for record in view_of(folder)] == [7]
    footer = read_snapshot_footer(folder.store, folder.prefix, folder.snapshots()[-1])
    assert footer is not None
    assert (footer.envelope.topic, footer.envelope.cluster_id, footer.snapshot) == (
        "orders",
        "",
        SnapshotState(complete_since_ms=0, erased=1),
    )


class KilledError(Exception):
    """Ends an erasure where a process would die."""


@pytest.mark.parametrize("step", list(SnapshotEraseStep))
def test_an_erasure_killed_at_any_step_leaves_a_whole_snapshot_and_the_next_run_finishes(
    folder: SnapshotPartition, step: SnapshotEraseStep
) -> None:
    def kill(at: str) -> None:
        if at == step:
            raise KilledError

    with pytest.raises(KilledError):
        erase(folder, crash_point=kill)
    assert_finishes(folder)


@pytest.mark.parametrize("step", list(SnapshotEraseStep))
def test_a_process_that_is_killed_at_any_step_leaves_what_the_next_one_finishes(
    tmp_path: Path, step: SnapshotEraseStep
) -> None:
    folder = filled(FilesystemStore(tmp_path))
    child = os.fork()
    if not child:
        try:
            erase(folder, crash_point=lambda at: os.kill(os.getpid(), SIGKILL) if at == step else None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -SIGKILL
    assert_finishes(folder)
    FilesystemStore(tmp_path, stale_after_seconds=-1).sweep_staged(folder.prefix)
    newest = [file for file in tmp_path.rglob("*") if file.is_file() and f"{19:020}" in file.name]
    assert not any(SECRET in file.read_bytes() for file in newest)


def assert_finishes(folder: SnapshotPartition) -> None:
    assert folder.read_chain().position == 20
    assert view_of(folder) in (NEWEST, kept(NEWEST))
    check_snapshots_content(folder)
    dead = 4_000_000_000.0
    clean_snapshots(folder, token="next", now_seconds=dead)
    if b"gone" in {record.key for record in view_of(folder)}:
        erase(folder, token="next")
    clean_snapshots(folder, token="last", now_seconds=dead)
    # A store in memory does not say how old what a killed one has announced is, so there it stays.
    assert [name for name in names_in(folder) if not name.startswith("_retire-")] == named((0, 9), (11, 19))
    assert view_of(folder) == kept(NEWEST)
    assert audits(folder)


def test_what_was_replaced_goes_only_where_an_eraser_says_that_it_replaced_it(folder: SnapshotPartition) -> None:
    publish(folder, 15, 19, NEWEST)
    cleaned = clean_snapshots(folder, token="t", now_seconds=0.0)
    assert cleaned.files == 0
    assert "does not say that records were erased" in str(cleaned.flaws[0])
    assert names_in(folder) == named((0, 9), (10, 19), (15, 19))


@pytest.mark.parametrize("hold", ["_hold-case-7", "_hold-case-7.3", f"_hold-case-7.3.{0:020}-{1:020}"])
def test_a_hold_on_anything_of_the_partition_keeps_all_of_it(folder: SnapshotPartition, hold: str) -> None:
    folder.store.create(f"orders/{hold}", b"")
    with pytest.raises(PositionMovedError, match="held by case-7"):
        erase(folder)
    assert names_in(folder) == named((0, 9), (10, 19))
    assert not audits(folder)
    folder.store.delete(f"orders/{hold}")
    assert erase(folder, token="next").records == 1


def test_a_hold_that_comes_between_keeps_what_a_killed_eraser_has_left(folder: SnapshotPartition) -> None:
    def kill(at: str) -> None:
        if at == SnapshotEraseStep.DELETE:
            raise KilledError

    with pytest.raises(KilledError):
        erase(folder, crash_point=kill)
    folder.store.create("orders/_hold-case-7", b"")
    assert clean_snapshots(folder, token="t", now_seconds=0.0).files == 0
    assert named((10, 19))[0] in names_in(folder)
    assert view_of(folder) == kept(NEWEST)


def test_of_two_erasers_one_wins_and_the_other_runs_again(folder: SnapshotPartition) -> None:
    def erase_first(at: str) -> None:
        if at == SnapshotEraseStep.PUBLISH:
            erase(folder, b"k", token="other")

    with pytest.raises(PositionMovedError, match="another eraser"):
        erase(folder, crash_point=erase_first)
    assert view_of(folder) == kept(NEWEST, b"k")
    assert erase(folder, token="next").records == 1
    assert view_of(folder) == kept(NEWEST, b"k", b"gone")
    assert names_in(folder) == named((0, 9), (12, 19))


def test_an_eraser_that_others_have_passed_takes_back_what_it_published(folder: SnapshotPartition) -> None:
    """Two others were here since: the name that it makes is free again, and counts for nothing."""

    def erase_twice(at: str) -> None:
        if at == SnapshotEraseStep.PUBLISH:
            erase(folder, b"k", token="other")
            erase(folder, b"a", token="third")

    with pytest.raises(PositionMovedError):
        erase(folder, crash_point=erase_twice)
    assert names_in(folder) == named((0, 9), (12, 19))
    assert view_of(folder) == kept(NEWEST, b"k", b"a")


def test_an_eraser_whose_snapshot_was_removed_meanwhile_leaves_nothing_of_it(folder: SnapshotPartition) -> None:
    """By `keep-snapshots`, as it was an older one."""
    older = folder.snapshots()[0]

    def remove(at: str) -> None:
        if at == SnapshotEraseStep.PUBLISH:
            folder.store.delete(f"{folder.prefix}/{older.name}")

    with pytest.raises(PositionMovedError, match="removed meanwhile"):
        erase(folder, snapshot=older, crash_point=remove)
    assert names_in(folder) == named((10, 19))


def test_a_damaged_snapshot_stops_the_erasure_and_nothing_is_published(folder: SnapshotPartition) -> None:
    key = f"{folder.prefix}/{named((10, 19))[0]}"
    data = bytearray(folder.store.read(key))
    data[data.index(b"SECRET")] ^= 1
    folder.store.delete(key)
    folder.store.create(key, bytes(data))
    with pytest.raises(ChainBrokenError):
        erase(folder)
    assert names_in(folder) == named((0, 9), (10, 19))


def claim_of(folder: SnapshotPartition, from_offset: int, to_offset: int) -> None:
    name = ClaimName(from_offset=from_offset)
    claim = RangeClaim(to_offset=to_offset, extension="parquet", raw_bytes=1, writer="w", origin=ORIGIN)
    folder.store.create(f"{folder.prefix}/{name}", encode_claim(claim, name))


def test_what_a_store_only_says_to_have_deleted_is_not_called_erased(
    folder: SnapshotPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(folder.store), "delete", lambda _store, _key: None)
    with pytest.raises(PositionMovedError, match="still lists it: run again"):
        erase(folder)
    monkeypatch.undo()
    assert_finishes(folder)


def test_a_snapshot_of_one_offset_that_a_store_only_says_to_have_deleted_is_not_called_erased(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_in(store)
    publish(folder, 0, 0, [Record(0, b"gone", SECRET)])
    publish(folder, 1, 1, [Record(1, b"k", b"new")])
    monkeypatch.setattr(type(store), "delete", lambda _store, _key: None)
    with pytest.raises(PositionMovedError, match="still lists it: run again"):
        erase(folder, snapshot=folder.snapshots()[0])
    monkeypatch.undo()
    erase(folder, snapshot=folder.snapshots()[0], token="next")
    assert SECRET not in all_bytes(folder)


def test_a_claim_of_the_next_snapshot_is_waited_for(folder: SnapshotPartition) -> None:
    """Its writer may have read the old one; the new one counts all the same, whatever becomes of it."""
    claim_of(folder, 20, 29)
    with pytest.raises(PositionMovedError, match="a writer has claimed the next snapshot"):
        erase(folder)
    assert view_of(folder) == kept(NEWEST)
    assert named((10, 19))[0] not in names_in(folder)


@pytest.mark.parametrize("step", [SnapshotEraseStep.DELETE, SnapshotEraseStep.CONFIRM])
def test_a_writer_that_read_the_old_one_publishes_nothing(folder: SnapshotPartition, step: SnapshotEraseStep) -> None:
    """Whether the old one lies there still or is gone."""
    (_, behind) = folder.snapshots()
    said: list[str] = []

    def write_next(at: str) -> None:
        if at == step:
            publication = folder.publication(20, origin=ORIGIN, writer="w")
            with pytest.raises(PositionMovedError) as caught:
                publication.claim(29, raw_bytes=1, behind=behind)
            said.append(str(caught.value))

    with contextlib.suppress(PositionMovedError):  # it has claimed, which is waited for
        erase(folder, crash_point=write_next)
    assert "was rewritten" in said[0]
    assert folder.read_chain().position == 20


def test_what_is_known_of_the_old_one_leads_to_the_new_one(folder: SnapshotPartition) -> None:
    known = folder.read_chain().tail
    erase(folder)
    chain = folder.read_end(known) if known else None
    assert chain is not None
    assert chain.tail == folder.snapshots()[-1]


@pytest.mark.parametrize("holds_snapshots", [True, None], ids=["recorded", "not recorded"])
def test_a_reader_in_the_middle_is_told_and_a_new_one_reads_the_new_one(
    store: ObjectStore, holds_snapshots: bool | None
) -> None:
    folder = folder_in(store)
    publish(folder, 0, 19, NEWEST)
    pinned = named((0, 19))[0]
    source = SourceFolder(folder.store, folder.prefix, clock=ManualClock())
    assert source.look(holds_snapshots=True, reached=20, snapshot=pinned).snapshot is not None
    erase(folder)
    with pytest.raises(OtherSourceError, match=r"is gone, of which a copy was begun") as caught:
        source.look(holds_snapshots=True, reached=20, snapshot=pinned)
    assert "archive erase" in caught.value.hint
    view = source.look(holds_snapshots=True if holds_snapshots else None, reached=20)
    assert (view.start, view.end) == (0, 20)
    assert view.snapshot is not None
    opened = OpenSegment(
        folder.store,
        f"{folder.prefix}/{view.snapshot.name}",
        view.snapshot,
        is_snapshot=True,
        known=KnownSegments(),
    )
    read = [each for part in opened.records(OffsetRange(start_offset=0, end_offset=20)) for each in records_in(part)]
    opened.close()
    assert read == sorted(kept(NEWEST), key=lambda record: record.offset)
