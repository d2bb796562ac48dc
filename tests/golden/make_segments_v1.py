"""Makes the golden files of segment format 1. Run once, by hand, when version 1 was settled; never again.

    PYTHONPATH=tests python tests/golden/make_segments_v1.py

Later versions of the package must go on reading what is in ``segments/``, so the files are kept, not remade.
"""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from golden.records_v1 import RECORDS, Record, columns_of
from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.offsets import Gap, GapKind, OffsetRange

FOLDER = Path(__file__).parent / "segments"

ENVELOPE = SegmentEnvelope(
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    topic_id="Fn0Xq1yOQzSf4mBPAzVGDA",
    topic="orders",
    partition=3,
    start_offset=10,
    writer="host-1/4711/0b5a",
    created_at="2026-01-02T03:04:05Z",
)


def segment(records: list[Record], *gaps: Gap) -> bytes:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, ENVELOPE)
    if records:
        writer.write(columns_of(records))
    writer.close(end_offset=21, gaps=gaps)
    return file.getvalue()


def by_mirror_v3() -> bytes:
    """A file with mirror-v3's columns: unsigned offsets, header keys in UTF-8, one row group, a dictionary."""
    records = [record for record in RECORDS if all(key.isascii() for key, _ in record.headers)]
    headers = pa.list_(pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.large_binary())]))
    fields = {
        "topic": pa.array(["orders"] * len(records)),
        "partition": pa.array([3] * len(records), pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.uint64()),
        "timestamp_ms": pa.array([None if r.timestamp_ms < 0 else r.timestamp_ms for r in records], pa.int64()),
        "timestamp_type": pa.array(
            [{0: "create_time", 1: "log_append_time", -1: "not_available"}[r.timestamp_type] for r in records]
        ),
        "key": pa.array([record.key for record in records], pa.large_binary()),
        "value": pa.array([record.value for record in records], pa.large_binary()),
        "headers": pa.array(
            [[{"key": key.decode(), "value": value} for key, value in r.headers] for r in records], headers
        ),
    }
    nullable = {"timestamp_ms", "key", "value"}
    schema = pa.schema([pa.field(name, a.type, name in nullable) for name, a in fields.items()])
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(list(fields.values()), schema=schema), file, compression="zstd")
    return file.getvalue()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    good = segment(list(RECORDS))
    truncated = Gap(offsets=OffsetRange(start_offset=10, end_offset=21), kind=GapKind.TRUNCATED)
    # As the first versions wrote claims: they did not say whose records they are about, and were not sealed.
    claim = {"version": 1, "to_offset": 20, "extension": "parquet", "raw_bytes": 340, "writer": ENVELOPE.writer}
    claim_line = (json.dumps(claim) + "\n").encode()
    files = {
        "good.parquet": good,
        "all-truncated.parquet": segment([], truncated),
        "cut-short.parquet": good[: len(good) - 100],
        "from-the-future.parquet": good.replace(b'"format_version": 1', b'"format_version": 2'),
        "by-mirror-v3.parquet": by_mirror_v3(),
        "claim.json": claim_line,
        "claim-from-the-future.json": claim_line.replace(b'"version": 1', b'"version": 2, "colour": "blue"'),
    }
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
