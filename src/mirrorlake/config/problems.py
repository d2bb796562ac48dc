"""What is wrong with a configuration: every problem with its place, all of them at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mirrorlake.errors import ConfigurationError

FieldPath = tuple[str | int, ...]
"""Where a value stands: keys of mappings and zero-based indexes of lists, from the root."""


def field_name(path: FieldPath) -> str:
    """Returns a path as users write it: ``mirrors[1].source.topics[0]``; keys with dots are put in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif "." in part or "[" in part:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A place in a configuration file. Lines and columns count from 1; line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    field: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.field}" if self.field else where


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing that is wrong. Sorts by place."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class ConfigurationErrors(ConfigurationError):  # noqa: N818  (it is many errors, and says so)
    """A configuration cannot be used. Its text is one line per problem, in the order of the file.

    Args:
        problems: at least one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.problems,))


@dataclass(slots=True)
class ProblemList:
    """Collects problems while a configuration is read, so that all can be shown together."""

    found: list[Problem] = field(default_factory=list)

    def add(self, place: Place, message: str, hint: str = "") -> None:
        """Keeps one problem; nothing is raised before everything was looked at."""
        self.found.append(Problem(place=place, message=message, hint=hint))

    def raise_if_any(self) -> None:
        """Ends the reading where something was found.

        Raises:
            ConfigurationErrors: at least one problem was added.
        """
        if self.found:
            raise ConfigurationErrors(self.found)
