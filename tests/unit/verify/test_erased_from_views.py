"""A key that was erased from snapshots is counted as erased where the source still has it, and nothing else is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.archive.maintenance.erase_audit import AUDIT_FOLDER, RecordedErasure, key_hash
from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kinds.copies import SnapshotSide
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.verify.erasures import Erasures
from mirrorlake.verify.view_verification import ViewsCompared, compare_sides
from mirrorlake.verify.view_worker import work
from mirrorlake.verify.worker import DigestResult, SourceSide
from support.archived_source import archive, settings_at, write_segment
from support.comparing import ORDERS, held, lake
from support.records import Record
from unit.archive.sample_records import Record as Sample
from unit.archive.sample_records import columns_of

FIRST_MS = 1_700_000_000_000
RECORDS = {n: Record(FIRST_MS + n, b"k%d" % (n % 5), b"v%d" % n) for n in range(12)}
"""The latest of k0 to k4 lie at 10, 11, 7, 8 and 9."""


def ask(task: BatchTask) -> DigestResult:
    (row,) = work(task.plan)
    assert task.description
    assert isinstance(row["result"], DigestResult)
    return row["result"]


@dataclass
class Copied:
    """A source and a folder of snapshots of it."""

    root: Path

    def __post_init__(self) -> None:
        for name in ("source", "copy"):
            (self.root / name).mkdir()
        archive(settings_at(self.root / "source"), ORDERS, held(RECORDS), (12,), form="parquet")
        archive(self.place, ORDERS, held(RECORDS), (12,), form="snapshot")

    @property
    def place(self) -> StoreSettings:
        return settings_at(self.root / "copy")

    def follow(self, records: Mapping[int, Record], end: int, *, copied: Mapping[int, Record]) -> None:
        """The source goes on to ``end``, and the next snapshot is made of what is ``copied``."""
        source = open_store(settings_at(self.root / "source"))
        write_segment(source, ORDERS, held({**RECORDS, **records}), 12, end, form="parquet")
        write_segment(open_store(self.place), ORDERS, held(copied), 12, end, form="snapshot")

    def erase(self, *keys: bytes, salt: bytes = b"salt", token: str = "a") -> None:
        store = open_store(self.place)
        folder = SnapshotPartition(store, destination_name="orders", partition=0, extension="parquet")
        SnapshotErase(
            folder=folder,
            snapshot=folder.snapshots()[-1],
            keys=keys,
            compression="uncompressed",
            writer="eraser",
            token=token,
            salt=salt,
            clock=ManualClock(),
        ).run()

    def compared(self, end: int = 12) -> ViewsCompared:
        return compare_sides(
            SourceSide(source_work=lake(settings_at(self.root / "source")), partition=ORDERS),
            SnapshotSide(store=self.place, destination_name="orders", partition=0, extension="parquet"),
            OffsetRange(start_offset=0, end_offset=end),
            ask=ask,
            latest_past=lambda _: {},
            largest_batch_bytes=1 << 20,
            what="orders-0",
        )

    @property
    def audits(self) -> list[Path]:
        return sorted((self.root / "copy" / "orders" / AUDIT_FOLDER / "0").iterdir())


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def without(records: Mapping[int, Record], *keys: bytes) -> dict[int, Record]:
    return {offset: record for offset, record in records.items() if record.key not in keys}


def test_nothing_is_erased_where_nobody_erased_anything(copied: Copied) -> None:
    assert copied.compared() == ViewsCompared(source_records=5, copy_records=5)


def test_keys_that_were_erased_are_counted_and_are_no_difference(copied: Copied) -> None:
    copied.erase(b"k2", b"k4")
    copied.erase(b"k0", salt=b"of another run", token="b")
    found = copied.compared()
    assert (found.source_records, found.copy_records, found.differences) == (5, 2, [])
    assert sorted(found.erased) == [(7, "missing"), (9, "missing"), (10, "missing")]


def test_a_key_stays_erased_in_the_snapshots_that_follow(copied: Copied) -> None:
    copied.erase(b"k2")
    more = {14: Record(FIRST_MS, b"k3", b"again")}
    copied.follow(more, 15, copied=without({**RECORDS, **more}, b"k2"))
    found = copied.compared(15)
    assert (found.differences, found.erased) == ([], [(7, "missing")])


def lost_beside_it(copied: Copied) -> None:
    """Another key is missing in the next snapshot."""
    copied.erase(b"k2")
    copied.follow({}, 15, copied=without(RECORDS, b"k2", b"k4"))


def lost_after_it(copied: Copied) -> None:
    """The key came again after it was erased, and that record is missing."""
    copied.erase(b"k4")
    copied.follow({14: Record(FIRST_MS, b"k4", b"again")}, 15, copied=without(RECORDS, b"k4"))


def stale(copied: Copied) -> None:
    """The next snapshot has an older record of the key in its place."""
    copied.erase(b"k4")
    copied.follow({}, 15, copied={offset: record for offset, record in RECORDS.items() if offset != 9})


def unrecorded(copied: Copied) -> None:
    """No audit object says that it was erased."""
    copied.erase(b"k4")
    for each in copied.audits:
        each.unlink()
    copied.follow({}, 15, copied=without(RECORDS, b"k4"))


@pytest.mark.parametrize(
    ("loss", "offset", "erased"),
    [(lost_beside_it, 9, [7]), (lost_after_it, 14, []), (stale, 9, []), (unrecorded, 9, [])],
)
def test_what_was_lost_is_missing_whatever_was_erased(
    copied: Copied, loss: Callable[[Copied], None], offset: int, erased: list[int]
) -> None:
    loss(copied)
    found = copied.compared(15)
    assert found.differences == [(offset, "missing")]
    assert [at for at, _ in found.erased] == erased


def test_a_key_that_the_source_brought_back_is_equal(copied: Copied) -> None:
    copied.erase(b"k4")
    copied.follow({}, 15, copied=RECORDS)
    found = copied.compared(15)
    assert (found.differences, found.erased) == ([], [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"format_version": 1, "key_hash": {"algorithm": "md5", "salt": ""}, "keys": []}',
        b'{"format_version": 1, "key_hash": {"algorithm": "sha256", "salt": "x"}, "keys": []}',
        b'{"format_version": 1, "key_hash": {"algorithm": "sha256", "salt": ""}, "keys": {}}',
    ],
)
def test_an_audit_object_that_cannot_be_read_is_named(copied: Copied, content: bytes) -> None:
    copied.erase(b"k4")
    (audit,) = copied.audits
    audit.write_bytes(content)
    with pytest.raises(ChainBrokenError, match=rf"{AUDIT_FOLDER}/0/{audit.name} cannot be read"):
        copied.compared()


def test_what_lies_beside_audit_objects_is_passed_over(copied: Copied) -> None:
    copied.erase(b"k4")
    (copied.audits[0].parent / "notes.txt").write_text("x")
    assert [at for at, _ in copied.compared().erased] == [9]


def test_of_two_erasures_with_one_salt_the_later_end_counts() -> None:
    hashes = frozenset({key_hash(b"k", b"s")})
    recorded = [RecordedErasure(end_offset=end, salt=b"s", key_hashes=hashes) for end in (8, 20, 12)]
    columns = columns_of([Sample(offset, key, b"") for offset, key in ((7, b"k"), (19, b"k"), (20, b"k"), (21, b"o"))])
    assert [each.start_offset for each in Erasures(recorded).named(columns)] == [7, 19]
