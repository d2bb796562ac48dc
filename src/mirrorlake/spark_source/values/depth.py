"""How deep a value may be nested. Pure."""

from typing import Any, Final

DEPTH_MAX: Final = 500
"""How many objects and arrays of JSON one within the other a value may have: Python recurses a thousand calls deep, and
what makes JSON of a value is called from somewhere. (Protobuf's own parsers stop at 100.)"""


class TooDeepError(ValueError):
    """A value is nested deeper than `DEPTH_MAX`."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEPTH_MAX} levels, and no deeper value is decoded")


def check_depth(value: Any) -> None:
    """Checks what was read of JSON, without recursion.

    Raises:
        TooDeepError: it is nested too deep.
    """
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inner = [each for each in level if isinstance(each, dict | list)]
        if not inner:
            return
        level = [each for held in inner for each in (held.values() if isinstance(held, dict) else held)]
    raise TooDeepError
