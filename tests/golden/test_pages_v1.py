"""Parquet and NDJSON whose blocks have checksums, as they lie on disks: read by every version and by the docs alone."""

import json
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash

from golden.records_v1 import RECORDS
from golden.test_segments_v1 import records_in
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "pages"
PARQUET = "orders/3/00000000000000000010-00000000000000000020.parquet"
NDJSON = "orders/3/00000000000000000010-00000000000000000020.ndjson"
DESCRIPTION = "orders/_meta/3/00000000000000000010-00000000000000000020.ndjson.json"


def checksums(data: bytes) -> list[str]:
    return [xxhash.xxh3_128_hexdigest(data[at : at + 400]) for at in range(0, len(data), 400)]


def test_the_blocks_of_ndjson_are_those_of_the_file() -> None:
    said = json.loads((FOLDER / DESCRIPTION).read_bytes())["file"]["blocks"]
    values = checksums((FOLDER / NDJSON).read_bytes())
    assert len(values) >= 2
    assert said == {"bytes": 400, "algorithm": "xxh3-128", "values": values}


def test_the_blocks_of_parquet_are_those_of_its_pages_and_its_end_is_sealed() -> None:
    data = (FOLDER / PARQUET).read_bytes()
    footer = json.loads(pq.read_metadata(FOLDER / PARQUET).metadata[b"mirrorlake"])
    pages, seal = footer["pages"], footer["seal"]
    values = checksums(data[: pages["bytes"]])
    assert len(values) >= 2
    assert pages["blocks"] == {"bytes": 400, "algorithm": "xxh3-128", "values": values}

    end = data[pages["bytes"] :]
    # It holds all of Parquet's own footer, whose length stands before the last four bytes.
    assert len(end) >= struct.unpack("<i", data[-8:-4])[0] + 8
    zeros = b"0" * 32
    opened = end.replace(pages["end_seal"].encode(), zeros).replace(seal.encode(), zeros)
    assert (end.count(pages["end_seal"].encode()), end.count(seal.encode())) == (1, 1)
    assert pages["end_seal"] == xxhash.xxh3_128_hexdigest(opened)
    assert seal == xxhash.xxh3_128_hexdigest(data.replace(seal.encode(), zeros))


@pytest.mark.parametrize("key", [PARQUET, NDJSON])
def test_they_are_read(key: str) -> None:
    with open_segment(FilesystemStore(FOLDER), key) as segment:
        assert [record.offset for record in records_in(segment)] == [record.offset for record in RECORDS]
        segment.check_content()


def test_the_reader_gives_the_sums_of_all_blocks() -> None:
    with open_segment(FilesystemStore(FOLDER), PARQUET) as segment:
        assert isinstance(segment, ParquetSegmentReader)
        sums = segment.block_sums()
    assert sums is not None
    assert sums.hexdigests() == checksums((FOLDER / PARQUET).read_bytes())
