"""Looking for records of some keys: in which segments they are, and how many."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.maintenance.erased_keys import Key, KeySet
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectMissingError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """How many records of the keys each segment holds, those without any left out; ``gone`` were not there any more."""

    records: Mapping[SegmentName, int] = field(default_factory=dict)
    gone: tuple[SegmentName, ...] = ()


def scan(
    archived: ArchivedPartition, segments: Sequence[Segment], keys: Collection[Key], *, are_snapshots: bool = False
) -> Scanned:
    """Reads segments, compares them with what they say of their bytes, and counts the records of some keys.

    Raises:
        ChainBrokenError: one is damaged.
        MirrorlakeError: the store could not be read.
    """
    wanted = KeySet(keys)
    found: dict[SegmentName, int] = {}
    gone: list[SegmentName] = []
    for segment in segments:
        try:
            count = _count(archived, segment, wanted, is_snapshot=are_snapshots)
        except ObjectMissingError:
            gone.append(segment.name)
            continue
        if count:
            found[segment.name] = count
    return Scanned(records=found, gone=tuple(gone))


def _count(archived: ArchivedPartition, segment: Segment, wanted: KeySet, *, is_snapshot: bool) -> int:
    """Returns how many records of the keys a segment holds.

    One that was cut between two records reads as well as a whole one, and so does one with another byte in a key.
    Nothing would be known of what is gone from it, and a record that is to be erased would not be found.
    """
    with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
        count = read = 0
        for keys in _keys_of(reader, is_snapshot=is_snapshot):
            read += len(keys)
            count += int(wanted.rows(keys).sum())
        if reader.footer is not None and read != reader.footer.records:
            raise ChainBrokenError(
                f"{archived.prefix}/{segment.name} holds {read} records, and says of itself that it holds "
                f"{reader.footer.records}",
                hint="the file is damaged or not whole: put it back from a copy, or archive the range again",
            )
        return count


def _keys_of(reader: SegmentReader, *, is_snapshot: bool) -> Iterator[pa.Array]:
    """Yields the keys of all records, once all bytes were compared with what the segment says of them.

    Nothing can be compared of what mirror-v3 wrote, nor of a log whose description is lost but its batches.
    """
    reader.check_bytes()
    if isinstance(reader, ParquetSegmentReader):
        for batch in reader.columns(["key"], is_view=is_snapshot):
            yield batch.column("key")
        return
    for columns in reader.records():
        yield columns.keys
