"""Every law has tests, and they are really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
LAWS = (TESTS.parent / "docs" / "laws.md").read_text()
ROWS = [line for line in LAWS.splitlines() if re.match(r"\| \d\. ", line)]


def test_all_eight_laws_are_listed() -> None:
    assert [int(row[2]) for row in ROWS] == list(range(1, 9))


@pytest.mark.parametrize("row", ROWS, ids=[row[2:40] for row in ROWS])
def test_every_test_named_for_a_law_exists(row: str) -> None:
    named = re.findall(r"`((?:unit|contract|integration|fault|system)/[^`]+)`", row)
    assert named
    for name in named:
        path, _, test = name.partition("::")
        found = function_decorators(TESTS / path)
        assert not test or test in found, name
