"""An archive that mirror-v3 0.x left behind, as it lies on disks: read record by record, in each of its codecs."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from golden.records_mirror_v3 import FILES, GoldenRecord
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "mirror_v3"
TOPICS = ["zstd-1", "zstd-3", "snappy", "lz4", "uncompressed", "lines"]
TIMESTAMP_TYPES = {0: "create_time", 1: "log_append_time", -1: "not_available"}


def archived(topic: str) -> ArchivedPartition:
    extension = "ndjson" if topic == "lines" else "parquet"
    return ArchivedPartition(FilesystemStore(FOLDER), destination_name=topic, partition=0, extension=extension)


def records_of(topic: str, offsets: OffsetRange) -> list[GoldenRecord]:
    return [
        GoldenRecord(
            int(columns.offsets[row]),
            None if columns.timestamp_types[row] == -1 else int(columns.timestamps[row]),
            TIMESTAMP_TYPES[int(columns.timestamp_types[row])],
            columns.keys[row].as_py(),
            columns.values[row].as_py(),
            tuple((header["key"].decode(), header["value"]) for header in columns.headers[row].as_py()),
        )
        for columns in read_archived_range(archived(topic), offsets)
        for row in range(len(columns))
    ]


@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_of_every_file_is_read(topic: str) -> None:
    archive = archived(topic)
    chain = archive.read_chain()

    assert (chain.position, chain.segment_count) == (6, 2)
    assert records_of(topic, OffsetRange(start_offset=0, end_offset=6)) == [*FILES[0], *FILES[1]]
    assert records_of(topic, OffsetRange(start_offset=3, end_offset=5)) == [FILES[0][3], FILES[1][0]]
    assert check_archived_content(archive) == 2


@pytest.mark.parametrize("topic", TOPICS)
def test_its_files_do_not_say_whose_they_are(topic: str) -> None:
    archive = archived(topic)
    tail = archive.read_chain().tail
    assert isinstance(tail, Segment)
    with open_segment(archive.store, f"{archive.prefix}/{tail.name}") as segment:
        assert segment.footer is None


@pytest.mark.parametrize(
    ("topic", "codec"),
    [("zstd-1", "ZSTD"), ("zstd-3", "ZSTD"), ("snappy", "SNAPPY"), ("uncompressed", "UNCOMPRESSED")],
)
def test_the_files_are_what_they_stand_for(topic: str, codec: str) -> None:
    for path in sorted((FOLDER / topic / "0").iterdir()):
        file = pq.ParquetFile(path)
        assert file.metadata.num_row_groups == 1
        assert file.metadata.row_group(0).column(0).compression == codec
        assert "RLE_DICTIONARY" in file.metadata.row_group(0).column(0).encodings
        assert str(file.schema_arrow.field("offset").type) == "uint64"
