"""What is wrong with a text that is no expression, in plain words: where it is, and what is expected there.

sqlglot tells it in terms of its own classes, and of a quotation mark that is not closed not even where it is.
"""

import re
from collections.abc import Mapping
from typing import cast

from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.refusal import refused

_SHOWN_LENGTH_MAX = 40
_CLOSED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""What holds quotation marks that open nothing: texts and names in quotation marks, and comments."""
_MISSING = "a value or a condition is missing there"
_OPERANDS = re.compile(r"Required keyword: '(\w+)' missing for")
_EXPECTED = re.compile(r"Expect(?:ing|ed) (\S{1,3}|[A-Z]{2,})(?: after ([A-Z]+))?$")
_WORDS = {"TYPE": "a type", "END": "END", "AS": "AS", ")": "a closing parenthesis", "(": "an opening parenthesis"}


def unreadable(text: str, error: Exception) -> UnsupportedError:
    """Returns the error of a text that the parser refuses; ``error`` is what that raised."""
    if isinstance(error, RecursionError):
        return _refused("it is nested too deeply")
    told = getattr(error, "errors", None)
    if not told:
        return _refused(_unclosed(text))
    first = cast("Mapping[str, object]", told[0])
    return _refused(f"{_place(text, first)}: {_expected(str(first['description']))}")


def _refused(why: str) -> UnsupportedError:
    return refused(f"it cannot be read as Spark SQL: {why}")


def _place(text: str, told: Mapping[str, object]) -> str:
    token = str(told["highlight"])
    shown = token if len(token) <= _SHOWN_LENGTH_MAX else token[: _SHOWN_LENGTH_MAX - 1] + "…"
    # The parser counts up to a token's last character.
    return f"{_at(text, int(str(told['line'])), max(1, int(str(told['col'])) - len(token) + 1))}, at `{shown}`"


def _at(text: str, line: int, column: int) -> str:
    return f"line {line}, character {column}" if "\n" in text.strip() else f"character {column}"


def _expected(description: str) -> str:
    if missing := _OPERANDS.match(description):
        return "a bound is missing: BETWEEN … AND …" if missing[1] in ("low", "high") else _MISSING
    if expected := _EXPECTED.match(description.rstrip(".")):
        word = _WORDS.get(expected[1], f"`{expected[1]}`")
        return f"{word} is expected" + (f" in {expected[2]}" if expected[2] else "")
    if description.startswith("Invalid expression"):
        return "nothing of that kind is expected there"
    return "that is not understood there"


def _unclosed(text: str) -> str:
    """Returns what is wrong with a text of which not even the words can be told apart."""
    rest = _CLOSED.sub(lambda found: " " * len(found[0]), text)
    for mark, what in (("/*", "the comment"), ("'", "the text"), ('"', "the text"), ("`", "the name")):
        if (index := rest.find(mark)) >= 0:
            line = text.count("\n", 0, index) + 1
            column = index - (text.rfind("\n", 0, index) + 1) + 1
            return f"{_at(text, line, column)}: {what} that begins with {mark} is not closed"
    return "a number in it, or bytes as in X'5C', are not written as they should be"
