"""Reads single values: text, numbers, sizes, durations, words of a choice; and says what is wrong with them.

Values given through an environment variable arrive as text and are read by the same rules. Their content is
never repeated in an error, as it may be a secret.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NoReturn, TypeVar

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from mirrorlake.config.expansion import ExpandedText, UnsetText
from mirrorlake.config.units import SIZE_HINT, format_duration, format_size, parse_duration, parse_size

REFUSED = "refused"
"""Kind of a pydantic error whose message and hint are ours."""
ALREADY_REPORTED = "already_reported"
"""Kind of a pydantic error that must not be shown: the value's problem is known."""

INTEGER_MAX = 2**63 - 1
UNSIGNED_MAX = 2**64 - 1
INTEGER_HINT = "write digits alone, without quotes, unit or point"

Read = TypeVar("Read")
Choice = TypeVar("Choice", bound=StrEnum)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN_LENGTH_MAX = 60


def refuse(message: str, hint: str = "") -> NoReturn:
    """Ends the reading of a value.

    Raises:
        PydanticCustomError: always; of kind ``REFUSED``.
    """
    raise PydanticCustomError(REFUSED, "{message}", {"message": message, "hint": hint})


def by(reader: Callable[[object], Read]) -> BeforeValidator:
    """Returns pydantic's handle for a reader; a value that is known to be unset is passed over in silence."""

    def read(value: object) -> Read:
        if _holds_unset(value):
            raise PydanticCustomError(ALREADY_REPORTED, "known")
        return reader(value)

    return BeforeValidator(read)


def _holds_unset(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(_holds_unset(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, UnsetText)


def found(value: object) -> str:
    """Returns a value as errors may show it: shortened, or a variable's name where one was filled in."""
    if isinstance(value, ExpandedText):
        return "the value of " + " and ".join(f"${{{name}}}" for name in value.variables)
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            short = value if len(value) <= _SHOWN_LENGTH_MAX else value[: _SHOWN_LENGTH_MAX - 1] + "…"
            return f"`{short}`"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"the number {value}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns ``did you mean …?`` with the nearest known word, else all words where they are few, else ""."""
    words = list(known)
    near = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"known here: {', '.join(words)}" if 0 < len(words) <= 12 else ""


def read_any_text(value: object) -> str:
    """Reads text on one line; a number or true/false must stand in quotes to be text."""
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, bool | int | float) else ""
        hint = "write a value behind the colon" if value is None else hint
        refuse(f"expected text, found {found(value)}", hint)
    if _CONTROL.search(value):
        refuse("holds a control character or a line break")
    return "".join(value)  # a plain str: what an ExpandedText knows about its variables ends here


def read_text(value: object) -> str:
    """Reads text that is more than blanks."""
    text = read_any_text(value)
    if not text.strip():
        refuse("is empty")
    return text


def read_boolean(value: object) -> bool:
    """Reads true or false, in YAML 1.2's spelling."""
    if isinstance(value, ExpandedText) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        refuse(f"expected true or false, found {found(value)}")
    return value


def read_integer(minimum: int, maximum: int = INTEGER_MAX) -> Callable[[object], int]:
    """Returns a reader of whole numbers from ``minimum`` to ``maximum``, both inclusive."""

    def read(value: object) -> int:
        number = value
        if isinstance(value, ExpandedText) and re.fullmatch(r"[-+]?[0-9]{1,20}", value, re.ASCII):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            refuse(f"expected a whole number, found {found(value)}", INTEGER_HINT)
        if not minimum <= number <= maximum:
            bounds = f"at least {minimum}" if maximum >= INTEGER_MAX else f"from {minimum} to {maximum}"
            refuse(f"expected a whole number {bounds}, found {found(value)}")
        return number

    return read


def read_trigger(value: object) -> int:
    """Reads a mirror-v3 flush trigger: above zero; 64 bits unsigned there, brought down to 63 here."""
    return min(read_integer(1, UNSIGNED_MAX)(value), INTEGER_MAX)


def read_size(minimum: int, maximum: int = INTEGER_MAX) -> Callable[[object], int]:
    """Returns a reader of sizes in bytes, bounds inclusive; a plain number is bytes."""

    def read(value: object) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number and not isinstance(value, str):
            refuse(f"expected a size, found {found(value)}", SIZE_HINT)
        try:
            size = parse_size(str(value) if is_number else read_any_text(value))
        except ValueError as error:
            refuse(f"expected a size, found {found(value)}", str(error))
        if not minimum <= size <= maximum:
            bounds = f"at least {format_size(minimum)}"
            if maximum < INTEGER_MAX:
                bounds = f"from {format_size(minimum)} to {format_size(maximum)}"
            refuse(f"expected a size {bounds}, found {found(value)}")
        return size

    return read


def read_duration(minimum: float, maximum: float) -> Callable[[object], float]:
    """Returns a reader of durations in seconds, bounds inclusive."""

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            refuse(f"expected a duration, found {found(value)}", "a unit is missing: ms, s, m, h or d")
        try:
            seconds = parse_duration(read_any_text(value))
        except ValueError as error:
            refuse(f"expected a duration, found {found(value)}", str(error))
        if not minimum <= seconds <= maximum:
            bounds = f"from {format_duration(minimum)} to {format_duration(maximum)}"
            refuse(f"expected a duration {bounds}, found {found(value)}")
        return seconds

    return read


def read_choice(kind: type[Choice]) -> Callable[[object], Choice]:
    """Returns a reader of one word of an enumeration."""
    words = [member.value for member in kind]

    def read(value: object) -> Choice:
        if isinstance(value, str) and value in words:
            return kind("".join(value))
        refuse(*no_choice(words, value))

    return read


def no_choice(words: Sequence[str], value: object) -> tuple[str, str]:
    """Returns what is wrong with a value that is none of the words, and the word that may have been meant."""
    hint = suggestion(value, words) if type(value) is str else ""
    return f"expected {' or '.join(words)}, found {found(value)}", hint if hint.startswith("did") else ""
