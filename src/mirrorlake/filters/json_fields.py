"""``get_json_object`` as Spark has it, for paths of fields' names. Pure.

Spark reads a document as a stream: what follows its end is not looked at, and any flaw before makes the answer NULL. Of
fields that come twice the first one with a value counts. Text comes without its quotes, all else as it is written anew:
a number with a point is a double then.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from mirrorlake.kafka.java_text import as_java_shows

DEPTH_MAX = 1000
"""How deep Jackson reads."""
DIGITS_MAX = 1000
"""How many digits of a number it reads."""
NAME_LENGTH_MAX = 50_000
"""How long the name of a field may be to it."""
STRING_LENGTH_MAX = 20_000_000
"""How many UTF-16 units a text may have that it reads; what it passes over may be longer."""

_BRACKETS_SURE = 100
"""What is certainly within Python's own limit of recursion, however deep it is."""
_FRAMES_A_BRACKET = 8


class _Object(list[tuple[str, object]]):
    """The fields of an object in their order, repeated ones too."""


class _Number(str):
    """A number as Jackson writes it anew."""

    __slots__ = ()


def json_field(document: bytes, path: Sequence[str]) -> bytes | None:
    """Returns the text at a path of fields' names in a document; None where Spark says NULL.

    Args:
        document: JSON, or not.
        path: names, outermost first; at least one.
    """
    text = as_java_shows(document)
    if not text.lstrip(" \t\n\r").startswith("{"):
        return None  # there is no field, whatever it is
    if text.count("{") + text.count("[") <= _BRACKETS_SURE:
        return _field(text, path)
    limit = sys.getrecursionlimit()
    # As deep as Jackson reads, from wherever this is called.
    sys.setrecursionlimit(max(limit, _FRAMES_A_BRACKET * DEPTH_MAX))
    try:
        return _field(text, path)
    finally:
        sys.setrecursionlimit(limit)


def _field(text: str, path: Sequence[str]) -> bytes | None:
    start = len(text) - len(text.lstrip(" \t\n\r"))
    try:
        root, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        # Spark lets text stand in single quotes, too.
        again = _STRING.sub(_in_double_quotes, text) if "'" in text else text
        return _field(again, path) if again != text else None
    if end - start > 2 * DEPTH_MAX and _depth(text[start:end]) > DEPTH_MAX:
        return None
    found = _found(root, path)
    if len(text) > STRING_LENGTH_MAX // 2 and _has_too_long_text(found):
        return None
    try:
        return None if found is None else (found if type(found) is str else _written(found)).encode()
    except UnicodeEncodeError:
        return None


def _found(node: object, path: Sequence[str]) -> object:
    """Returns what is at the path; None where nothing is, or null."""
    if not path or node is None:
        return node
    if isinstance(node, _Object):
        for name, value in node:
            if name == path[0] and (found := _found(value, path[1:])) is not None:
                return found
    return None


def _has_too_long_text(node: object) -> bool:
    match node:
        case _Number():
            return False
        case str():
            is_long = len(node) > STRING_LENGTH_MAX // 2
            return is_long and len(node.encode("utf-16-le", "surrogatepass")) > 2 * STRING_LENGTH_MAX
        case _Object():
            return any(_has_too_long_text(value) for _, value in node)
        case list():
            return any(map(_has_too_long_text, node))
        case _:
            return False


# Neither a choice nor a look ahead within a possessive repeat: behind it, Python before 3.11.5 continues from a wrong
# place (gh-100061 and gh-106052 of CPython).
_STRING = re.compile(r""""((?:[^"\\]*+\\.)*+[^"\\]*+\\?)("?)|'((?:[^'\\]*+\\.)*+[^'\\]*+\\?)('?)""", re.DOTALL)
"""Text in quotes, or all that is left behind one that nothing ends: so that nothing is looked at twice."""


def _in_double_quotes(string: re.Match[str]) -> str:
    in_double, double_end, in_single, single_end = string.groups()
    if not (double_end or single_end):
        return string[0]
    text = in_single if in_double is None else in_double
    content = re.sub(r"\\?.", lambda each: _UNLIKE.get(each[0], each[0]), text, flags=re.DOTALL)
    return f'"{content}"'


_UNLIKE = {"\\'": "'", '"': '\\"'}
"""What is written otherwise in double quotes."""


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[{}\[\]]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)):
        depth += 1 if bracket in "{[" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(fields: list[tuple[str, object]]) -> _Object:
    if any(len(name) > NAME_LENGTH_MAX for name, _ in fields):
        raise ValueError("a name is too long")
    return _Object(fields)


def _integer(text: str) -> _Number:
    if len(text.lstrip("-")) > DIGITS_MAX:
        raise ValueError("a number is too long")
    return _Number("0" if text == "-0" else text)


def _double(text: str) -> _Number:
    if sum(map(str.isdigit, text)) > DIGITS_MAX:
        raise ValueError("a number is too long")
    return _Number(java_double(float(text)))


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_double, parse_constant=_refused, strict=False
)
"""Control characters in text are let pass, as Spark does."""


def _written(node: object) -> str:
    match node:
        case None:
            return "null"
        case bool():
            return "true" if node else "false"
        case _Number():
            return node
        case str():
            return _quoted(node)
        case _Object():
            return "{" + ",".join(f"{_quoted(name)}:{_written(value)}" for name, value in node) + "}"
        case list():
            return "[" + ",".join(map(_written, node)) + "]"
        case _:
            raise AssertionError(f"nothing of {type(node)} is decoded")


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _quoted(text: str) -> str:
    escaped = re.sub(
        r'["\\\x00-\x1f\ud800-\udfff]', lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}", text
    )
    return f'"{escaped}"'


def java_double(number: float) -> str:
    """Returns a number as Java writes a double since version 19: the fewest digits that are read back as the same.

    One that is too large for a double is written as text, in quotes.
    """
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign = "-" if str(number).startswith("-") else ""
    digits, _, exponent_text = f"{abs(number)!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    exponent = int(exponent_text or 0) + len(whole) - 1
    significant = (whole + fraction).lstrip("0")
    exponent -= len(whole + fraction) - len(significant) if whole == "0" else 0
    significant = significant.rstrip("0")
    if not significant:
        return f"{sign}0.0"
    if -3 <= exponent < 7:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{significant}"
        padded = significant.ljust(exponent + 2, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :]}"
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"
