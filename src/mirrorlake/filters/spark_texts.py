"""What Spark makes of text: numbers, and how many characters it counts. Pure."""

import re
from math import inf, nan

from mirrorlake.kafka.java_text import as_java_shows

_PADDING = bytes(range(0x21)) + b"\x7f"
"""What Spark trims off a text before it reads an integer: whitespace and control characters."""
_BIGINT = re.compile(rb"([+-]?)([0-9]*)(?:\.[0-9]*)?")
_EXACT_BIGINT = re.compile(rb"([+-]?)([0-9]+)")
_BIGINT_DIGITS_MAX = 19
# Possessive, as digits that are given back and taken again make time that is the square of their number.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++")
_EXACT = {"NaN": nan, "+NaN": nan, "-NaN": nan}
_BY_NAME = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), inf),
    **dict.fromkeys(("-inf", "-infinity"), -inf),
    "nan": nan,
}
"""Whatever their case."""


def to_bigint(text: bytes, *, is_exact: bool = False) -> int | None:
    """Returns the integer that a text is as BIGINT, what follows its point cut off; None where Spark says NULL.

    Where ``is_exact``, as by ANSI rules, a text with a point is none.
    """
    stripped = text.strip(_PADDING)
    match = (_EXACT_BIGINT if is_exact else _BIGINT).fullmatch(stripped)
    if match is None or len(stripped) == len(match[1]):
        return None
    digits = match[2].lstrip(b"0") or b"0"
    number = int(match[1] + digits) if len(digits) <= _BIGINT_DIGITS_MAX else 1 << 63
    return number if -(1 << 63) <= number < 1 << 63 else None


def to_double(text: bytes) -> float | None:
    """Returns the number that a text is as DOUBLE, as Java reads it; None where Spark says NULL."""
    stripped = as_java_shows(text).strip("".join(map(chr, range(0x21))))
    if stripped in _EXACT:
        return _EXACT[stripped]
    if stripped.lower() in _BY_NAME:
        return _BY_NAME[stripped.lower()]
    number = stripped[:-1] if stripped[-1:] in ("d", "D", "f", "F") and not stripped[:-1].isalpha() else stripped
    if _DECIMAL.fullmatch(number):
        return float(number)
    if _HEXADECIMAL.fullmatch(number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return -inf if number.startswith("-") else inf
    return None


def character_count(text: bytes) -> int:
    """Returns how many characters Spark counts in a text, by the first byte of each."""
    if text.isascii():
        return len(text)
    at = count = 0
    while at < len(text):
        at += _bytes_of_character(text[at])
        count += 1
    return count


def _bytes_of_character(first: int) -> int:
    if first < 0xC2:
        return 1
    if first < 0xE0:
        return 2
    if first < 0xF0:
        return 3
    return 4 if first < 0xF5 else 1
