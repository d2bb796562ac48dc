"""Reads EDN, the notation of Clojure's configurations, as far as configurations use it (github.com/edn-format/edn).

Every value knows its line. Tagged values are their value, sets are lists, characters are text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mirrorlake.config.imports.draft import ImportRefusedError

DEPTH_MAX = 64
"""Deeper than any configuration; keeps a hostile file from exhausting the stack."""

Value = bool | int | float | str | list["Node"] | dict[str, "Node"] | None


class Keyword(str):
    """A keyword or a symbol, without its colon."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line it begins on, from 1. Keys of mappings are keywords or texts, without the colon."""

    line: int
    value: Value


_TOKEN = re.compile(
    r"""(?P<blank>[\s,]+|;[^\n]*)
      |(?P<text>"(?:[^"\\]|\\.)*")
      |(?P<open>\#?\{|[\[(])
      |(?P<close>[\])}])
      |(?P<discard>\#_)
      |(?P<tag>\#[A-Za-z][^\s,;"()\[\]{}]*)
      |(?P<character>\\(?:[A-Za-z0-9]+|.))
      |(?P<word>[^\s,;"()\[\]{}\\]+)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"{": "}", "#{": "}", "[": "]", "(": ")"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, bool | None] = {"nil": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}N?", re.ASCII)
_FLOAT = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?M?", re.ASCII)

_Token = tuple[str, str, int]


def read_edn(text: str) -> Node:
    """Returns the one value of a text.

    Raises:
        ImportRefusedError: it is no EDN, holds another value behind it, or a mapping has a key twice; with the line.
    """
    tokens = _tokens(text)
    node = _read(tokens, next(tokens, ("end", "", text.count("\n") + 1)), 0)
    while node is None:
        node = _read(tokens, next(tokens, ("end", "", text.count("\n") + 1)), 0)
    while (token := next(tokens, None)) is not None:
        if token[0] != "discard":
            raise ImportRefusedError(
                f"line {token[2]}: something follows the configuration: is a bracket missing before?"
            )
        _read(tokens, token, 0)
    return node


def _tokens(text: str) -> Iterator[_Token]:
    line, at = 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            what = "a text without its closing quote" if text[at] == '"' else f"`{text[at]}` cannot stand here"
            raise ImportRefusedError(f"line {line}: no EDN: {what}")
        kind = str(found.lastgroup)
        if kind != "blank":
            yield kind, found.group(), line
        line += found.group().count("\n")
        at = found.end()


def _read(tokens: Iterator[_Token], token: _Token, depth: int) -> Node | None:
    """Returns the value that begins with a token; None for one that is discarded."""
    kind, text, line = token
    if depth > DEPTH_MAX:
        raise ImportRefusedError(f"line {line}: nested deeper than {DEPTH_MAX} levels")
    match kind:
        case "text":
            return Node(line, _unescaped(text[1:-1], line))
        case "open":
            return Node(line, _collection(tokens, text, line, depth))
        case "word":
            return Node(line, _word(text))
        case "character":
            return Node(line, text[1:])
        case "tag" | "discard":
            value = None
            while value is None:
                value = _read(tokens, _next(tokens, line), depth + 1)
            return value if kind == "tag" else None
        case "end":
            raise ImportRefusedError("it holds no value: name the file that the program is started with")
        case _:
            raise ImportRefusedError(f"line {line}: `{text}` closes nothing")


def _next(tokens: Iterator[_Token], line: int) -> _Token:
    token = next(tokens, None)
    if token is None:
        raise ImportRefusedError(f"line {line}: what begins here does not end: a closing bracket is missing")
    return token


def _collection(tokens: Iterator[_Token], opening: str, line: int, depth: int) -> list[Node] | dict[str, Node]:
    items: list[Node] = []
    while (token := _next(tokens, line))[0] != "close":
        if (item := _read(tokens, token, depth + 1)) is not None:
            items.append(item)
    if token[1] != _CLOSING[opening]:
        raise ImportRefusedError(f"line {token[2]}: `{token[1]}` closes `{opening}` of line {line}")
    return _mapping(items, line) if opening == "{" else items


def _mapping(items: list[Node], line: int) -> dict[str, Node]:
    if len(items) % 2:
        raise ImportRefusedError(f"line {line}: the mapping that begins here has a key without a value")
    mapping: dict[str, Node] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key.value, str):
            raise ImportRefusedError(f"line {key.line}: a key must be a keyword or a text")
        if key.value in mapping:
            raise ImportRefusedError(f"line {key.line}: `{key.value}` is there twice: remove one of them")
        # The place of a setting is that of its key.
        mapping["".join(key.value)] = Node(key.line, value.value)
    return mapping


def _word(text: str) -> bool | int | float | str | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text.rstrip("N"))
    if _FLOAT.fullmatch(text):
        return float(text.rstrip("M"))
    return Keyword(text.removeprefix(":"))


def _unescaped(text: str, line: int) -> str:
    def one(found: re.Match[str]) -> str:
        letter = found.group(1)
        if letter in '"\\':
            return letter
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if len(letter) == 5:
            return chr(int(letter[1:], 16))
        raise ImportRefusedError(f"line {line}: no EDN: `\\{letter}` in a text")

    return _ESCAPE.sub(one, text)
