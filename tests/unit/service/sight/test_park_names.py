"""Every reason to be parked has a name of its own, and the operations page explains each."""

import re
from pathlib import Path

import pytest

from mirrorlake import errors
from mirrorlake.errors import (
    DestinationForeignError,
    MisalignedError,
    PermanentError,
    RecordTooLargeError,
    RegistryError,
)
from mirrorlake.service.sight.park_names import PARK_NAMES, park_name

OPERATIONS = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
PERMANENT = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, PermanentError)
    and kind is not PermanentError
    # Of registries, which are no matter of a partition.
    and not issubclass(kind, RegistryError)
]


@pytest.mark.parametrize("kind", PERMANENT)
def test_every_error_that_parks_has_a_name_of_its_own(kind: type[PermanentError]) -> None:
    assert kind in PARK_NAMES
    assert list(PARK_NAMES.values()).count(PARK_NAMES[kind]) == 1


@pytest.mark.parametrize(("kind", "name"), PARK_NAMES.items())
def test_every_name_is_explained_with_its_error(kind: type[PermanentError], name: str) -> None:
    (row,) = [line for line in OPERATIONS.splitlines() if line.startswith(f"| `{name}` |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == kind.__name__
    assert all(cells)


def test_no_name_is_explained_that_does_not_exist() -> None:
    table = OPERATIONS.split("## Why is a partition parked?")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == set(PARK_NAMES.values())


def test_a_more_special_error_has_the_more_special_name() -> None:
    assert park_name(DestinationForeignError("x")) == "foreign"
    assert park_name(MisalignedError("x")) == "misaligned"
    assert park_name(RecordTooLargeError("x")) == "too-large"


def test_an_error_without_a_name_has_that_of_what_it_is_a_kind_of() -> None:
    class TooLongError(RecordTooLargeError):
        """Nobody has given it a name."""

    assert park_name(TooLongError("x")) == "too-large"
