"""A log whose blocks have checksums, as it lies on disks, is read by every version, and by whoever reads the docs."""

import json
from pathlib import Path

import xxhash

from golden.records_v1 import RECORDS
from golden.test_formats_v1 import LOG, LOG_FOOTER
from golden.test_segments_v1 import records_in
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "blocks"
DESCRIPTION = "orders/_meta/3/00000000000000000010-00000000000000000020.log.json"

CHECKSUMS = [
    "a158f0a076cffabf6f7208fd5f4272d3",
    "8c18c8a8cb78a4e7edf0782041c9dabe",
    "4e7e03569d5cbeddbb5813089e0dd4a8",
    "23d7cdd5308e946a46dbcef8ef0a9e87",
    "b73e83c117dc18c9e411eac6fce0b724",
]


def test_the_blocks_are_those_of_the_file_as_anybody_finds_them() -> None:
    data = (FOLDER / LOG).read_bytes()
    said = json.loads((FOLDER / DESCRIPTION).read_bytes())["file"]["blocks"]
    assert said == {"bytes": 100, "algorithm": "xxh3-128", "values": CHECKSUMS}
    assert [xxhash.xxh3_128_hexdigest(data[at : at + 100]) for at in range(0, len(data), 100)] == CHECKSUMS


def test_it_is_read() -> None:
    with open_segment(FilesystemStore(FOLDER), LOG) as segment:
        assert isinstance(segment, LogSegmentReader)
        assert segment.compares_blocks
        assert segment.footer == LOG_FOOTER
        assert [record.offset for record in records_in(segment)] == [record.offset for record in RECORDS]
        segment.check_content()
