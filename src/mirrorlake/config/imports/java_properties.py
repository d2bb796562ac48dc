"""Files of ``java.util.Properties``: continuation lines, escapes and separators, as that class documents them."""

import re
from collections.abc import Iterator

from mirrorlake.config.imports.draft import Entry, ImportRefusedError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}", re.ASCII)


def read_properties_text(text: str) -> list[Entry]:
    """Returns all settings of a file in their order.

    Raises:
        ImportRefusedError: a key is there twice, or an escape is malformed.
    """
    entries: list[Entry] = []
    first: dict[str, int] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        entry = Entry(number, _unescaped(key, number), _unescaped(value, number))
        if entry.key in first:
            reason = f"`{entry.key}` is there twice, in lines {first[entry.key]} and {number}"
            raise ImportRefusedError(f"{reason}: remove one of them (Java takes the last)")
        first[entry.key] = number
        entries.append(entry)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields lines that hold a setting, continued ones joined, with the number of their first line."""
    started, held = 0, ""
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_BLANK)
        if not started and (not line or line[0] in "#!"):
            continue
        started = started or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            held += line[:-1]
            continue
        yield started, held + line
        started, held = 0, ""
    if started and held:
        yield started, held


def _split(line: str) -> tuple[str, str]:
    """Returns key and value with their escapes: the key ends at the first bare blank, ``=`` or ``:``."""
    end = 0
    while end < len(line) and line[end] not in f"=:{_BLANK}":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    return line[:end], (rest[1:] if rest[:1] in ("=", ":") else rest).lstrip(_BLANK)


def _unescaped(text: str, number: int) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            pieces.append(text[at] if text[at] != "\\" else "")
            at += 1
        elif text[at + 1] == "u":
            if not (digits := _UNICODE.match(text, at + 2)):
                raise ImportRefusedError(f"line {number} has a malformed `\\uXXXX` escape: write four hex digits")
            pieces.append(chr(int(digits.group(), 16)))
            at += 6
        else:
            pieces.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    whole = "".join(pieces).encode("utf-16", "surrogatepass")
    try:
        return whole.decode("utf-16")
    except UnicodeDecodeError:
        raise ImportRefusedError(f"line {number} has half of a `\\uXXXX` pair: write both halves") from None
