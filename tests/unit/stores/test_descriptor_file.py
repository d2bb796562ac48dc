"""A file over a descriptor never writes to a descriptor it has let go of: by then it may be somebody else's."""

import gc
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.descriptor_file import DescriptorFile

ENVELOPE = SegmentEnvelope(
    cluster_id="c", topic_id="t", topic="orders", partition=0, start_offset=0, writer="w", created_at="2026-01-01"
)
RECORDS = RecordColumns.of(
    offsets=np.arange(3, dtype=np.int64),
    timestamps=np.zeros(3, np.int64),
    timestamp_types=np.zeros(3, np.int8),
    keys=pa.array([b"k"] * 3, pa.large_binary()),
    values=pa.array([b"v"] * 3, pa.large_binary()),
    headers=pa.array([[]] * 3, HEADERS_TYPE),
)


def opened(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)


@pytest.fixture
def closed_and_reused(tmp_path: Path) -> tuple[DescriptorFile, Path]:
    """A file that is closed, and another one's path that has its descriptor now."""
    number = opened(tmp_path / "first")
    file = DescriptorFile(number, tmp_path / "first")
    file.close()
    assert opened(tmp_path / "second") == number
    return file, tmp_path / "second"


def test_a_closed_file_does_not_write_into_the_next_one(closed_and_reused: tuple[DescriptorFile, Path]) -> None:
    file, other = closed_and_reused
    for use in (lambda: file.write(b"x"), file.sync, file.fileno):
        with pytest.raises(ValueError, match="closed"):
            use()
    file.close()
    assert other.read_bytes() == b""


def test_what_a_dropped_parquet_writer_still_writes_goes_nowhere(tmp_path: Path) -> None:
    """The library's writer ends its file when it is freed, whatever was said to it before."""
    number = opened(tmp_path / "first")
    file = DescriptorFile(number, tmp_path / "first")
    writer = ParquetSegmentWriter(file, ENVELOPE)  # type: ignore[arg-type]
    writer.write(RECORDS)
    writer.abandon()
    file.close()
    assert opened(tmp_path / "second") == number
    del writer
    gc.collect()
    os.close(number)
    assert (tmp_path / "second").read_bytes() == b""
