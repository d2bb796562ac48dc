"""Ends of Parquet files, made anew: as Arrow makes them, and right for pages that lie elsewhere."""

import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.formats.parquet_layout import (
    MAGIC,
    FileEnd,
    UnfamiliarLayoutError,
    check_familiar,
    moved_groups,
    read_end,
    written_end,
    written_metadata,
)
from mirrorlake.archive.formats.thrift_compact import Field, Kind, Struct, ThriftList, decode_struct
from mirrorlake.page_compression import Compression
from unit.archive.formats.test_parquet import written
from unit.archive.sample_records import AWKWARD, Record

MANY = [Record(10 + number, b"k", b"v" * 900) for number in range(45_000)]
"""Three row groups; 20 000 rows make a page."""


@pytest.fixture(scope="module", params=[Compression.ZSTD_1, Compression.UNCOMPRESSED])
def data(request: pytest.FixtureRequest) -> bytes:
    return written(MANY, end_offset=10 + len(MANY), compression=request.param)[0]


def end_in(data: bytes) -> FileEnd:
    return read_end(io.BytesIO(data))


def test_an_end_made_anew_is_the_one_that_arrow_made_byte_for_byte(data: bytes) -> None:
    end = end_in(data)
    assert len(end.groups) == 3
    made = written_end(moved_groups(end, 0), end.key_values, start=end.pages_end)
    assert made == data[end.pages_end :]
    check_familiar(end)


def test_moved_pages_are_found_by_arrow_where_they_lie(data: bytes) -> None:
    end, before = end_in(data), b"x" * 1000
    pages = data[len(MAGIC) : end.pages_end]
    start = len(MAGIC) + len(before)
    made = MAGIC + before + pages
    made += written_end(moved_groups(end, len(before)), end.key_values, start=start + len(pages))
    assert pq.read_table(io.BytesIO(made)).equals(pq.read_table(io.BytesIO(data)))
    moved = pq.ParquetFile(io.BytesIO(made)).metadata.row_group(2).column(6)
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(2).column(6)
    assert moved.data_page_offset == column.data_page_offset + len(before)
    assert moved.has_offset_index
    assert locations_in(made) == [at + len(before) for at in locations_in(data)]
    assert locations_in(data)[0] == pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset


def locations_in(data: bytes) -> list[int]:
    """Where the offset indexes say that pages lie, in the order in which they stand there."""
    end, found = end_in(data), []
    for group in end.groups:
        for chunk in structs(group, 1):
            offset = chunk[4].value
            assert isinstance(offset, int)
            index, _ = decode_struct(data, offset)
            found += [location[1].value for location in structs(index, 1)]
    assert len(found) > 3 * 10
    return found  # type: ignore[return-value]


def structs(struct: Struct, number: int) -> list[Struct]:
    found = struct[number].value
    assert isinstance(found, ThriftList)
    return list(found.items)  # type: ignore[arg-type]


def test_row_groups_of_two_files_are_one_file(data: bytes) -> None:
    """The file twice, as by two that were read one after the other."""
    end = end_in(data)
    pages = data[len(MAGIC) : end.pages_end]
    groups = [*moved_groups(end, 0), *moved_groups(end, len(pages))]
    made = (
        MAGIC + pages + pages + written_end(groups, {**end.key_values, b"a": b"1"}, start=len(MAGIC) + 2 * len(pages))
    )
    table = pq.read_table(io.BytesIO(data))
    assert pq.read_table(io.BytesIO(made)).equals(pa.concat_tables([table, table]))
    metadata = pq.ParquetFile(io.BytesIO(made)).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (2 * len(MANY), 6)
    assert metadata.metadata == {**end.key_values, b"a": b"1"}


def test_a_file_without_row_groups_has_an_end_too() -> None:
    end = end_in(written(end_offset=21)[0])
    assert (end.groups, end.records, end.codecs()) == ([], 0, set())
    made = MAGIC + written_end([], {}, start=len(MAGIC))
    assert pq.read_table(io.BytesIO(made)).num_rows == 0
    assert pq.ParquetFile(io.BytesIO(made)).schema_arrow.names[2] == "offset"


def small() -> FileEnd:
    return end_in(written(list(AWKWARD))[0])


def with_field(struct: Struct, number: int, value: int = 1) -> Struct:
    return {**struct, number: Field(Kind.I64, value)}


def changed(end: FileEnd, *, group: int = 0, chunk: int = 0, metadata: int = 0, value: int = 1) -> FileEnd:
    """The same with a further field, of this number, in its row group, a column chunk, or that one's metadata."""
    (first,) = end.groups
    chunks = structs(first, 1)
    if chunk:
        chunks[0] = with_field(chunks[0], chunk, value)
    if metadata:
        inner = chunks[0][3].value
        assert isinstance(inner, dict)
        chunks[0] = {**chunks[0], 3: Field(Kind.STRUCT, with_field(inner, metadata, value))}
    first = {**first, 1: Field(Kind.LIST, ThriftList(Kind.STRUCT, chunks))}
    first = with_field(first, group, value) if group else first
    return replace(end, metadata={**end.metadata, 4: Field(Kind.LIST, ThriftList(Kind.STRUCT, [first]))})


@pytest.mark.parametrize("group", [4, 8])
def test_a_row_group_with_what_is_not_known_is_not_moved(group: int) -> None:
    with pytest.raises(UnfamiliarLayoutError):
        moved_groups(changed(small(), group=group), 0)


@pytest.mark.parametrize("chunk", [1, 8, 9, 10])
def test_a_column_chunk_elsewhere_or_encrypted_is_not_moved(chunk: int) -> None:
    with pytest.raises(UnfamiliarLayoutError):
        moved_groups(changed(small(), chunk=chunk), 0)


@pytest.mark.parametrize("metadata", [10, 14, 15, 17, 30])
def test_bloom_filters_index_pages_and_later_inventions_are_not_moved(metadata: int) -> None:
    with pytest.raises(UnfamiliarLayoutError):
        moved_groups(changed(small(), metadata=metadata), 0)


def test_what_is_known_and_not_written_is_moved_along() -> None:
    (group,) = moved_groups(changed(small(), metadata=16), 7)
    assert group.chunks
    (group,) = moved_groups(changed(small(), chunk=2, value=100), 7)
    assert group.chunks[0].file_offset == 107


@pytest.mark.parametrize("chunk", [4, 5, 6])
def test_an_index_that_does_not_lie_behind_the_pages_is_not_moved(chunk: int) -> None:
    with pytest.raises(UnfamiliarLayoutError):
        moved_groups(changed(small(), chunk=chunk, value=1 << 40), 0)


@pytest.mark.parametrize("number", [8, 9, 12])
def test_a_file_with_further_fields_is_not_familiar(number: int) -> None:
    end = small()
    check_familiar(end)
    with pytest.raises(UnfamiliarLayoutError):
        check_familiar(replace(end, metadata=with_field(end.metadata, number)))


def test_files_of_other_columns_or_writers_are_not_familiar() -> None:
    end, other = small(), io.BytesIO()
    pq.write_table(pa.table({"offset": [1]}), other)
    with pytest.raises(UnfamiliarLayoutError, match="other columns"):
        check_familiar(read_end(other))
    with pytest.raises(UnfamiliarLayoutError, match="another library"):
        check_familiar(replace(end, metadata={**end.metadata, 6: Field(Kind.BINARY, b"parquet-mr version 1.0")}))
    assert 4 in written_metadata()


@pytest.mark.parametrize("cut", [0, 3, 8, 20, 500])
def test_what_is_no_whole_file_has_no_end(cut: int) -> None:
    data = written(list(AWKWARD))[0]
    with pytest.raises(UnfamiliarLayoutError):
        end_in(data[: len(data) - 1 - cut])
    with pytest.raises(UnfamiliarLayoutError):
        end_in(data[:cut])
