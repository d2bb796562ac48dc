"""Environment variables in text: ``${VAR}``, ``${VAR:-default}`` and ``$$`` for a dollar sign, in one pass.

What a variable or a default holds is not looked at again. A dollar sign before anything else stays as it is,
so that regular expressions like ``/orders$/`` need no care.
"""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|(\{))", re.ASCII)


class ExpandedText(str):
    """Text in which variables were filled in, and their names. It may hold a secret: never show it.

    ``whole`` is the variable that is all of the text, empty where there is more to it. ``defaulted`` are those that
    have a default, whether it was taken or not; ``empty`` those for which nothing was filled in.
    """

    __slots__ = ("defaulted", "empty", "variables", "whole")

    variables: tuple[str, ...]
    whole: str
    defaulted: tuple[str, ...]
    empty: tuple[str, ...]

    def __new__(
        cls,
        text: str,
        variables: tuple[str, ...],
        whole: str = "",
        *,
        defaulted: tuple[str, ...] = (),
        empty: tuple[str, ...] = (),
    ) -> "ExpandedText":
        """Makes the text with the names of the variables in it."""
        made = super().__new__(cls, text)
        made.variables = variables
        made.whole = whole
        made.defaulted = defaulted
        made.empty = empty
        return made


class UnsetText(str):
    """Stands where a variable was not set: the problem is known, nobody needs to report this value again."""

    __slots__ = ()


class ExpansionError(ValueError):
    """A reference cannot be filled in.

    Args:
        message: what is wrong; names variables, never values.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Returns the text with its references filled in; ``ExpandedText`` where there was at least one.

    ``${VAR:-default}`` takes the default where the variable is unset or empty, as a shell does.

    Raises:
        ExpansionError: a variable without default is not set, or ``${`` is not followed by a name and ``}``.
    """
    if "$" not in text:
        return text
    variables: list[str] = []
    defaulted: list[str] = []
    empty: list[str] = []

    def fill(match: re.Match[str]) -> str:
        dollar, name, default, opening = match.groups()
        if dollar:
            return "$"
        if opening:
            raise ExpansionError(
                "a `${` that does not open a variable",
                "write ${NAME} or ${NAME:-default}; $$ is a dollar sign",
            )
        variables.append(name)
        value = environ.get(name)
        if default is not None:
            defaulted.append(name)
            value = value or str(default)
        if value is None:
            raise ExpansionError(
                f"the environment variable {name} is not set",
                "set it, or correct the name",
            )
        if not value.strip():
            empty.append(name)
        return value

    expanded = _DOLLAR.sub(fill, text)
    if not variables:
        return expanded
    is_whole = len(variables) == 1 and _DOLLAR.fullmatch(text) is not None
    whole = variables[0] if is_whole else ""
    return ExpandedText(expanded, tuple(variables), whole, defaulted=tuple(defaulted), empty=tuple(empty))
