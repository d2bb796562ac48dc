"""Segments without a footer, and their descriptions, as they lie on disks, are read by every version of the package."""

import hashlib
from pathlib import Path

import pytest

from golden.records_v1 import RECORDS
from golden.test_segments_v1 import ENVELOPE, GOOD, records_in
from mirrorlake.archive.envelope import FileSum, SegmentFooter, decode_footer
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.errors import UnsupportedError
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.stores.filesystem import FilesystemStore

FOLDER = Path(__file__).parent / "formats"
NDJSON = "orders/3/00000000000000000010-00000000000000000020.ndjson"
LOG = "orders/3/00000000000000000010-00000000000000000020.log"

LOG_SUM = FileSum(bytes=407, checksum="4653f0879acc1c47aebbd8271c49e7e8")
LOG_FOOTER = SegmentFooter(
    envelope=ENVELOPE,
    end_offset=21,
    records=7,
    raw_bytes=407,
    first_offset=10,
    last_offset=20,
    # Of the first record of each batch; the last batch's has none, and its second is older.
    timestamp_ms_min=1_700_000_000_000,
    timestamp_ms_max=1_700_000_000_003,
    gap_offsets={GapKind.ABSENT: 4},
    # The other three are inside the last batch.
    gaps=(Gap(offsets=OffsetRange(start_offset=14, end_offset=15), kind=GapKind.ABSENT),),
    gaps_complete=False,
    checksum=LOG_SUM.checksum,
    leader_epoch=5,
    algorithm="xxh3-128",
    file=LOG_SUM,
)


def opened(key: str) -> SegmentReader:
    return open_segment(FilesystemStore(FOLDER), key)


def test_the_files_are_the_ones_that_were_made() -> None:
    assert hashlib.sha256((FOLDER / NDJSON).read_bytes()).hexdigest() == NDJSON_SHA256
    assert hashlib.sha256((FOLDER / LOG).read_bytes()).hexdigest() == LOG_SHA256


def test_lines_are_read_and_the_description_of_other_bytes_is_passed_over() -> None:
    with opened(NDJSON) as segment:
        assert segment.footer is not None
        assert segment.footer.file == FileSum(bytes=1542, checksum="23ff908862c37b8cd29b534ead972e91")
        # The same records have the same checksum as in Parquet.
        assert segment.footer.checksum == GOOD.checksum
        assert (segment.footer.records, segment.footer.gaps) == (GOOD.records, GOOD.gaps)
        assert records_in(segment) == list(RECORDS)
        segment.check_content()


def test_batches_are_read() -> None:
    # A batch of v2 without timestamps says `create_time` all the same.
    wanted = [record._replace(timestamp_type=0) if record.timestamp_type < 0 else record for record in RECORDS]
    with opened(LOG) as segment:
        assert segment.footer == LOG_FOOTER
        assert records_in(segment) == wanted
        segment.check_content()


def test_a_description_from_the_future_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="segment format 2"):
        decode_footer((FOLDER / "from-the-future.ndjson.json").read_bytes(), where="it")


NDJSON_SHA256 = "c2a181ecd73dbb254accedc988264005d2cf6bdb5af85e6d82563c7e24c38270"
LOG_SHA256 = "fc0fd99667b7deaba9736559fd2a99518b8afb398ba820b7c37a96f1995c2a1c"
