"""Since when an offset has been waiting at its source, as far as this process has seen."""

from dataclasses import dataclass

MARKS_MAX = 64
"""Marks of one partition; at two looks a second a copy that keeps up needs a few."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """At ``seconds`` the source's end was first seen at ``end_offset``."""

    seconds: float
    end_offset: int


class EndHistory:
    """Remembers when the source's end was first seen where. Bounded: neighbours become one, with the earlier time."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: tuple[_Mark, ...] = ()

    def saw(self, end_offset: int, *, position: int | None, now_seconds: float) -> None:
        """Takes an end as it is now; what lies below ``position`` is copied, and need not be known any more."""
        marks = [m for m in self._marks if m.end_offset <= end_offset and m.end_offset > (position or 0)]
        if end_offset > (marks[-1].end_offset if marks else (position or 0)):
            marks.append(_Mark(now_seconds, end_offset))
        if len(marks) > MARKS_MAX:
            # The later end with the earlier time: rather a little too long than too short.
            pairs = zip(marks[::2], marks[1::2], strict=False)
            marks = [*(_Mark(a.seconds, b.end_offset) for a, b in pairs), *marks[len(marks) // 2 * 2 :]]
        self._marks = tuple(marks)

    def there_since(self, offset: int) -> float | None:
        """Returns the clock reading since which ``offset`` has been there; None where no end above it was seen."""
        return next((mark.seconds for mark in self._marks if mark.end_offset > offset), None)
