"""Keys of records as a command line and a file of lines have them."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path

from mirrorlake.errors import ConfigurationError

FORMS = "`TEXT`, `text:TEXT`, `base64:…`, `hex:…`, or `null:` for the null key"
_BYTE_ORDER_MARK = "\ufeff"


def parse_key(text: str) -> bytes | None:
    """Returns the key that a text names; None is the null key, which is not the empty one.

    ``base64:…`` and ``hex:…`` are bytes; ``null:`` is the null key; ``text:…`` and everything else is UTF-8, so the
    empty text is the empty key.

    Raises:
        ConfigurationError: what follows ``base64:``, ``hex:`` or ``null:`` is not such, or the text is not Unicode.
    """
    form, colon, rest = text.partition(":")
    if not colon or form not in {"text", "base64", "hex", "null"}:
        form, rest = "text", text
    try:
        if form == "base64":
            return base64.b64decode(rest, validate=True)
        if form == "hex":
            return bytes.fromhex(rest)
        if form == "text":
            return rest.encode()
    except (ValueError, binascii.Error) as error:
        raise ConfigurationError(
            f"{text!r} is not a key: {error}", hint=f"write {FORMS}; a text that begins so goes behind `text:`"
        ) from None
    if rest:
        raise ConfigurationError(f"{text!r} is not a key: nothing follows `null:`", hint=f"write {FORMS}")
    return None


def read_keys(path: Path) -> list[bytes | None]:
    """Returns the keys of a file, one a line, in the forms of `parse_key`; an empty line is an error.

    Lines end with LF or CRLF, neither of which is part of a key. What is more often left by the program that wrote the
    file than meant is refused, as no record would have such a key and nothing would say so: a byte order mark before
    the first key, and in any key a carriage return or a NUL. As ``text:…``, ``base64:…`` or ``hex:…`` they are meant.

    Raises:
        ConfigurationError: the file cannot be read, is not UTF-8, has no line, or one that is no key; names the line.
    """
    try:
        data = path.read_bytes().decode()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}", hint="name a file with one key a line") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigurationError(
            f"{path}, line {line}: not UTF-8", hint="write such a key as `base64:…` or `hex:…`"
        ) from error
    lines = [line.removesuffix("\r") for line in data.split("\n")]
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise ConfigurationError(f"{path} has no line", hint="write one key a line")
    return list(_parsed(path, lines))


def _parsed(path: Path, lines: Iterable[str]) -> Iterable[bytes | None]:
    for number, line in enumerate(lines, 1):
        _check_line(f"{path}, line {number}", line, is_first=number == 1)
        try:
            yield parse_key(line)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, line {number}: not a key", hint=error.hint) from None


def _check_line(place: str, line: str, *, is_first: bool) -> None:
    if not line:
        raise ConfigurationError(f"{place}: empty", hint="the empty key is `text:`, the null key `null:`")
    if is_first and line.startswith(_BYTE_ORDER_MARK):
        hint = "save the file without it; a key that begins so is written as `text:…`, `base64:…` or `hex:…`"
        raise ConfigurationError(f"{place}: begins with a byte order mark", hint=hint)
    if not line.startswith("text:") and any(mark in line for mark in "\r\0"):
        hint = "save the file as UTF-8 with LF or CRLF; such a key is written as `base64:…` or `hex:…`"
        raise ConfigurationError(f"{place}: holds a carriage return or a NUL", hint=hint)
