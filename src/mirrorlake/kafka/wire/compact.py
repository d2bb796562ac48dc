"""Compact encodings (KIP-482): numbers of variable length, lists, texts and tagged fields.

What wrong bytes raise: `answers.py`. Nothing outside of the view is ever read.
"""

from mirrorlake.kafka.wire.answers import MalformedError, check_count

NO_TAGS = b"\0"
_VARINT_BYTES_MAX = 5


def varint(number: int) -> bytes:
    """Returns an unsigned number in its variable length."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def compact_text(text: str) -> bytes:
    """Returns a text behind one more than its length in bytes."""
    encoded = text.encode()
    return varint(len(encoded) + 1) + encoded


def number_at(view: memoryview, at: int) -> tuple[int, int]:
    """Returns an unsigned number of variable length, and where it ends."""
    number = view[at]
    if number < 0x80:
        return number, at + 1
    number &= 0x7F
    for place in range(1, _VARINT_BYTES_MAX):
        byte = view[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise MalformedError("a number of its compact encoding has no end")


def count_at(view: memoryview, at: int, row_bytes_min: int) -> tuple[int, int]:
    """Returns how many rows a compact list has, none of the list of nothing, and where the first begins."""
    number, at = number_at(view, at)
    count = max(0, number - 1)
    check_count(count, row_bytes_min, len(view) - at)
    return count, at


def text_at(view: memoryview, at: int) -> tuple[str | None, int]:
    """Returns a compact text, None for null, and where it ends.

    Raises:
        UnicodeDecodeError: it is no UTF-8.
    """
    size, at = number_at(view, at)
    if not size:
        return None, at
    end = at + size - 1
    if end > len(view):
        raise MalformedError(f"{size - 1} bytes announced, {len(view) - at} there")
    return str(view[at:end], "utf-8"), end


def after_tags(view: memoryview, at: int) -> int:
    """Returns where the tagged fields at ``at`` end; nothing of theirs is used."""
    tags, at = number_at(view, at)
    for _ in range(tags):
        _, at = number_at(view, at)
        size, at = number_at(view, at)
        if size > len(view) - at:
            raise MalformedError(f"{size} bytes announced, {len(view) - at} there")
        at += size
    return at
