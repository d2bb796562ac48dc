import json
from dataclasses import replace

import pytest
import xxhash

from mirrorlake.archive.checksum import RecordPart
from mirrorlake.archive.envelope import SegmentFooter, SnapshotState, decode_footer, encode_footer
from mirrorlake.errors import ChainBrokenError, UnsupportedError
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from unit.archive.sample_records import envelope

FOOTER = SegmentFooter(
    envelope=envelope(start_offset=10),
    end_offset=21,
    records=8,
    raw_bytes=350,
    first_offset=10,
    last_offset=20,
    timestamp_ms_min=0,
    timestamp_ms_max=1_700_000_000_000,
    gap_offsets={GapKind.ABSENT: 3},
    gaps=(Gap(offsets=OffsetRange(start_offset=14, end_offset=15), kind=GapKind.ABSENT),),
    gaps_complete=False,
    checksum="00ff",
)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(encode_footer(FOOTER)), **fields}).encode()


def test_a_footer_is_one_json_object_with_these_fields() -> None:
    assert json.loads(encode_footer(FOOTER)) == {
        "format_version": 1,
        "cluster_id": "cluster",
        "topic_id": "topic-id",
        "topic": "orders",
        "partition": 3,
        "start_offset": 10,
        "end_offset": 21,
        "records": 8,
        "raw_bytes": 350,
        "first_offset": 10,
        "last_offset": 20,
        "timestamp_ms_min": 0,
        "timestamp_ms_max": 1_700_000_000_000,
        "gap_offsets": {"absent": 3},
        "gaps": [[14, 15, "absent"]],
        "gaps_complete": False,
        "checksum": {"algorithm": "xxh3-128-columns", "value": "00ff"},
        "writer": "test",
        "created_at": "2026-01-02T03:04:05Z",
    }


def test_a_footer_is_read_back_as_it_was_written() -> None:
    assert decode_footer(encode_footer(FOOTER), where="x") == FOOTER


def test_a_footer_says_by_which_select_its_records_were_made_where_one_did() -> None:
    selected = replace(FOOTER, envelope=replace(FOOTER.envelope, select="0a"))
    assert json.loads(encode_footer(selected))["select"] == "0a"
    assert decode_footer(encode_footer(selected), where="x") == selected


PARTS = (RecordPart(end_offset=15, checksum="0a" * 16), RecordPart(end_offset=21, checksum="0b" * 16))
PARTED = replace(
    FOOTER,
    parts=PARTS,
    algorithm="xxh3-128-parts",
    checksum=xxhash.xxh3_128_hexdigest(b"\x0a" * 16 + b"\x0b" * 16),
    compression="zstd-3",
)


def test_a_footer_says_of_which_parts_its_checksum_is_and_how_pages_are_compressed() -> None:
    fields = json.loads(encode_footer(PARTED))
    assert fields["parts"] == [[15, "0a" * 16], [21, "0b" * 16]]
    assert (fields["checksum"]["algorithm"], fields["compression"]) == ("xxh3-128-parts", "zstd-3")
    back = decode_footer(encode_footer(PARTED), where="x")
    assert (back, back.compression) == (PARTED, "zstd-3")


@pytest.mark.parametrize(
    "fields",
    [
        {"parts": []},
        {"parts": [[21, "0b" * 16]]},
        {"parts": [[15, "0b" * 16], [21, "0a" * 16]]},
        {"parts": [[15, "0a" * 16], [20, "0b" * 16]]},
        {"parts": [[10, "0a" * 16], [21, "0b" * 16]]},
        {"parts": [[21, "0a" * 16], [15, "0b" * 16]]},
        {"parts": [[15, "0a" * 15], [21, "0b" * 16]]},
        {"parts": [[15, "xy" * 16], [21, "0b" * 16]]},
        {"parts": [15, 21]},
        {"checksum": {"algorithm": "xxh3-128-columns", "value": PARTED.checksum}},
        {"snapshot": {"complete_since_ms": 0}},
    ],
)
def test_parts_that_are_not_those_of_the_checksum_are_refused(fields: dict[str, object]) -> None:
    data = json.dumps({**json.loads(encode_footer(PARTED)), **fields}).encode()
    with pytest.raises(ChainBrokenError, match="its footer is not one of mirrorlake's"):
        decode_footer(data, where="x")


def test_a_field_this_version_does_not_know_is_passed_over() -> None:
    assert decode_footer(changed(colour="blue"), where="x") == FOOTER


def test_a_snapshot_that_does_not_say_whether_it_is_exact_is_not() -> None:
    snapshot = replace(FOOTER, snapshot=SnapshotState(complete_since_ms=7, is_exact=True))
    assert json.loads(encode_footer(snapshot))["snapshot"] == {"complete_since_ms": 7, "is_exact": True}
    assert decode_footer(encode_footer(snapshot), where="x") == snapshot
    silent = decode_footer(changed(snapshot={"complete_since_ms": 7}), where="x")
    assert silent.snapshot == SnapshotState(complete_since_ms=7, is_exact=False)


def test_a_snapshot_says_that_it_holds_tombstones_only_where_it_does() -> None:
    snapshot = replace(FOOTER, snapshot=SnapshotState(complete_since_ms=0, holds_tombstones=True))
    assert json.loads(encode_footer(snapshot))["snapshot"]["holds_tombstones"] is True
    assert decode_footer(encode_footer(snapshot), where="x") == snapshot


def test_a_later_format_is_refused_by_its_number() -> None:
    with pytest.raises(UnsupportedError, match=r"x: segment format 2, .* reads up to 1") as refused:
        decode_footer(json.dumps({"format_version": 2}).encode(), where="x")
    assert "newer mirrorlake" in refused.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        changed(format_version=0),
        changed(format_version="1"),
        changed(records="8"),
        changed(records=True),
        changed(cluster_id=None),
        changed(end_offset=9),
        changed(gaps=[[1, 2]]),
        changed(gaps=[[2, 1, "absent"]]),
        changed(gaps=[[1, 2, "odd"]]),
        changed(gap_offsets=[]),
        changed(checksum={"algorithm": "md5", "value": ""}),
    ],
)
def test_what_is_no_footer_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(ChainBrokenError, match="x: its footer is not one of mirrorlake's"):
        decode_footer(data, where="x")
