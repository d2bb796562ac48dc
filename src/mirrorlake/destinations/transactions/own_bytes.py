"""What the keys and values of a mirror's own records are made of: texts and numbers. Pure."""

import struct

TEXT_LENGTH = struct.Struct(">H")
"""Of the bytes of a text, before them."""

_NUMBER_BITS_MAX = 63


def text_bytes(text: str) -> bytes:
    """Returns a text as records hold it: its length and its UTF-8."""
    encoded = text.encode()
    return TEXT_LENGTH.pack(len(encoded)) + encoded


def put_number(into: bytearray, number: int) -> None:
    """Appends an unsigned number: 7 bits a byte, the lowest first, the highest bit set in all bytes but the last."""
    while number > 0x7F:
        into.append(number & 0x7F | 0x80)
        number >>= 7
    into.append(number)


def number_at(encoded: bytes, at: int) -> tuple[int, int]:
    """Returns the number that ``put_number`` wrote at ``at``, and where it ends.

    Raises:
        ValueError: there is none, or one above 63 bits.
    """
    number = 0
    for shift in range(0, _NUMBER_BITS_MAX, 7):
        if at >= len(encoded):
            break
        byte = encoded[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError(f"a number that does not end at byte {at}")
