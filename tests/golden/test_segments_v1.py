"""Segments and claims of format 1, as they lie on disks, are read by every version of the package."""

from pathlib import Path

import pytest

from golden.records_v1 import RECORDS, Record
from mirrorlake.archive.claims import RangeClaim, decode_claim
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.names import ClaimName
from mirrorlake.errors import ChainBrokenError, UnsupportedError
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
GOOD = SegmentFooter(
    envelope=ENVELOPE,
    end_offset=21,
    records=7,
    raw_bytes=338,
    first_offset=10,
    last_offset=20,
    timestamp_ms_min=0,
    timestamp_ms_max=1_700_000_000_003,
    gap_offsets={GapKind.ABSENT: 4},
    gaps=(
        Gap(offsets=OffsetRange(start_offset=14, end_offset=15), kind=GapKind.ABSENT),
        Gap(offsets=OffsetRange(start_offset=17, end_offset=20), kind=GapKind.ABSENT),
    ),
    gaps_complete=True,
    checksum="604b3220a59af493116db3f9d915d7b4",
)
ALL_TRUNCATED = SegmentFooter(
    envelope=ENVELOPE,
    end_offset=21,
    records=0,
    raw_bytes=0,
    first_offset=None,
    last_offset=None,
    timestamp_ms_min=None,
    timestamp_ms_max=None,
    gap_offsets={GapKind.TRUNCATED: 11},
    gaps=(Gap(offsets=OffsetRange(start_offset=10, end_offset=21), kind=GapKind.TRUNCATED),),
    gaps_complete=True,
    checksum="e64eaf72ca2b959ba3ba08373953137a",
)


def opened(name: str) -> ParquetSegmentReader:
    return ParquetSegmentReader((FOLDER / name).open("rb"), where=name)


def records_in(segment: SegmentReader) -> list[Record]:
    return [
        Record(
            int(columns.offsets[row]),
            int(columns.timestamps[row]),
            int(columns.timestamp_types[row]),
            columns.keys[row].as_py(),
            columns.values[row].as_py(),
            tuple((header["key"], header["value"]) for header in columns.headers[row].as_py()),
        )
        for columns in segment.records()
        for row in range(len(columns))
    ]


def test_a_good_segment_is_read() -> None:
    with opened("good.parquet") as segment:
        assert segment.footer == GOOD
        assert records_in(segment) == list(RECORDS)
        segment.check_content()


def test_a_segment_without_records_is_read() -> None:
    with opened("all-truncated.parquet") as segment:
        assert segment.footer == ALL_TRUNCATED
        assert records_in(segment) == []
        segment.check_content()


def test_a_segment_cut_short_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=r"cut-short\.parquet cannot be read as Parquet") as refused:
        opened("cut-short.parquet")
    assert "archive the range again" in refused.value.hint


def test_a_segment_from_the_future_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"from-the-future\.parquet: segment format 2"):
        opened("from-the-future.parquet")


def test_a_segment_by_mirror_v3_is_read() -> None:
    with opened("by-mirror-v3.parquet") as segment:
        assert segment.footer is None
        assert [record.offset for record in records_in(segment)] == [10, 11, 12, 13]
        assert records_in(segment) == list(RECORDS[:4])


@pytest.mark.parametrize("name", ["claim.json", "claim-from-the-future.json"])
def test_a_claim_is_read(name: str) -> None:
    claim = decode_claim((FOLDER / name).read_bytes(), ClaimName(from_offset=10))
    assert claim == RangeClaim(to_offset=20, extension="parquet", raw_bytes=340, writer="host-1/4711/0b5a")
