"""A Parquet file says the checksums of its blocks, so that what is read of it can be compared without the rest."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash

from mirrorlake.archive import seal
from mirrorlake.archive.blocks import parquet_blocks
from mirrorlake.archive.envelope import METADATA_KEY, SegmentFooter, decode_footer
from mirrorlake.archive.formats import ndjson, parquet_reader
from mirrorlake.archive.formats.ndjson import NdjsonSegmentWriter
from mirrorlake.archive.formats.ndjson_reader import NdjsonSegmentReader
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_copying import copyable
from mirrorlake.archive.formats.parquet_joining import JoiningParquetWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.seal import Seals, flaw_of_end
from mirrorlake.errors import ChainBrokenError
from mirrorlake.page_compression import Compression
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope

BLOCK_BYTES = 100
GOLDEN = Path(__file__).parents[3] / "golden"
OPEN = b"0" * 32


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(ndjson, "BLOCK_BYTES", BLOCK_BYTES)


def written(first: int = 10, end: int = 21) -> tuple[bytes, SegmentFooter]:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope(start_offset=first))
    writer.write(columns_of([replace(each, offset=each.offset - 10 + first) for each in AWKWARD]))
    footer = writer.close(end_offset=end)
    return file.getvalue(), footer


def joined() -> tuple[bytes, SegmentFooter]:
    """Row groups of one file copied, and records of another behind them."""
    file = io.BytesIO()
    data, _ = written()
    with ParquetSegmentReader(io.BytesIO(data), where="input") as reader:
        writer = JoiningParquetWriter(file, envelope(start_offset=10), compression=Compression.ZSTD_1)
        whole = copyable(reader, envelope(start_offset=10), compression=Compression.ZSTD_1, bytes_min=1, where="input")
        assert whole is not None
        list(writer.copy(whole))
        writer.write(columns_of([Record(21, b"k", bytes(range(256)) * 4)]))
        footer = writer.close(end_offset=22)
    return file.getvalue(), footer


FILES = [written, joined]


def said_in(data: bytes) -> dict[str, object]:
    """What the footer says, read by another library and as JSON."""
    fields = json.loads(pq.read_metadata(io.BytesIO(data)).metadata[METADATA_KEY])
    assert isinstance(fields, dict)
    return fields


def sums_of(data: bytes) -> list[str]:
    return [xxhash.xxh3_128(data[at : at + BLOCK_BYTES]).hexdigest() for at in range(0, len(data), BLOCK_BYTES)]


@pytest.mark.parametrize("make", FILES)
def test_the_footer_says_where_the_pages_end_and_the_checksum_of_each_block_of_them(
    make: Callable[[], tuple[bytes, SegmentFooter]],
) -> None:
    data, _ = make()
    metadata = pq.read_metadata(io.BytesIO(data))
    columns = [
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]
    pages_end = max(
        (each.dictionary_page_offset or each.data_page_offset) + each.total_compressed_size for each in columns
    )

    assert len(data) > 10 * BLOCK_BYTES
    pages = said_in(data)["pages"]
    assert isinstance(pages, dict)
    assert pages["bytes"] == pages_end
    assert pages["blocks"] == {"bytes": BLOCK_BYTES, "algorithm": "xxh3-128", "values": sums_of(data[:pages_end])}
    end_seal = pages["end_seal"].encode()
    opened = data[pages_end:].replace(end_seal, OPEN).replace(str(said_in(data)["seal"]).encode(), OPEN)
    assert pages["end_seal"] == xxhash.xxh3_128(opened).hexdigest()


@pytest.mark.parametrize("make", FILES)
def test_the_seal_of_the_whole_file_is_what_versions_before_look_for(
    make: Callable[[], tuple[bytes, SegmentFooter]],
) -> None:
    data, footer = make()
    assert footer.seal is not None
    assert data.count(footer.seal.encode()) == 1
    assert footer.seal == xxhash.xxh3_128(data.replace(footer.seal.encode(), OPEN)).hexdigest()


@pytest.mark.parametrize("make", FILES)
def test_what_is_written_is_what_is_read(make: Callable[[], tuple[bytes, SegmentFooter]]) -> None:
    data, footer = make()
    with ParquetSegmentReader(io.BytesIO(data), where="k") as reader:
        assert reader.footer == footer
        assert reader.footer.pages == footer.pages
        assert reader.footer.seal == footer.seal
        sums = reader.block_sums()
        reader.check_content()
    assert sums is not None
    assert sums.hexdigests() == sums_of(data)


@pytest.mark.parametrize("make", FILES)
def test_no_byte_of_the_end_can_change_without_a_word(make: Callable[[], tuple[bytes, SegmentFooter]]) -> None:
    data, footer = make()
    assert footer.pages is not None
    assert footer.seal is not None
    end = data[footer.pages.bytes :]
    seals = Seals(end=footer.pages.end_seal, whole=footer.seal)
    assert flaw_of_end(end, seals) is None
    for at in range(len(end)):
        changed = bytearray(end)
        changed[at] ^= 1
        assert flaw_of_end(bytes(changed), seals) is not None, at


def changed_at(data: bytes, at: int) -> ParquetSegmentReader:
    changed = bytearray(data)
    changed[at] ^= 1
    return ParquetSegmentReader(io.BytesIO(changed), where="k")


def test_the_block_with_which_the_pages_end_is_compared_where_the_sums_are_asked_for() -> None:
    data, footer = written()
    assert footer.pages is not None
    with (
        changed_at(data, footer.pages.bytes - 1) as reader,
        pytest.raises(ChainBrokenError, match=r"^k has other bytes from \d+ to \d+ than its footer says"),
    ):
        reader.block_sums()


def test_of_what_lies_before_the_sums_are_as_they_were_written() -> None:
    data, _ = written()
    with changed_at(data, 50) as reader:
        sums = reader.block_sums()
    assert sums is not None
    assert sums.hexdigests() == sums_of(data)


class ChangesOnce(io.BytesIO):
    """Returns other bytes in the place of some, the first time that they are read."""

    def __init__(self, data: bytes, right: bytes, wrong: bytes) -> None:
        super().__init__(data)
        self._right, self._wrong = right, wrong

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        changed = data.replace(self._right, self._wrong)
        if changed != data:
            self._right = self._wrong
        return changed


@pytest.mark.parametrize(("right", "wrong"), [(b'"end_offset": 21', b'"end_offset": 31'), (b"cpp-arrow", b"cpp-arr0w")])
def test_a_footer_that_was_read_with_a_damage_the_first_time_is_told(right: bytes, wrong: bytes) -> None:
    data, _ = written()
    with (
        ParquetSegmentReader(ChangesOnce(data, right, wrong), where="k") as reader,
        pytest.raises(ChainBrokenError, match=r"k has another footer than when it was opened"),
    ):
        reader.block_sums()


@pytest.mark.parametrize("folder", ["segments/good.parquet", "sealed/orders/3", "joined/orders/3"])
def test_files_by_versions_before_say_nothing_of_blocks(folder: str) -> None:
    path = GOLDEN / folder
    file = path if path.is_file() else next(path.glob("*.parquet"))
    with ParquetSegmentReader(file.open("rb"), where=str(file)) as reader:
        assert reader.footer is not None
        assert reader.footer.pages is None
        assert reader.block_sums() is None
        reader.check_content()


def test_sums_of_blocks_that_are_not_the_files_are_told_by_who_reads_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever wrote such a file sealed it: only a comparison of both tells."""
    data, _ = written()

    def other(footer: bytes, *, where: str) -> SegmentFooter:
        said = decode_footer(footer, where=where)
        assert said.pages is not None
        digests = bytes(16) + said.pages.blocks.digests[16:]
        return replace(said, pages=replace(said.pages, blocks=replace(said.pages.blocks, digests=digests)))

    monkeypatch.setattr(parquet_reader, "decode_footer", other)
    with (
        ParquetSegmentReader(io.BytesIO(data), where="k") as reader,
        pytest.raises(ChainBrokenError, match="k has other checksums of its blocks than its footer says"),
    ):
        reader.check_content()


def test_a_footer_that_speaks_of_a_longer_end_than_any_has_is_not_gone_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_blocks, "END_BYTES_MAX", 100)
    data, _ = written()
    with ParquetSegmentReader(io.BytesIO(data), where="k") as reader:
        assert reader.block_sums() is None


FLAWED: list[tuple[str, object]] = [
    ("pages", None),
    ("pages", []),
    ("bytes", -1),
    ("bytes", True),
    ("bytes", 1),
    ("bytes", "900"),
    ("end_seal", "0" * 31),
    ("end_seal", None),
    ("blocks", {}),
]


@pytest.mark.parametrize(("name", "value"), FLAWED)
def test_a_footer_whose_pages_are_anything_else_is_damaged(name: str, value: object) -> None:
    data, _ = written()
    fields = said_in(data)
    pages = fields["pages"]
    assert isinstance(pages, dict)
    if name == "pages":
        fields["pages"] = value
    else:
        pages[name] = value
    with pytest.raises(ChainBrokenError, match="its footer is not one of mirrorlake's"):
        decode_footer(json.dumps(fields).encode(), where="k")


def test_a_topic_whose_name_looks_like_an_open_seal_takes_the_place_of_none() -> None:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, replace(envelope(start_offset=10), topic="0" * 32))
    writer.write(columns_of(AWKWARD))
    footer = writer.close(end_offset=21)
    with ParquetSegmentReader(io.BytesIO(file.getvalue()), where="k") as reader:
        assert reader.footer is not None
        assert reader.footer.envelope.topic == "0" * 32
        assert (reader.footer.seal, reader.footer.pages) == (footer.seal, footer.pages)


def test_ndjson_is_described_with_the_checksum_of_each_block_and_both_are_compared() -> None:
    file = io.BytesIO()
    writer = NdjsonSegmentWriter(file, envelope(start_offset=10))
    writer.write(columns_of(AWKWARD))
    footer = writer.close(end_offset=21)
    assert footer.file is not None
    assert footer.file.blocks is not None
    assert footer.file.blocks.hexdigests() == sums_of(file.getvalue())
    NdjsonSegmentReader(file, footer=footer, where="k").check_content()

    digests = footer.file.blocks.digests[:-16] + bytes(16)
    wrong = replace(footer, file=replace(footer.file, blocks=replace(footer.file.blocks, digests=digests)))
    with pytest.raises(ChainBrokenError, match="k has other checksums of its blocks than its description says"):
        NdjsonSegmentReader(file, footer=wrong, where="k").check_content()
