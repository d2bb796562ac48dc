"""Values of a Parquet column straight from its pages, as mirrorlake's files have them.

Arrow reads a column's chunk whole into fresh memory, decompresses its pages, and appends value by value to an array
that grows. Here a few pages are read at a time into memory that goes round, and their values are copied once, into an
array of the right size. What is laid out in another way than mirrorlake writes it is for Arrow to read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.formats.pages.plain_kernels import copy_raw_frame, read_plain
from mirrorlake.archive.formats.thrift_compact import Struct, ThriftError, decode_struct
from mirrorlake.archive.seal import filled_from

PART_BYTES = 4 << 20
"""Bytes of values handed out at a time, to within one page."""

WINDOW_BYTES = 5 << 18
"""Memory that pages are read into, one at a time; they have about 1 MiB, and where one has more it grows."""

_HEADER_BYTES_MAX = 256
"""A page's header, without statistics, has about thirty."""

_SNAPPY_SIZE_BYTES_MAX = 5

_CODECS = {"ZSTD": "zstd", "SNAPPY": "snappy", "UNCOMPRESSED": None}
_PLAIN_AND_LEVELS = frozenset({"PLAIN", "RLE"})

# Numbers of fields in a page's header, and of what stands there.
_TYPE, _BYTES, _COMPRESSED_BYTES, _DATA_PAGE = 1, 2, 3, 5
_VALUES, _ENCODING, _LEVELS_ENCODING = 1, 2, 3
_DATA_PAGE_TYPE, _PLAIN, _RLE = 0, 0, 3


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """Values of some rows, and how many bytes each has: a null none."""

    values: pa.LargeBinaryArray
    sizes: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Page:
    rows: int
    data: npt.NDArray[np.uint8]


class PlainColumn:
    """One column of byte arrays in one row group.

    Args:
        file: of the segment; its position is changed.
        metadata: of the file.
        schema: of the file.
        group: the row group's number.
        name: the column's, at the top of the schema.
    """

    def __init__(
        self, file: BinaryIO, metadata: pq.FileMetaData, schema: pq.ParquetSchema, group: int, name: str
    ) -> None:
        number = next(i for i in range(metadata.num_columns) if schema.column(i).path == name)
        column, chunk = schema.column(number), metadata.row_group(group).column(number)
        self._file = file
        self._is_nullable = column.max_definition_level
        self._codec = _CODECS.get(chunk.compression)
        self._start, self._bytes = chunk.data_page_offset, chunk.total_compressed_size
        self._rows = chunk.num_values
        self._plain_bytes = chunk.total_uncompressed_size
        self._is_familiar = (
            column.physical_type == "BYTE_ARRAY"
            and column.max_repetition_level == 0
            and column.max_definition_level <= 1
            and chunk.compression in _CODECS
            and _PLAIN_AND_LEVELS.issuperset(chunk.encodings)
            and not chunk.has_dictionary_page
            and chunk.statistics is None  # with them a page's header is as long as the values it names
            and min(self._start, self._bytes) >= 0
        )

    def is_familiar(self) -> bool:
        """Tells whether it is laid out as this reads it, by what the footer says of it and by its first page.

        Raises:
            MirrorlakeError: the store could not be read.
        """
        if self._is_familiar and self._bytes:
            try:
                _said(self._header_at(_Stretch(self._file, self._start), 0)[0])
            except ValueError:
                return False  # Arrow says what is wrong, if anything is
        return self._is_familiar

    def _header_at(self, stretch: "_Stretch", position: int) -> tuple[Struct, int]:
        return _header(stretch.at(position, min(_HEADER_BYTES_MAX, self._bytes - position)))

    def parts(self) -> Iterator[ColumnPart]:
        """Yields all values in order, some pages at a time.

        Raises:
            ValueError: the pages are not what the footer says.
            MirrorlakeError: the store could not be read.
        """
        pages: list[_Page] = []
        weight, rows = 0, 0
        for page in self._pages():
            pages.append(page)
            weight, rows = weight + len(page.data), rows + page.rows
            if weight >= PART_BYTES:
                yield self._joined(pages)
                pages, weight = [], 0
        if pages:
            yield self._joined(pages)
        if rows != self._rows:
            raise ValueError(f"pages hold {rows} rows, the footer says {self._rows}")

    def _joined(self, pages: list[_Page]) -> ColumnPart:
        rows = sum(page.rows for page in pages)
        lengths, offsets = np.empty(rows, np.int64), np.zeros(rows + 1, np.int64)
        data = np.empty(sum(len(page.data) for page in pages), np.uint8)  # more than the values take, by their lengths
        row = 0
        for page in pages:
            if read_plain(page.data, self._is_nullable, row, page.rows, lengths, data, offsets) < 0:
                raise ValueError("a page does not hold the values it must")
            row += page.rows
        is_null = lengths < 0
        nulls = int(np.count_nonzero(is_null))
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if nulls else None
        if nulls:
            lengths[is_null] = 0
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        return ColumnPart(pa.Array.from_buffers(pa.large_binary(), rows, buffers, nulls), lengths)

    def _pages(self) -> Iterator[_Page]:
        stretch, done, rows = _Stretch(self._file, self._start), 0, 0
        codec = pa.Codec(self._codec) if self._codec is not None else None
        while done < self._bytes:
            header, header_bytes = self._header_at(stretch, done)
            size, compressed, values = _said(header)
            done += header_bytes
            rows += values
            if rows > self._rows or compressed > self._bytes - done or size > self._plain_bytes:
                raise ValueError("pages hold more than the footer says")
            data = stretch.at(done, compressed)
            done += compressed
            if codec is None or not compressed:
                if size != compressed:
                    raise ValueError("a page that is not compressed has two sizes")
                plain = np.frombuffer(data, np.uint8).copy()
            else:
                plain = _decompressed(codec, data, size)
            yield _Page(values, plain)


class _Stretch:
    """Reads parts of a stretch of a file; what is returned is good until the next is asked for."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._start = start
        self._buffer = bytearray(_HEADER_BYTES_MAX)

    def at(self, position: int, count: int) -> memoryview:
        """Returns so many bytes of the stretch.

        Raises:
            ValueError: the file is shorter.
        """
        if count > len(self._buffer):
            self._buffer = bytearray(max(count, WINDOW_BYTES))
        view = memoryview(self._buffer)[:count]
        if not filled_from(self._file, view, at=self._start + position):
            raise ValueError("ends inside of a column")
        return view


def _decompressed(codec: pa.Codec, data: memoryview, size: int) -> npt.NDArray[np.uint8]:
    if codec.name == "zstd":
        plain = np.empty(size, np.uint8)
        if copy_raw_frame(np.frombuffer(data, np.uint8), plain) == 0:  # four times as fast as zstd is
            return plain
    if codec.name == "snappy" and _snappy_bytes(data) != size:
        raise ValueError("a page is of another size than it says")  # zstd says so itself
    found = np.frombuffer(codec.decompress(data, decompressed_size=size), np.uint8)
    return np.require(found, requirements=("C", "W"))


def _snappy_bytes(data: memoryview) -> int:
    """Returns how many bytes Snappy's data says it makes, which is where it begins; Arrow does not compare that."""
    found = 0
    for place, byte in enumerate(data[:_SNAPPY_SIZE_BYTES_MAX]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return found


def _header(data: memoryview) -> tuple[Struct, int]:
    try:
        return decode_struct(bytes(data))
    except ThriftError as error:
        raise ValueError(f"a page's header {error}") from error


def _said(header: Struct) -> tuple[int, int, int]:
    """Returns what a page's header says: its bytes, those of it compressed, and how many rows it has."""
    page = header[_DATA_PAGE].value if _DATA_PAGE in header else None
    if not isinstance(page, dict) or _number(header, _TYPE) != _DATA_PAGE_TYPE:
        raise ValueError("a page of another kind")
    if (_number(page, _ENCODING), _number(page, _LEVELS_ENCODING)) != (_PLAIN, _RLE):
        raise ValueError("a page of another encoding")
    said = _number(header, _BYTES), _number(header, _COMPRESSED_BYTES), _number(page, _VALUES)
    if min(said) < 0:
        raise ValueError("a page of less than no size")
    return said


def _number(struct: Struct, field: int) -> int:
    value = struct[field].value if field in struct else None
    if isinstance(value, int):
        return value
    raise ValueError(f"a page's header has no number {field}")
