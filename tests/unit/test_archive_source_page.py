"""Every test that the page about archives as sources names is really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "archive-sources.md").read_text()
NAMED = re.findall(r"`((?:unit|integration|contract|fault)/[^`]+)::([^`]+)`", PAGE)


@pytest.mark.parametrize(("path", "test"), NAMED)
def test_every_test_named_for_an_archive_as_a_source_exists(path: str, test: str) -> None:
    assert test in function_decorators(TESTS / path)


def test_the_page_names_tests() -> None:
    assert len(NAMED) >= 10
