"""Every fault in the table has tests, and they are really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
ROWS = [
    line
    for line in (TESTS.parent / "docs" / "faults.md").read_text().splitlines()
    if line.startswith("|") and not re.match(r"\|(---| fault | \| schedule )", line)
]


def test_every_attack_of_the_study_is_listed_once() -> None:
    found = [match[1] for row in ROWS if (match := re.match(r"\| A(\d+) \|", row))]
    assert found == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("row", ROWS, ids=[row[2:50] for row in ROWS])
def test_every_test_named_for_a_fault_exists(row: str) -> None:
    named = re.findall(r"`([a-z]+/[^`]+)::([^`]+)`", row)
    assert named
    for path, test in named:
        found = function_decorators(TESTS / path)
        assert test in found, test
        is_long = any("mark.soak" in decorator for decorator in found[test])
        assert is_long == ("(long" in row), f"{test} {'is' if is_long else 'is not'} marked soak"
