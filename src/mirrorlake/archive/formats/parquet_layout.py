"""Where things lie in a Parquet file, by the bytes of its footer, so that its row groups can be moved to another file.

A row group is moved whole: its pages say nothing of where they lie, so their bytes stay as they are, and what says so
is written anew: the row group's part of the footer, and its offset indexes. What is not known here may say it too, so a
file with anything unfamiliar is not moved. Source: ``parquet.thrift`` of Apache Parquet's format.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import BinaryIO

import pyarrow.parquet as pq

from mirrorlake.archive.formats.parquet_schema import WRITTEN_SCHEMA
from mirrorlake.archive.formats.thrift_compact import (
    Field,
    Kind,
    Struct,
    ThriftError,
    ThriftList,
    decode_struct,
    encode_struct,
)

MAGIC = b"PAR1"

END_BYTES_MAX = 64 << 20
"""Indexes and footer of a file whose row groups are moved, at most: they are held in memory."""

_LENGTH_BYTES = 4
_WRITERS = b"parquet-cpp-arrow version "

# Numbers of fields. Those that hold a position in the file are named one by one.
_SCHEMA, _ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY, _COLUMN_ORDERS = 2, 3, 4, 5, 6, 7
_FILE_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7})
_COLUMNS, _TOTAL_BYTES, _GROUP_ROWS, _GROUP_FILE_OFFSET, _GROUP_COMPRESSED_BYTES, _ORDINAL = 1, 2, 3, 5, 6, 7
_GROUP_FIELDS = frozenset({1, 2, 3, 5, 6, 7})  # without the order of rows that a writer may claim (4)
_CHUNK_FILE_OFFSET, _CHUNK_METADATA, _CHUNK_OFFSET_INDEX, _CHUNK_COLUMN_INDEX = 2, 3, 4, 6
_CHUNK_FIELDS = frozenset({2, 3, 4, 5, 6, 7})  # without other files (1) and encryption (8, 9)
_CODEC, _COMPRESSED_BYTES, _DATA_PAGE, _DICTIONARY_PAGE = 4, 7, 9, 11
_METADATA_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16})  # without index pages (10), Bloom filters
_LOCATIONS, _LOCATION_OFFSET = 1, 1
_INDEX_FIELDS, _LOCATION_FIELDS = frozenset({1, 2}), frozenset({1, 2, 3})


class UnfamiliarLayoutError(ValueError):
    """The file has something of which it is not known how to move it; it may be sound all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd:
    """What lies behind the pages of a Parquet file.

    Attributes:
        metadata: its ``FileMetaData``.
        pages_end: where the last page ends; the first one begins behind the four bytes of the mark.
        indexes: the bytes from there to the footer.
        footer: the bytes from there on: the metadata, its length, and the mark.
    """

    metadata: Struct
    pages_end: int
    indexes: bytes
    footer: bytes

    @property
    def groups(self) -> list[Struct]:
        """The row groups, as the footer describes them."""
        return _structs(self.metadata, _ROW_GROUPS)

    @property
    def key_values(self) -> dict[bytes, bytes]:
        """The key-value metadata."""
        if _KEY_VALUES not in self.metadata:
            return {}
        return {_bytes(pair, 1): _bytes(pair, 2) if 2 in pair else b"" for pair in _structs(self.metadata, _KEY_VALUES)}

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes of all pages before they were compressed."""
        return sum(_number(group, _TOTAL_BYTES) for group in self.groups)

    @property
    def records(self) -> int:
        """How many rows all row groups have."""
        return sum(_number(group, _GROUP_ROWS) for group in self.groups)

    def codecs(self) -> set[int]:
        """Returns the codecs of all column chunks, by Parquet's numbers."""
        return {_number(metadata, _CODEC) for group in self.groups for _, metadata in _chunks(group)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedChunk:
    """A column chunk in its new place; indexes are None where it has none."""

    file_offset: int
    metadata: bytes
    offset_index: bytes | None
    column_index: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedGroup:
    """A row group in its new place, but for its indexes, whose places are not known before all pages are written."""

    fields: Struct
    chunks: tuple[_MovedChunk, ...]


def read_end(file: BinaryIO) -> FileEnd:
    """Returns what lies behind the pages of a file.

    Raises:
        UnfamiliarLayoutError: it is no whole Parquet file, or is laid out in a way that is not known here.
        MirrorlakeError: the store could not be read.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LENGTH_BYTES - len(MAGIC)))
    trailer = file.read()
    length = int.from_bytes(trailer[:_LENGTH_BYTES], "little")
    start = size - len(trailer) - length
    if trailer[_LENGTH_BYTES:] != MAGIC or start < len(MAGIC) or length > END_BYTES_MAX:
        raise UnfamiliarLayoutError("no footer at its end")
    file.seek(start)
    footer = file.read()
    metadata = _metadata(footer)
    pages_end = _pages_end(metadata)
    if not 0 <= start - pages_end <= END_BYTES_MAX or len(footer) != size - start:
        raise UnfamiliarLayoutError(f"pages up to {pages_end}, and a footer from {start} on")
    file.seek(pages_end)
    indexes = file.read(start - pages_end)
    if len(indexes) != start - pages_end:
        raise UnfamiliarLayoutError("it is shorter than it was")
    return FileEnd(metadata=metadata, pages_end=pages_end, indexes=indexes, footer=footer)


def end_of(data: bytes, *, start: int) -> FileEnd:
    """Returns the same of a file's last bytes, which begin at ``start``, where its pages end.

    Raises:
        UnfamiliarLayoutError: see `read_end`.
    """
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[len(data) - 8 - length :]
    metadata = _metadata(footer)
    if _structs(metadata, _ROW_GROUPS) and _pages_end(metadata) != start:
        raise UnfamiliarLayoutError(f"pages up to {_pages_end(metadata)}, and {start} bytes written")
    return FileEnd(metadata=metadata, pages_end=start, indexes=data[: len(data) - len(footer)], footer=footer)


def check_familiar(end: FileEnd) -> None:
    """Checks that a file has the very columns this version writes, and nothing else that would have to be kept.

    Raises:
        UnfamiliarLayoutError: it does not.
    """
    own = written_metadata()
    if not _FILE_FIELDS.issuperset(end.metadata):
        raise UnfamiliarLayoutError(f"fields {sorted(end.metadata)} in its footer")
    for number in (_SCHEMA, _COLUMN_ORDERS):
        if end.metadata.get(number) != own.get(number):
            raise UnfamiliarLayoutError("other columns, or another order of their values")
    # Readers pass over statistics of writers that made wrong ones: by the name of who wrote the file.
    if not _bytes(end.metadata, _CREATED_BY).startswith(_WRITERS):
        raise UnfamiliarLayoutError("it was written by another library")


@cache
def written_metadata() -> Struct:
    """Returns the footer of a file of this version's columns without rows and key-value metadata."""
    file = BytesIO()
    pq.ParquetWriter(file, WRITTEN_SCHEMA, version="2.6", store_schema=False).close()
    metadata = end_of(file.getvalue()[len(MAGIC) :], start=len(MAGIC)).metadata
    return {number: field for number, field in metadata.items() if number != _KEY_VALUES}


def moved_groups(end: FileEnd, shift: int) -> list[MovedGroup]:
    """Returns the row groups of a file as they are described once their pages lie ``shift`` bytes further behind.

    Raises:
        UnfamiliarLayoutError: one has something of which it is not known how to move it.
    """
    return [_moved_group(group, end, shift) for group in end.groups]


def written_end(groups: Sequence[MovedGroup], key_values: Mapping[bytes, bytes], *, start: int) -> bytes:
    """Returns what lies behind the pages of a file of these row groups: indexes, footer, its length and the mark.

    Args:
        groups: in the order of their rows.
        key_values: the key-value metadata.
        start: where the pages end.
    """
    out = bytearray()
    chunks = [chunk for group in groups for chunk in group.chunks]
    places: list[dict[int, tuple[int, int]]] = [{} for _ in chunks]
    # All of a kind together, as other writers do: some readers ask for all of them at once.
    for number in (_CHUNK_COLUMN_INDEX, _CHUNK_OFFSET_INDEX):
        for chunk, place in zip(chunks, places, strict=True):
            index = chunk.column_index if number == _CHUNK_COLUMN_INDEX else chunk.offset_index
            if index is not None:
                place[number] = (start + len(out), len(index))
                out += index
    placed = iter(places)
    encoded = [_encoded_group(group, placed) for group in groups]
    pairs: list[Struct] = [
        {1: Field(Kind.BINARY, key), 2: Field(Kind.BINARY, value)} for key, value in key_values.items()
    ]
    own = written_metadata()
    fields: Struct = {
        **own,
        _ROWS: Field(Kind.I64, sum(_number(group.fields, _GROUP_ROWS) for group in groups)),
        _ROW_GROUPS: Field(Kind.LIST, ThriftList(Kind.STRUCT, encoded)),
        _KEY_VALUES: Field(Kind.LIST, ThriftList(Kind.STRUCT, pairs)),
    }
    footer = encode_struct({number: fields[number] for number in sorted(fields)})
    return bytes(out) + footer + len(footer).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def _metadata(footer: bytes) -> Struct:
    encoded = footer[: -_LENGTH_BYTES - len(MAGIC)]
    try:
        metadata, length = decode_struct(encoded)
    except ThriftError as error:
        raise UnfamiliarLayoutError(f"its footer {error}") from error
    if length != len(encoded):
        raise UnfamiliarLayoutError("a footer that ends before its end")
    return metadata


def _pages_end(metadata: Struct) -> int:
    ends = [len(MAGIC)]
    for group in _structs(metadata, _ROW_GROUPS):
        for _, chunk in _chunks(group):
            start = _number(chunk, _DICTIONARY_PAGE if _DICTIONARY_PAGE in chunk else _DATA_PAGE)
            length = _number(chunk, _COMPRESSED_BYTES)
            if start < len(MAGIC) or length < 0:
                raise UnfamiliarLayoutError(f"a column chunk of {length} bytes at {start}")
            ends.append(start + length)
    return max(ends)


def _moved_group(group: Struct, end: FileEnd, shift: int) -> MovedGroup:
    if not _GROUP_FIELDS.issuperset(group):
        raise UnfamiliarLayoutError(f"fields {sorted(group)} in a row group")
    fields = {
        number: _shifted(field, shift) if number == _GROUP_FILE_OFFSET else field
        for number, field in group.items()
        # The number of a row group is left out, as by Arrow: only encryption needs it.
        if number not in (_COLUMNS, _ORDINAL)
    }
    moved = tuple(_moved_chunk(chunk, metadata, end, shift) for chunk, metadata in _chunks(group))
    return MovedGroup(fields=fields, chunks=moved)


def _moved_chunk(chunk: Struct, metadata: Struct, end: FileEnd, shift: int) -> _MovedChunk:
    if not (_CHUNK_FIELDS.issuperset(chunk) and _METADATA_FIELDS.issuperset(metadata)):
        raise UnfamiliarLayoutError(f"fields {sorted(chunk)} and {sorted(metadata)} in a column chunk")
    placed: Struct = {
        number: _shifted(field, shift) if number in (_DATA_PAGE, _DICTIONARY_PAGE) else field
        for number, field in metadata.items()
    }
    file_offset = _number(chunk, _CHUNK_FILE_OFFSET)
    offset_index = _index(chunk, _CHUNK_OFFSET_INDEX, end)
    return _MovedChunk(
        # Arrow writes 0, as the format asks for since 2024; before it was where the chunk's metadata lay.
        file_offset=file_offset + shift if file_offset else 0,
        metadata=encode_struct(placed),
        offset_index=None if offset_index is None else _moved_offset_index(offset_index, shift),
        column_index=_index(chunk, _CHUNK_COLUMN_INDEX, end),
    )


def _moved_offset_index(data: bytes, shift: int) -> bytes:
    try:
        index, length = decode_struct(data)
    except ThriftError as error:
        raise UnfamiliarLayoutError(f"an offset index {error}") from error
    locations = _structs(index, _LOCATIONS)
    if length != len(data) or not _INDEX_FIELDS.issuperset(index):
        raise UnfamiliarLayoutError(f"fields {sorted(index)} in an offset index")
    if not all(_LOCATION_FIELDS.issuperset(location) for location in locations):
        raise UnfamiliarLayoutError("unknown fields in an offset index")
    moved: list[Struct] = [
        {**location, _LOCATION_OFFSET: _shifted(location[_LOCATION_OFFSET], shift)} for location in locations
    ]
    return encode_struct({**index, _LOCATIONS: Field(Kind.LIST, ThriftList(Kind.STRUCT, moved))})


def _index(chunk: Struct, number: int, end: FileEnd) -> bytes | None:
    """Returns the bytes of an index of a column chunk; None where it has none."""
    if number not in chunk:
        return None
    start, length = _number(chunk, number) - end.pages_end, _number(chunk, number + 1)
    if start < 0 or length < 0 or start + length > len(end.indexes):
        raise UnfamiliarLayoutError("an index of pages that does not lie behind them")
    return end.indexes[start : start + length]


def _encoded_group(group: MovedGroup, places: Iterator[dict[int, tuple[int, int]]]) -> bytes:
    chunks: list[Struct] = []
    for chunk in group.chunks:
        fields: Struct = {
            _CHUNK_FILE_OFFSET: Field(Kind.I64, chunk.file_offset),
            _CHUNK_METADATA: Field(Kind.STRUCT, chunk.metadata),
        }
        for number, (start, length) in sorted(next(places).items()):
            fields[number] = Field(Kind.I64, start)
            fields[number + 1] = Field(Kind.I32, length)
        chunks.append(fields)
    return encode_struct({_COLUMNS: Field(Kind.LIST, ThriftList(Kind.STRUCT, chunks)), **group.fields})


def _chunks(group: Struct) -> Iterator[tuple[Struct, Struct]]:
    """Yields each column chunk of a row group, and its metadata."""
    for chunk in _structs(group, _COLUMNS):
        metadata = chunk[_CHUNK_METADATA].value if _CHUNK_METADATA in chunk else None
        if not isinstance(metadata, dict):
            raise UnfamiliarLayoutError("a column chunk that is described elsewhere")
        yield chunk, metadata


def _shifted(field: Field, shift: int) -> Field:
    if not isinstance(field.value, int):
        raise UnfamiliarLayoutError("a place that is no number")
    return Field(field.kind, field.value + shift)


def _structs(struct: Struct, number: int) -> list[Struct]:
    found = struct[number].value if number in struct else None
    if not isinstance(found, ThriftList):
        raise UnfamiliarLayoutError(f"no list in field {number}")
    structs = [item for item in found.items if isinstance(item, dict)]
    if len(structs) != len(found.items):
        raise UnfamiliarLayoutError(f"a list of something else in field {number}")
    return structs


def _number(struct: Struct, number: int) -> int:
    found = struct[number].value if number in struct else None
    if not isinstance(found, int):
        raise UnfamiliarLayoutError(f"no number in field {number}")
    return found


def _bytes(struct: Struct, number: int) -> bytes:
    found = struct[number].value if number in struct else None
    if not isinstance(found, bytes):
        raise UnfamiliarLayoutError(f"no text in field {number}")
    return found
