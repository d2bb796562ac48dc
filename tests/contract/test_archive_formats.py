"""What an archive owes in every format on every store: published, described, read back, checked, and damage told."""

import io
from dataclasses import replace
from uuid import UUID

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats import log_reader
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.registry import LOG, NDJSON, PARQUET, open_segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Step
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, create_sidecar, sidecar_folder, sidecar_key
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.cut import CutRule
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.destinations.archive.segment_encoding import encoding_for
from mirrorlake.errors import ChainBrokenError, PositionMovedError, StoreUnavailableError
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts, Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectStore
from unit.archive.sample_records import Record, columns_of, records_in

TIME_MS = 1_700_000_000_000
HELD = (
    [Record(0, b"k", b"v" * 2000), Record(1, None, None, headers=((b"a", None), (b"a", b"1"))), Record(2, b"", b"")],
    [Record(5, b"k", b"w"), Record(6, b"k", None, timestamp_ms=TIME_MS - 5)],
)
"""Of offsets 0 to 2, and of 3 to 9: what is not here is a gap, and 3 and 4 were truncated."""


GUID = UUID(int=77)
FRAMED = [
    Record(0, b"plain", b"\0\0\0\0\7a"),
    Record(1, b"k", None),
    Record(2, None, b"\0\0\0\0\7b"),
    Record(3, b"\0\0\0\0\x09", b"body alone", headers=((b"__value_schema_id", b"\0\0\0\0\x08"),)),
    Record(4, b"k", b"\0\0\0\0\7c"),
    Record(5, b"k", b"\1" + GUID.bytes + b"d"),
]
"""Records whose values name the schemas 7, 8 and one by its GUID; one key names another."""


@pytest.fixture(params=[PARQUET, NDJSON, LOG])
def archived(request: pytest.FixtureRequest, store: ObjectStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=3, extension=request.param)


def segment_of(
    archived: ArchivedPartition,
    records: list[Record],
    start: int,
    *gaps: Gap,
    select: str = "",
    schema_sides: int = 0,
    crash_point: CrashPoint = no_crash,
) -> OpenSegment:
    """A segment with these records in it, to be published."""
    encoding = encoding_for(archived.extension, compression="zstd-1", schema_sides=schema_sides)
    begun = OpenSegment(
        archived,
        source=TopicPartition("orders", 3),
        cluster_id="cluster",
        topic_id="topic-id",
        make_writer=encoding.begin,
        writer="test",
        start_offset=start,
        clock=ManualClock(),
        select=select,
        crash_point=crash_point,
    )
    for gap in gaps:
        begun.add_gap(gap)
    data = encode_batch(columns_of(records), codec=Codec.ZSTD, base_offset=records[0].offset)
    batches = list(walk(memoryview(bytes(data))))
    for _ in encoding.take(batches, start_offset=start, covered_end=batches[-1].header.next_offset):
        encoding.write(None)
    begun.schema_ids = encoding.schema_ids
    return begun


def write_both(archived: ArchivedPartition) -> None:
    truncated = Gap(offsets=OffsetRange(start_offset=3, end_offset=5), kind=GapKind.TRUNCATED)
    for records, start, end, gaps in ((HELD[0], 0, 3, ()), (HELD[1], 3, 10, (truncated,))):
        flush = segment_of(archived, records, start, *gaps).publish(end_offset=end, trigger="max-time")
        assert (flush.offsets, flush.records, flush.is_ours) == (
            OffsetRange(start_offset=start, end_offset=end),
            len(records),
            True,
        )


def tail_of(archived: ArchivedPartition) -> Segment:
    tail = archived.read_chain().tail
    assert tail is not None
    return tail


def test_segments_are_published_described_read_and_sound(archived: ArchivedPartition) -> None:
    write_both(archived)
    chain = archived.read_chain()
    assert (chain.position, chain.segment_count, chain.claims) == (10, 2, ())
    found = [
        record
        for columns in read_archived_range(archived, OffsetRange(start_offset=1, end_offset=6))
        for record in records_in(columns)
    ]
    assert found == [HELD[0][1], HELD[0][2], HELD[1][0]]
    assert check_archived_content(archived) == 2
    described = 2 if archived.extension in FORMATS_WITH_SIDECAR else 0
    assert len(list(archived.store.list(sidecar_folder(archived.prefix)))) == described
    assert archived.find_end().position == archived.read_tail(chain.tail).position == 10


def said_of_ids(archived: ArchivedPartition, segment: Segment) -> SchemaIdCounts | None:
    with open_segment(archived.store, f"{archived.prefix}/{segment.name}") as reader:
        assert reader.footer is not None
        return reader.footer.schema_ids


def test_segments_say_which_schema_ids_their_records_name(archived: ArchivedPartition) -> None:
    segment_of(archived, FRAMED[:4], 0, schema_sides=0b11).publish(end_offset=4, trigger="max-time")
    tail = tail_of(archived)
    assert said_of_ids(archived, tail) == {
        "key": SideCounts(nameless={Framing.NOT_FRAMED: Seen(2, 0), Framing.NULL: Seen(1, 2)}, names={9: Seen(1, 3)}),
        "value": SideCounts(nameless={Framing.NULL: Seen(1, 1)}, names={7: Seen(2, 0), 8: Seen(1, 3)}),
    }
    segment_of(archived, FRAMED[4:], 4, schema_sides=0b10).publish(end_offset=10, trigger="max-time")
    assert said_of_ids(archived, tail_of(archived)) == {
        "value": SideCounts(nameless={}, names={7: Seen(1, 4), GUID: Seen(1, 5)})
    }
    assert check_archived_content(archived) == 2


def test_a_segment_that_is_cut_inside_of_a_batch_counts_its_own_records(archived: ArchivedPartition) -> None:
    encoding = encoding_for(archived.extension, compression="zstd-1", schema_sides=0b10)
    envelope = SegmentEnvelope(
        cluster_id="c",
        topic_id=None,
        topic="orders",
        partition=3,
        start_offset=0,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    data = encode_batch(columns_of(FRAMED), codec=Codec.ZSTD, base_offset=0)
    encoding.begin(io.BytesIO(), envelope)
    for _ in encoding.take(list(walk(memoryview(bytes(data)))), start_offset=0, covered_end=6):
        rule = CutRule(records_max=99, bytes_max=1 << 30, end_offset=4, end_trigger="end", is_end_settled=True)
        cut = encoding.find_cut(rule, covered_end=6)
        encoding.write(cut)
        before = encoding.schema_ids
        encoding.begin(io.BytesIO(), replace(envelope, start_offset=4))
        encoding.write(None)
    assert before == {"value": SideCounts(nameless={Framing.NULL: Seen(1, 1)}, names={7: Seen(2, 0), 8: Seen(1, 3)})}
    assert encoding.schema_ids == {"value": SideCounts(nameless={}, names={7: Seen(1, 4), GUID: Seen(1, 5)})}


def test_schema_ids_that_a_segment_does_not_have_are_told(archived: ArchivedPartition) -> None:
    begun = segment_of(archived, FRAMED[:4], 0)
    begun.schema_ids = {"value": SideCounts(nameless={Framing.NULL: Seen(1, 1)}, names={7: Seen(3, 0)})}
    begun.publish(end_offset=4, trigger="max-time")
    with pytest.raises(ChainBrokenError, match=r"schema ids .*\[7, 3, 0\].*\[8, 1, 3\]"):
        check_archived_content(archived)


def test_of_two_writers_of_one_range_the_second_finds_the_first_ones_segment(archived: ArchivedPartition) -> None:
    mine, theirs = segment_of(archived, HELD[0], 0), segment_of(archived, HELD[0][1:], 0)
    assert mine.publish(end_offset=3, trigger="max-time").is_ours
    with pytest.raises(PositionMovedError):
        theirs.publish(end_offset=3, trigger="max-time")
    theirs.discard()
    assert archived.read_chain().position == 3
    assert check_archived_content(archived) == 1


def test_a_writer_goes_on_behind_one_that_died_between_description_and_segment(archived: ArchivedPartition) -> None:
    def die_before_publishing(step: str) -> None:
        if step == Step.PUBLISH_SEGMENT:
            raise StoreUnavailableError(step)

    died = segment_of(archived, HELD[0], 0, crash_point=die_before_publishing)
    with pytest.raises(StoreUnavailableError, match="publish segment"):
        died.publish(end_offset=3, trigger="max-time")
    died.discard()
    # The topic was compacted since: the next writer has other bytes, and describes them beside.
    assert segment_of(archived, HELD[0][1:], 0).publish(end_offset=3, trigger="max-time").is_ours
    assert check_archived_content(archived) == 1
    described = 2 if archived.extension in FORMATS_WITH_SIDECAR else 0
    assert len(list(archived.store.list(sidecar_folder(archived.prefix)))) == described
    assert archived.read_chain().claims == ()


def test_a_byte_changed_in_the_store_is_told(archived: ArchivedPartition) -> None:
    write_both(archived)
    key = f"{archived.prefix}/{tail_of(archived).name}"
    data = bytearray(archived.store.read(key))
    data[len(data) // 2] ^= 1
    archived.store.delete(key)
    archived.store.create(key, bytes(data))
    with pytest.raises(ChainBrokenError, match=str(tail_of(archived).name)):
        check_archived_content(archived)


def test_a_description_that_is_lost_is_told(archived: ArchivedPartition) -> None:
    write_both(archived)
    key = f"{archived.prefix}/{tail_of(archived).name}"
    archived.store.delete(sidecar_key(key))
    if archived.extension not in FORMATS_WITH_SIDECAR:
        assert check_archived_content(archived) == 2, "a footer is in the file"
        return
    with pytest.raises(ChainBrokenError, match="has no description"):
        check_archived_content(archived)


def log_in_blocks(store: ObjectStore) -> tuple[str, bytes]:
    """Publishes a log of five batches with checksums of blocks of 300 bytes; returns its key and bytes."""
    envelope = SegmentEnvelope(
        cluster_id="cluster",
        topic_id="topic-id",
        topic="orders",
        partition=3,
        start_offset=0,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    records = [Record(offset, b"k", bytes([offset]) * 400) for offset in range(5)]
    data = b"".join(encode_batch(columns_of([each]), codec=Codec.NONE, base_offset=each.offset) for each in records)
    staged = store.stage("orders/3", "test")
    writer = LogSegmentWriter(staged.file, envelope, block_bytes=300)
    writer.write([log_batch(batch) for batch in walk(memoryview(data))])
    key = f"orders/3/{SegmentName(from_offset=0, to_offset=4, extension=LOG)}"
    create_sidecar(store, key, writer.close(end_offset=5))
    staged.publish(key)
    return key, data


def offsets_read(store: ObjectStore, key: str, found: list[int]) -> None:
    with open_segment(store, key) as segment:
        for columns in segment.records():
            found.extend(columns.offsets.tolist())


def test_a_log_is_compared_block_by_block_as_it_is_read(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "READ_BYTES", 900)
    key, data = log_in_blocks(store)
    found: list[int] = []
    offsets_read(store, key, found)
    assert found == [0, 1, 2, 3, 4]
    with open_segment(store, key) as segment:
        segment.check_content()
    at = len(data) // 2
    store.delete(key)
    store.create(key, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    found.clear()
    block = at // 300 * 300
    with pytest.raises(ChainBrokenError, match=f"{key} has other bytes from {block} to {block + 299} than"):
        offsets_read(store, key, found)
    assert found == [offset for offset in range(5) if (offset + 1) * len(data) // 5 <= block] == [0]
