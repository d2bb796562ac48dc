"""Which tests the short form of the suite runs: `pytest --short`, as `make test` calls it on a developer's machine.

All of `tests/unit`. Elsewhere a table, which is what a parametrized test is, has its first case; what is marked `slow`,
a test, a case or a file, is left out; and a test marked `quick` runs though its file is slow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

WHOLE_FOLDER = "unit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """Tests in two parts, each in the order they came in; together they are all of them."""

    chosen: tuple[pytest.Item, ...]
    left_out: tuple[pytest.Item, ...]


def short_form(items: Sequence[pytest.Item], tests: Path) -> ShortForm:
    """Parts the items that pytest has collected below the folder `tests`.

    Returns:
        What the short form runs, and what it leaves out.
    """
    whole = tests / WHOLE_FOLDER
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    tables: set[tuple[Path, str]] = set()
    for item in items:
        if item.path.is_relative_to(whole):
            chosen.append(item)
            continue
        table = (item.path, item.nodeid.partition("[")[0])
        if _is_slow(item) or table in tables:
            left_out.append(item)
            continue
        tables.add(table)
        chosen.append(item)
    return ShortForm(chosen=tuple(chosen), left_out=tuple(left_out))


def says_what_is_left_out(count: int) -> str:
    """The line at the end of a run that left out `count` tests."""
    return f"{count} slow tests and further cases of tables left out: `make test-all` runs them too"


def _is_slow(item: pytest.Item) -> bool:
    """Whether its own mark says so, or, without one, that of its file."""
    for node in reversed(item.listchain()):
        names = _own_marks(node.own_markers)
        if "slow" in names or "quick" in names:
            return "slow" in names
    return False


def _own_marks(markers: Iterable[pytest.Mark]) -> set[str]:
    return {mark.name for mark in markers}
