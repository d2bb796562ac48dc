"""Every cell of the table of kinds of source names tests that are really there, or says that it has none."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (TESTS.parent / "docs" / "sources.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| source |")
]
CELLS = [cell for row in ROWS for cell in row[1:]]
WITHOUT_TEST = {"–", "the same test", "nothing to do", "one gap", "no limit", "the demo"}


def test_the_table_has_three_cells_a_row() -> None:
    assert ROWS
    assert {len(row) for row in ROWS} == {4}


@pytest.mark.parametrize("cell", sorted({cell for cell in CELLS if cell not in WITHOUT_TEST}))
def test_every_test_named_for_a_kind_of_source_exists(cell: str) -> None:
    named = re.findall(r"`((?:unit|integration|fault)/[^`]+)::([^`]+)`", cell)
    assert named
    for path, test in named:
        assert test in function_decorators(TESTS / path), test
