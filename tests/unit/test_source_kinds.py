"""Every cell of the table of kinds of source has tests that are really there, or says that it has none."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
TABLE, APPENDIX = (TESTS.parent / "docs" / "sources.md").read_text().split("\n## Appendix", 1)


def rows_of(text: str) -> list[list[str]]:
    """The cells of the table's rows."""
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ") and not line.startswith("| source |")
    ]


KINDS, ROWS = rows_of(TABLE), rows_of(APPENDIX)
CELLS = [cell for row in ROWS for cell in row[1:]]
WITHOUT_TEST = {"–", "the same test", "nothing to do", "one gap", "no limit", "the demo"}


def test_the_table_has_three_cells_a_row() -> None:
    assert ROWS
    assert {len(row) for row in ROWS} == {4}


def test_the_appendix_has_the_rows_of_the_table_and_what_has_no_test_says_so_there() -> None:
    assert [row[0] for row in ROWS] == [row[0] for row in KINDS]
    assert [[cell == "–" for cell in row] for row in ROWS] == [[cell == "–" for cell in row] for row in KINDS]
    assert all(all(row) for row in KINDS)
    assert "::" not in TABLE


@pytest.mark.parametrize("cell", sorted({cell for cell in CELLS if cell not in WITHOUT_TEST}))
def test_every_test_named_for_a_kind_of_source_exists(cell: str) -> None:
    named = re.findall(r"`((?:unit|integration|fault|system)/[^`]+)::([^`]+)`", cell)
    assert named
    for path, test in named:
        assert test in function_decorators(TESTS / path), test
