"""Proving a merged log: read as often for a thousand parts as for one, and any part it does not hold is named."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from contract.test_archive_formats import segment_of
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.registry import LOG, open_segment
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.archive.maintenance.proof import Content, content_of, content_without, prove_holds
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batches import Batch
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.memory import MemoryStore
from unit.archive.sample_records import Record

COUNT = 12
"""Segments of two records and a gap each, and the newest one behind them."""


class CountingReader(LogSegmentReader):
    """Counts how often the batches are gone through, and the batches that are decoded."""

    passes = 0
    decoded_batches = 0

    def batches(self) -> Iterator[list[Batch]]:
        self.passes += 1
        return super().batches()

    def decoded(self, batches: Sequence[Batch]) -> Iterator[RecordColumns]:
        self.decoded_batches += len(batches)
        return super().decoded(batches)


def archive_of_logs() -> ArchivedPartition:
    archived = ArchivedPartition(MemoryStore(), destination_name="orders", partition=3, extension=LOG)
    for start in range(0, 3 * (COUNT + 1), 3):
        records = [Record(start, b"k", b"v %d" % start), Record(start + 1, b"k", None)]
        segment_of(archived, records, start).publish(end_offset=start + 3, trigger="max-time")
    return archived


def merged(archived: ArchivedPartition) -> tuple[bytes, SegmentFooter]:
    """The bytes and the description of the one segment that all but the newest become."""
    GroupMerge(
        archived,
        look_at(archived).chain[:-1],
        compression="zstd-1",
        writer="merger",
        token="token",
        clock=ManualClock(),
    ).run(deletes_inputs=False)
    key = f"{archived.prefix}/{look_at(archived).chain[0].name}"
    with open_segment(archived.store, key) as reader:
        assert reader.footer is not None
        return archived.store.read(key), reader.footer


def prove(data: tuple[bytes, SegmentFooter], parts: list[Content]) -> CountingReader:
    reader = CountingReader(io.BytesIO(data[0]), footer=data[1], where="the merged one")
    with reader:
        prove_holds(reader, where="the merged one", parts=parts)
    return reader


def known(content: Content | None) -> Content:
    assert content is not None
    return content


@pytest.fixture
def held() -> tuple[ArchivedPartition, tuple[Segment, ...], tuple[bytes, SegmentFooter]]:
    archived = archive_of_logs()
    return archived, look_at(archived).chain[:-1], merged(archived)


Held = tuple[ArchivedPartition, tuple[Segment, ...], tuple[bytes, SegmentFooter]]


def test_a_log_is_gone_through_as_often_for_many_parts_as_for_one(held: Held) -> None:
    archived, segments, data = held
    parts = [known(content_of(archived, each)) for each in segments]
    decoded = [known(content_without(archived, each, OffsetRuns.of(()))) for each in segments]
    assert len(parts) == len(decoded) == COUNT
    passes = {prove(data, each).passes for each in (parts[:1], parts, decoded, [*parts, *decoded])}
    assert passes == {2}, "once for its own sum, once for those of the parts"


def test_only_batches_of_parts_without_their_erased_records_are_decoded(held: Held) -> None:
    archived, segments, data = held
    one = OffsetRuns.of([OffsetRange(start_offset=7, end_offset=8)])
    part = known(content_without(archived, segments[2], one))
    assert part.records == 1
    others = [known(content_of(archived, each)) for each in segments if each is not segments[2]]
    assert prove(data, [part, *others]).decoded_batches == 1


def test_a_part_that_is_not_held_is_found_among_many_whatever_it_is_compared_by(held: Held) -> None:
    archived, segments, data = held
    parts = [known(content_of(archived, each)) for each in segments]
    decoded = [known(content_without(archived, each, OffsetRuns.of(()))) for each in segments]
    whole = Content(offsets=data[1].offsets, records=data[1].records, checksum=data[1].checksum)
    prove(data, [whole, *parts, *decoded])  # ranges may hold one another
    for number in range(COUNT):
        for right in (parts, decoded):
            wrong = [*right[:number], replace(right[number], checksum="0" * 32), *right[number + 1 :]]
            with pytest.raises(ChainBrokenError, match="with checksum"):
                prove(data, wrong)
            fewer = [*right[:number], replace(right[number], records=1), *right[number + 1 :]]
            with pytest.raises(ChainBrokenError, match="2 records of"):
                prove(data, fewer)
