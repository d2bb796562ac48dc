"""Every law has tests in the appendix, and they are really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
TABLE, APPENDIX = (TESTS.parent / "docs" / "laws.md").read_text().split("\n## Appendix", 1)
LAWS = [line for line in TABLE.splitlines() if re.match(r"\| \d\. ", line)]
ROWS = [line for line in APPENDIX.splitlines() if re.match(r"\| \d\. ", line)]


def test_all_eight_laws_are_listed() -> None:
    assert [int(row[2]) for row in LAWS] == list(range(1, 9))
    assert [int(row[2]) for row in ROWS] == list(range(1, 9))


def test_the_table_that_users_read_names_no_test() -> None:
    assert "::" not in TABLE


@pytest.mark.parametrize("row", ROWS, ids=[row[2:40] for row in ROWS])
def test_every_test_named_for_a_law_exists(row: str) -> None:
    named = re.findall(r"`((?:unit|contract|integration|fault|system)/[^`]+)`", row)
    assert named
    for name in named:
        path, _, test = name.partition("::")
        found = function_decorators(TESTS / path)
        assert not test or test in found, name
