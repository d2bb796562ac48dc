"""Where the demo tells its story."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Row = Mapping[str, str | int | float | None]


class Screen(Protocol):
    """Where the demo tells its story."""

    def step(self, title: str) -> None:
        """Begins a step."""

    def say(self, text: str) -> None:
        """Shows prose, wrapped."""

    def show(self, text: str) -> None:
        """Shows text as it is."""

    def table(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Shows a table."""

    def bars(self, totals: Mapping[str, int]) -> AbstractContextManager[Callable[[Mapping[str, int]], None]]:
        """Shows a bar per name, and gives what moves them."""
