"""Questions asked side by side are answered in order, and none is waited for that nobody wants any more."""

import threading
import time

import pytest

from mirrorlake.errors import ChainBrokenError, QueryError
from mirrorlake.spark_source.side_by_side import side_by_side, until_stopped


@pytest.mark.parametrize("at_once", [1, 2, 16])
@pytest.mark.parametrize("items", [0, 1, 2, 100])
def test_answers_come_in_the_order_of_the_items(items: int, at_once: int) -> None:
    assert side_by_side(lambda item: item * item, range(items), at_once=at_once) == [n * n for n in range(items)]


def test_they_are_asked_at_one_time() -> None:
    together = threading.Barrier(4, timeout=30)

    assert side_by_side(lambda item: (together.wait(), item)[1], range(4), at_once=4) == [0, 1, 2, 3]


def test_the_first_failure_in_order_is_raised_and_what_follows_is_not_asked() -> None:
    asked: list[int] = []

    def ask(item: int) -> int:
        asked.append(item)
        if item in (3, 5):
            raise ChainBrokenError(f"number {item}")
        return item

    with pytest.raises(ChainBrokenError, match="number 3"):
        side_by_side(ask, range(1000), at_once=1)
    assert asked == [0, 1, 2, 3]
    with pytest.raises(ChainBrokenError, match=r"number [35]"):
        side_by_side(ask, range(1000), at_once=4)
    assert len(asked) < 900


def test_work_brings_its_answer_or_its_error() -> None:
    assert until_stopped(lambda: 7, bool) == 7
    with pytest.raises(ChainBrokenError, match="a hole"):
        until_stopped(lambda: side_by_side(_broken, [1], at_once=4), bool)


def _broken(_item: int) -> int:
    raise ChainBrokenError("a hole")


def test_work_that_is_not_wanted_any_more_is_left_alone() -> None:
    hangs = threading.Event()
    began = time.monotonic()
    try:
        with pytest.raises(QueryError, match="stopped before"):
            until_stopped(lambda: hangs.wait(60), lambda: time.monotonic() > began + 0.2)
        assert time.monotonic() < began + 30
    finally:
        hangs.set()
