"""By which `select` a copy was made: what its progress record says of it, and what is concluded from none."""

import pytest

from mirrorlake.destinations.map.marks.select_mark import AS_IT_IS_MARK, SelectMark, decode_mark, encode_mark
from mirrorlake.destinations.transactions.own_records import columns_of

FINGERPRINT = "0123456789abcdef0123456789abcdef"
MARK = SelectMark(fingerprint=FINGERPRINT, start_offset=300)
BYTES = bytes.fromhex("01000000000000012c") + FINGERPRINT.encode()


def test_a_mark_has_these_bytes_and_is_read_from_them_among_other_headers() -> None:
    assert encode_mark(MARK) == BYTES
    columns = columns_of([(b"k", b"v"), (b"l", b"w")], 5, headers=[[(b"x", None), (b"select", BYTES)], []])
    assert [decode_mark(each) for each in columns.headers.to_pylist()] == [MARK, AS_IT_IS_MARK]


def test_a_copy_that_was_never_selected_writes_none_and_one_that_no_longer_is_says_from_where_on() -> None:
    assert encode_mark(AS_IT_IS_MARK) is None
    ended = MARK.followed_by("", 400)
    written = encode_mark(ended)
    assert written is not None
    assert decode_mark([{"key": b"select", "value": written}]) == ended == SelectMark(start_offset=400)


def test_a_mark_stays_while_the_select_does() -> None:
    assert MARK.followed_by(FINGERPRINT, 400) == MARK
    assert AS_IT_IS_MARK.followed_by("", 400) == AS_IT_IS_MARK
    assert MARK.followed_by("b", 400) == SelectMark(fingerprint="b", start_offset=400)


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02" + BYTES[1:], BYTES[:9] + b"\xff", b"\x01" + b"\xff" * 8])
def test_a_mark_that_is_not_understood_is_of_a_select_that_nobody_has(value: bytes) -> None:
    found = decode_mark([{"key": b"select", "value": value}])
    assert found.fingerprint not in ("", FINGERPRINT)
