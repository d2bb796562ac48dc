"""What a worker holds for ever is set aside from Python's collector, seldom, and never what a first lease makes."""

import gc
from collections.abc import Iterator

import pytest

from mirrorlake.pipeline.settled_objects import SettledObjects


@pytest.fixture(autouse=True)
def nothing_set_aside() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_objects_are_set_aside_at_the_second_lease_and_then_ever_more_seldom() -> None:
    settled, at = SettledObjects(), []
    for lease in range(1, 40):
        before = gc.get_freeze_count()
        kept = [[lease] for _ in range(1000)]
        settled.lease_begins()
        if gc.get_freeze_count() > before + len(kept) - 1:
            at.append(lease)
    assert at == [2, 4, 8, 16, 32]
