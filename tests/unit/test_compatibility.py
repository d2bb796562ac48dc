"""Every cell of the table of Kafka versions has a test, and it is really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "compatibility.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:unit|integration)/[^`]+)`", PAGE)))
CELLS = [
    (row.split("|")[1].strip(), cell.strip())
    for row in PAGE.splitlines()
    if re.match(r"\| (\d|any broker)", row)
    for cell in row.split("|")[2:-1]
]


@pytest.mark.parametrize("name", NAMED)
def test_every_test_named_for_a_version_exists(name: str) -> None:
    path, _, test = name.partition("::")

    assert test in function_decorators(TESTS / path)


def test_every_cell_names_a_test_or_says_that_it_has_none() -> None:
    cells = [cell for version, cell in CELLS]

    assert len(cells) == 6 * 3 + 5 * 2
    assert [cell for cell in cells if not ("::" in cell or cell == "–" or "the same test" in cell)] == []
