import json

import pytest

from mirrorlake.archive.claims import CLAIM_BYTES_MAX, Claim, decode_claim, encode_claim

CLAIM = Claim(to_offset=99, extension="parquet", raw_bytes=1234, writer="host/1/ab")
FIELDS = {"version": 1, "to_offset": 99, "extension": "parquet", "raw_bytes": 1234, "writer": "host/1/ab"}


def test_a_claim_is_one_line_of_json() -> None:
    assert encode_claim(CLAIM) == (
        b'{"version": 1, "to_offset": 99, "extension": "parquet", "raw_bytes": 1234, "writer": "host/1/ab"}\n'
    )


def test_a_claim_is_read_back_as_it_was_written() -> None:
    assert decode_claim(encode_claim(CLAIM), from_offset=0) == CLAIM


def test_a_claim_of_a_later_version_still_says_where_to_cut() -> None:
    later = json.dumps({**FIELDS, "version": 7, "colour": "blue"}).encode()
    assert decode_claim(later, from_offset=99) == CLAIM


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 50,
        b"\xff",
        b"[]",
        b"null",
        b"1" * 5000,
        b"[" * 4000,
        encode_claim(CLAIM)[:-10],
        encode_claim(CLAIM) + b" " * CLAIM_BYTES_MAX,
        json.dumps({**FIELDS, "to_offset": True}).encode(),
        json.dumps({**FIELDS, "to_offset": 99.0}).encode(),
        json.dumps({**FIELDS, "to_offset": "99"}).encode(),
        json.dumps({**FIELDS, "to_offset": -1}).encode(),
        json.dumps({**FIELDS, "to_offset": 2**63 - 1}).encode(),
        json.dumps({**FIELDS, "to_offset": 9}).encode(),
        json.dumps({**FIELDS, "extension": "csv"}).encode(),
        json.dumps({**FIELDS, "raw_bytes": -1}).encode(),
        json.dumps({key: value for key, value in FIELDS.items() if key != "writer"}).encode(),
    ],
)
def test_bytes_that_are_no_claim_of_the_offset_are_void(data: bytes) -> None:
    assert decode_claim(data, from_offset=10) is None
