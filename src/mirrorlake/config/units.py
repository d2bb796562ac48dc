"""Sizes and durations as people write them."""

import re
from fractions import Fraction

_SIZE_UNITS = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
_DURATION_UNITS = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
SIZE_HINT = "write a size with B, kB, MB, GB, KiB, MiB or GiB, for example 128MiB"
DURATION_HINT = "write a duration with ms, s, m, h or d, for example 5s"
_NUMBER_AND_UNIT = re.compile(r"(\d{1,19}(?:\.\d{1,9})?) ?([A-Za-z]*)", re.ASCII)


def parse_size(text: str) -> int:
    """Returns the bytes of ``128MiB``, ``64kB`` or a plain number; the unit's case does not matter.

    Raises:
        ValueError: not a size; the text says what is wrong without repeating the input.
    """
    amount, unit = _split(text, SIZE_HINT)
    if unit and unit.lower() not in _SIZE_UNITS:
        raise ValueError(SIZE_HINT)
    size = amount * _SIZE_UNITS[unit.lower() or "b"]
    if size.denominator != 1:
        raise ValueError("a size is a whole number of bytes")
    return size.numerator


def parse_duration(text: str) -> float:
    """Returns the seconds of ``250ms``, ``5s``, ``1m``, ``2h`` or ``1d``.

    Raises:
        ValueError: not a duration, or the unit is missing; the text does not repeat the input.
    """
    amount, unit = _split(text, DURATION_HINT)
    if unit not in _DURATION_UNITS:
        raise ValueError(DURATION_HINT)
    return float(amount * _DURATION_UNITS[unit])


def format_size(size_bytes: int) -> str:
    """Returns a size in the largest binary unit that divides it: ``128MiB``, ``1000B``."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def format_duration(seconds: float) -> str:
    """Returns a duration in the largest unit that divides it: ``1m``, ``250ms``."""
    milliseconds = round(seconds * 1000)
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor}{unit}"
    return f"{milliseconds}ms"


def _split(text: str, hint: str) -> tuple[Fraction, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None:
        raise ValueError(hint)
    return Fraction(match[1]), match[2]
