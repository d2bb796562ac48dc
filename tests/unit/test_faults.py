"""Every fault in the tables has tests in the appendix, and they are really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
TABLES, APPENDIX = (TESTS.parent / "docs" / "faults.md").read_text().split("\n## Appendix", 1)


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row whose first one is a key, such as A4, A4b or P12."""
    found = [
        re.findall(r"(?<=\| ).*?(?= \|)", line) for line in text.splitlines() if re.match(r"\| [A-Z]\d+b? \|", line)
    ]
    assert len(found) == sum(line.startswith("| ") and not re.match(r"\| (\||row)", line) for line in text.splitlines())
    return found


FAULTS = rows_of(TABLES)
NAMED = rows_of(APPENDIX)


def test_every_attack_of_the_study_is_listed_once() -> None:
    found = [match[1] for key, *_ in FAULTS if (match := re.fullmatch(r"A(\d+)", key))]
    assert found == [str(number) for number in range(1, 11)]


def test_every_fault_has_a_key_of_its_own_and_its_row_in_the_appendix() -> None:
    keys = [key for key, _, _ in FAULTS]
    assert len(keys) == len(set(keys))
    assert [key for key, _ in NAMED] == keys


def test_the_tables_that_users_read_name_no_test() -> None:
    assert "::" not in TABLES


@pytest.mark.parametrize(
    ("fault", "named"), [*zip(FAULTS, NAMED, strict=True)], ids=[" ".join(row)[:50] for row in FAULTS]
)
def test_every_test_named_for_a_fault_exists(fault: list[str], named: list[str]) -> None:
    tests = re.findall(r"`([a-z]+/[^`]+)::([^`]+)`", named[1])
    assert tests
    for path, test in tests:
        found = function_decorators(TESTS / path)
        assert test in found, test
        is_long = any("mark.soak" in decorator for decorator in found[test])
        assert is_long == ("(long" in " ".join(fault)), f"{test} {'is' if is_long else 'is not'} marked soak"
