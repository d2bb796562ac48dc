import json

import pytest

from mirrorlake.archive.claims import CLAIM_BYTES_MAX, RangeClaim, check_claim, decode_claim, encode_claim
from mirrorlake.archive.names import ClaimName
from mirrorlake.archive.origin import Origin
from mirrorlake.errors import ChainBrokenError, OtherSourceError, TopicRecreatedError

ORIGIN = Origin(cluster_id="c-1", topic="orders", topic_id="t-1", partition=3)
NAME = ClaimName(from_offset=10, revision=2)
CLAIM = RangeClaim(to_offset=99, extension="parquet", raw_bytes=1234, writer="host/1/ab", origin=ORIGIN)
LINE = (
    b'{"version": 1, "to_offset": 99, "extension": "parquet", "raw_bytes": 1234, "writer": "host/1/ab", '
    b'"cluster_id": "c-1", "topic_id": "t-1", "topic": "orders", "partition": 3, "from_offset": 10, "generation": 2, '
    b'"sealed_by": "xxh3-128", "seal": "31a0c7a6ef62a11a4f06c9812532d89d"}\n'
)
EARLY = {"version": 1, "to_offset": 99, "extension": "parquet", "raw_bytes": 1234, "writer": "host/1/ab"}
"""As the first versions wrote claims."""


def early(**changes: object) -> bytes:
    return json.dumps({**EARLY, **changes}).encode()


def check(claim: RangeClaim | None, *, extension: str = "parquet", origin: Origin = ORIGIN) -> None:
    assert claim is not None
    check_claim(claim, "orders/3/_claim", extension=extension, origin=origin)


def test_a_claim_is_one_line_of_json() -> None:
    assert encode_claim(CLAIM, NAME) == LINE


def test_a_claim_is_read_back_as_it_was_written() -> None:
    claim = decode_claim(encode_claim(CLAIM, NAME), NAME)
    assert claim == CLAIM
    check(claim)


def test_a_topic_whose_name_looks_like_an_open_seal_keeps_its_name() -> None:
    zeros = RangeClaim(
        to_offset=99,
        extension="parquet",
        raw_bytes=1,
        writer="w",
        origin=Origin(cluster_id="c-1", topic="0" * 32, topic_id="t-1", partition=3),
    )
    claim = decode_claim(encode_claim(zeros, NAME), NAME)
    assert claim == zeros


def test_a_claim_of_a_later_version_still_says_where_to_cut() -> None:
    claim = decode_claim(early(version=7, colour="blue"), ClaimName(from_offset=99))
    assert claim == RangeClaim(to_offset=99, extension="parquet", raw_bytes=1234, writer="host/1/ab")
    check(claim)


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
        LINE[:-10],
        LINE + b" " * CLAIM_BYTES_MAX,
        early(to_offset=True),
        early(to_offset=99.0),
        early(to_offset="99"),
        early(to_offset=-1),
        early(to_offset=2**63 - 1),
        early(to_offset=9),
        early(raw_bytes=-1),
        json.dumps({key: value for key, value in EARLY.items() if key != "writer"}).encode(),
    ],
)
def test_bytes_that_are_no_claim_of_the_offset_are_void(data: bytes) -> None:
    assert decode_claim(data, NAME) is None


def test_no_change_of_one_bit_makes_a_claim_say_anything_else() -> None:
    """It is void, as no version could read it, or it stops whoever reads it."""
    outcomes = {"void": 0, "stops": 0}
    for place in range(len(LINE)):
        for bit in range(8):
            changed = bytearray(LINE)
            changed[place] ^= 1 << bit
            claim = decode_claim(bytes(changed), NAME)
            outcomes["void" if claim is None else "stops"] += 1
            if claim is not None:
                with pytest.raises(ChainBrokenError, match="then delete orders/3/_claim"):
                    check(claim)
    assert min(outcomes.values()) > 200


def test_a_claim_under_another_name_stops_who_reads_it() -> None:
    copied = decode_claim(LINE, ClaimName(from_offset=10, revision=3))
    with pytest.raises(ChainBrokenError, match="offset 10, revision 2: it was renamed or copied"):
        check(copied)


def test_a_format_this_version_does_not_know_stops_who_reads_it() -> None:
    claim = decode_claim(early(version=2, extension="avro", codec="x"), NAME)
    with pytest.raises(ChainBrokenError, match=r"claims a avro segment for host/1/ab.*delete orders/3/_claim"):
        check(claim)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (Origin(cluster_id="c-2", topic="orders", topic_id="t-1", partition=3), OtherSourceError),
        (Origin(cluster_id="c-1", topic="orders.2", topic_id="t-2", partition=3), OtherSourceError),
        (Origin(cluster_id="c-1", topic="orders", topic_id="t-1", partition=4), OtherSourceError),
        (Origin(cluster_id="c-1", topic="orders", topic_id="t-2", partition=3), TopicRecreatedError),
    ],
)
def test_a_claim_of_another_source_stops_who_reads_it(other: Origin, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"orders/3/_claim was claimed by host/1/ab.*delete orders/3/_claim"):
        check(CLAIM, origin=other)


@pytest.mark.parametrize(
    "same",
    [
        Origin(cluster_id="c-1", topic="orders", topic_id=None, partition=3),
        Origin(cluster_id="", topic="orders", topic_id="t-1", partition=3),
    ],
)
def test_what_is_not_known_of_a_source_differs_from_nothing(same: Origin) -> None:
    check(CLAIM, origin=same)


def test_a_claim_that_does_not_say_whose_records_it_is_about_is_adopted() -> None:
    check(decode_claim(early(), NAME))
