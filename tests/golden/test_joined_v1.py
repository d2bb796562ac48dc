"""A segment joined from others, as it lies on disks, is read by every version and by whoever reads the docs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import xxhash

from golden.records_v1 import RECORDS, Record
from golden.test_segments_v1 import GOOD, records_in
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "joined"
SEGMENT = "orders/3/00000000000000000010-00000000000000000020.parquet"
PARTS: list[tuple[int, str]] = [
    (14, "26a65e421021f882d685fffa18db6584"),
    (17, "600431619b9b3002081b8369b35f7675"),
    (21, "dcb377c628c096e7457915916dd6f085"),
]
VALUE = "1ec981e058974f2950cd2108aefcb5fc"


def checksum_by_the_docs(records: Sequence[Record]) -> str:
    """As ``docs/archive-format.md`` says, with nothing of ours: the twelve streams one after another."""
    streams: list[list[bytes]] = [[] for _ in range(12)]
    for record in records:
        streams[0].append(number(record.offset))
        streams[1].append(number(record.timestamp_ms))
        streams[2].append(record.timestamp_type.to_bytes(1, "little", signed=True))
        put(streams, 3, record.key)
        put(streams, 5, record.value)
        streams[7].append(number(len(record.headers)))
        for key, value in record.headers:
            put(streams, 8, key)
            put(streams, 10, value)
    return xxhash.xxh3_128_hexdigest(b"".join(xxhash.xxh3_128_digest(b"".join(stream)) for stream in streams))


def put(streams: list[list[bytes]], at: int, value: bytes | None) -> None:
    streams[at].append(number(-1 if value is None else len(value)))
    streams[at + 1].append(value or b"")


def number(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def test_its_checksum_is_by_parts_as_the_docs_say() -> None:
    fields = json.loads(pq.read_metadata(FOLDER / SEGMENT).metadata[b"mirrorlake"])
    assert (fields["checksum"], fields["parts"]) == (
        {"algorithm": "xxh3-128-parts", "value": VALUE},
        [[*part] for part in PARTS],
    )
    start = 10
    for end, checksum in PARTS:
        assert checksum_by_the_docs([record for record in RECORDS if start <= record.offset < end]) == checksum
        start = end
    assert xxhash.xxh3_128_hexdigest(b"".join(bytes.fromhex(checksum) for _, checksum in PARTS)) == VALUE


def test_its_seal_is_the_hash_of_all_bytes_with_zeros_in_its_place() -> None:
    data, seal = (FOLDER / SEGMENT).read_bytes(), "0517417dd3bc6ebc66cbbc63fba61b46"
    assert data.count(seal.encode()) == 1
    assert xxhash.xxh3_128_hexdigest(data.replace(seal.encode(), b"0" * 32)) == seal


def test_it_is_read() -> None:
    with open_segment(FilesystemStore(FOLDER), SEGMENT) as segment:
        footer = segment.footer
        assert footer is not None
        assert [(part.end_offset, part.checksum) for part in footer.parts] == PARTS
        assert (footer.gaps, footer.gap_offsets, footer.records) == (GOOD.gaps, GOOD.gap_offsets, GOOD.records)
        assert records_in(segment) == list(RECORDS)
        segment.check_content()


def test_pyarrow_reads_its_three_row_groups() -> None:
    file = pq.ParquetFile(FOLDER / SEGMENT)
    assert file.metadata.num_row_groups == len(PARTS)
    assert file.read()["offset"].to_pylist() == [record.offset for record in RECORDS]
