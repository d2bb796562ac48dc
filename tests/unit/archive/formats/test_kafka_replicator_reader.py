"""kafka-replicator's Parquet files: what they hold, exactly, and what is wrong with those that are something else."""

import io
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.kafka_replicator import kafka_times
from mirrorlake.archive.formats.name_check import Edge
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.layouts.registry import seen_as
from mirrorlake.errors import ChainBrokenError
from mirrorlake.foreign_layout import EmptyField, KafkaReplicatorLayout
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.memory import MemoryStore
from support.records import Record, every_kind
from support.replicator_archive import GO_ZERO_TIME_NS, REGION, encode_file, file_name, go_nanoseconds, key_of

RECORDS = {offset: Record(1_600_000_000_000 + offset, b"k%d" % offset, b"v%d" % offset) for offset in range(30)}


def some(first: int, last: int) -> dict[int, Record]:
    return {offset: RECORDS[offset] for offset in range(first, last + 1)}


def opened(
    content: bytes,
    first: int,
    last: int,
    *,
    served: tuple[int, int] | None = None,
    null_for_empty: frozenset[EmptyField] = frozenset(),
) -> SegmentReader:
    """The reader of a file that lies under a name, of a segment that it serves."""
    layout = KafkaReplicatorLayout(region=REGION, null_for_empty=null_for_empty)
    store = seen_as(layout, MemoryStore({key_of(first, last): content}))
    return open_segment(store, f"orders/0/{file_name(*(served or (first, last)))}.parquet")


def read(reader: SegmentReader, within: OffsetRange | None = None) -> dict[int, Record]:
    columns = RecordColumns.concat(list(reader.records(within=within)))
    return {
        int(offset): Record(
            int(columns.timestamps[row]),
            columns.keys[row].as_py(),
            columns.values[row].as_py(),
            tuple((each["key"].decode(), each["value"]) for each in columns.headers[row].as_py()),
        )
        for row, offset in enumerate(columns.offsets)
    }


def empty_for_null(records: Mapping[int, Record]) -> dict[int, Record]:
    """The same as kafka-replicator stores them."""
    return {
        offset: Record(
            each.timestamp, each.key or b"", each.value or b"", tuple((k, v or b"") for k, v in each.headers)
        )
        for offset, each in records.items()
    }


def test_every_field_that_a_file_has_is_read_and_null_is_empty() -> None:
    records = {3 + 2 * number: record for number, record in enumerate(every_kind(5))}
    first, last = min(records), max(records)
    with opened(encode_file(records), first, last) as reader:
        assert read(reader) == empty_for_null(records)
        assert reader.edges() == (Edge(partition=0, offset=first), Edge(partition=0, offset=last))
        assert reader.sources() == {("orders", 0)}
        assert reader.footer is None


@pytest.mark.parametrize("field", EmptyField)
def test_what_was_empty_is_null_where_it_is_said_to_have_been(field: EmptyField) -> None:
    records = dict(enumerate(every_kind(6)))

    def as_told(record: Record) -> Record:
        key, value, headers = record.key or b"", record.value or b"", [(k, v or b"") for k, v in record.headers]
        return Record(
            record.timestamp,
            (key or None) if field is EmptyField.KEY else key,
            (value or None) if field is EmptyField.VALUE else value,
            tuple((k, (v or None) if field is EmptyField.HEADER_VALUE else v) for k, v in headers),
        )

    with opened(encode_file(records), 0, len(records) - 1, null_for_empty=frozenset({field})) as reader:
        assert read(reader) == {offset: as_told(record) for offset, record in records.items()}


@pytest.mark.parametrize("row_group_rows", [1, 4, 7, 100])
@pytest.mark.parametrize("served", [(0, 29), (11, 29), (29, 29)])
def test_a_part_of_a_file_is_that_part_whatever_its_row_groups(row_group_rows: int, served: tuple[int, int]) -> None:
    content = encode_file(RECORDS, row_group_rows=row_group_rows)
    first, last = served
    with opened(content, 0, 29, served=served) as reader:
        assert read(reader) == some(first, last)
    for start in range(first, last + 1):
        with opened(content, 0, 29, served=served) as reader:
            within = OffsetRange(start_offset=start, end_offset=min(start + 5, last + 1))
            assert read(reader, within) == some(start, min(start + 4, last))


# --- times ----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 144 * 10**15), min_size=1))
def test_every_time_of_kafkas_comes_back_although_64_bits_of_nanoseconds_do_not_hold_it(times: list[int]) -> None:
    stored = np.array([go_nanoseconds(time) for time in times], np.int64)
    assert kafka_times(stored).tolist() == times


def test_a_record_without_a_time_has_none() -> None:
    stored = np.array([GO_ZERO_TIME_NS, 0, 1_000_000, -1_000_000], np.int64)
    assert kafka_times(stored).tolist() == [-1, 0, 1, -1]


def test_what_is_no_time_of_kafkas_is_refused() -> None:
    with pytest.raises(ValueError, match="1600000000000000001"):
        kafka_times(np.array([0, 1_600_000_000_000_000_001], np.int64))


# --- bad shapes -----------------------------------------------------------------------------------------------


def flipped(content: bytes) -> bytes:
    return content[:40] + bytes(b ^ 0xFF for b in content[40:80]) + content[80:]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(encode_file(some(0, 9))[:-20], "cannot be read", id="cut"),
        pytest.param(encode_file(some(0, 9), said={"messageCount": "11"}), "holds 10 records", id="another count"),
        pytest.param(encode_file(some(0, 9), said={"topic": None}), "does not say its topic", id="no topic"),
        pytest.param(encode_file(some(0, 9), topic="payments"), "its topic is payments", id="another topic"),
        pytest.param(encode_file(some(0, 9), partition=1), "its partition is 1", id="another partition"),
        pytest.param(encode_file(some(0, 9), region="eu-1"), "its region is eu-1", id="another region"),
        pytest.param(encode_file(some(1, 9)), "its startOffset is 1", id="another start"),
        pytest.param(encode_file(some(0, 12)), "ends at offset 12", id="a later end"),
        pytest.param(encode_file(some(0, 5)), "ends at offset 5", id="an earlier end"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused_by_its_own_name(content: bytes, text: str) -> None:
    with pytest.raises(ChainBrokenError, match=text) as refused:
        opened(content, 0, 9)
    assert key_of(0, 9) in str(refused.value)


def out_of_order() -> bytes:
    return encode_file({0: RECORDS[0], 2: RECORDS[2], 1: RECORDS[1], 9: RECORDS[9]})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(flipped(encode_file(some(0, 9))), "cannot be read", id="damaged pages"),
        pytest.param(encode_file(some(0, 5), last=9), "ends before offset 9", id="records missing at the end"),
        pytest.param(encode_file(some(1, 9) | {0: RECORDS[0]}, first=0, last=9), "order", id="first record last"),
        pytest.param(out_of_order(), "order", id="out of order"),
        pytest.param(encode_file({0: Record(-7, None, None)} | some(1, 9)), "", id="sound"),
    ],
)
def test_records_that_are_not_what_they_should_be_are_refused_by_the_files_name(content: bytes, text: str) -> None:
    with opened(content, 0, 9) as reader:
        if not text:
            assert read(reader)[0] == Record(-1, b"", b"")
            return
        with pytest.raises(ChainBrokenError, match=text) as refused:
            reader.check_content()
    assert key_of(0, 9) in str(refused.value)


def test_a_file_that_compaction_named_by_too_low_an_end_is_named_with_the_name_it_should_have() -> None:
    content = encode_file(some(0, 20), last=12)
    with opened(content, 0, 12) as reader, pytest.raises(ChainBrokenError) as refused:
        reader.check_content()
    assert f"{20:020}" in str(refused.value)

    # Under that name all of it is read, although it says of itself that it ends earlier.
    with opened(content, 0, 20) as reader:
        assert read(reader) == some(0, 20)


def test_a_file_of_another_program_is_told_by_its_columns() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"key": [b"a"], "offset": [0]}), file)
    with pytest.raises(ChainBrokenError, match="no columns"):
        opened(file.getvalue(), 0, 9)
