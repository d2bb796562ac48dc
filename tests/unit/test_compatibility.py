"""Every cell of the tables of Kafka versions has a test, and it is really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
TABLES, APPENDIX = (TESTS.parent / "docs" / "compatibility.md").read_text().split("\n## Appendix", 1)
NAMED = sorted(set(re.findall(r"`((?:unit|integration)/[^`]+)`", APPENDIX)))


def cells_of(text: str) -> list[tuple[str, str]]:
    """Every cell of the tables, with the version of its row."""
    return [
        (row.split("|")[1].strip(), cell.strip())
        for row in text.splitlines()
        if re.match(r"\| (\d|any broker)", row)
        for cell in row.split("|")[2:-1]
    ]


@pytest.mark.parametrize("name", NAMED)
def test_every_test_named_for_a_version_exists(name: str) -> None:
    path, _, test = name.partition("::")

    assert test in function_decorators(TESTS / path)


def test_every_cell_names_a_test_or_says_that_it_has_none() -> None:
    cells = [cell for version, cell in cells_of(APPENDIX)]

    assert len(cells) == 6 * 3 + 5 * 2
    assert [cell for cell in cells if not ("::" in cell or cell == "–" or "the same test" in cell)] == []


def test_the_tables_that_users_read_answer_every_cell_and_name_no_test() -> None:
    answers, tests = cells_of(TABLES), cells_of(APPENDIX)

    assert [version for version, _ in answers] == [version for version, _ in tests]
    assert [cell == "–" for _, cell in answers] == [cell == "–" for _, cell in tests]
    assert {re.split(r"[ ,]", cell)[0] for _, cell in answers} == {"yes", "refused", "–"}
    assert "::" not in TABLES
