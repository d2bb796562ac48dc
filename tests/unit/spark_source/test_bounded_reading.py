"""What is read comes as it is; what does not come in time is an error, and closing waits for nobody."""

import threading
import time
from collections.abc import Generator

import pytest

from mirrorlake.errors import ChainBrokenError, StoreUnavailableError
from mirrorlake.spark_source.bounded_reading import bounded


def too_late() -> Exception:
    return StoreUnavailableError("nothing came")


def test_everything_comes_in_order_each_when_it_is_asked_for() -> None:
    begun: list[int] = []

    def read() -> Generator[int]:
        for number in range(3):
            begun.append(number)
            yield number

    found = bounded(read(), 60, too_late=too_late)
    assert next(found) == 0
    assert begun == [0]
    assert [*found] == [1, 2]


def test_what_the_reading_raises_is_raised_behind_what_came_before() -> None:
    def read() -> Generator[int]:
        yield 1
        raise ChainBrokenError("cut")

    found = bounded(read(), 60, too_late=too_late)
    assert next(found) == 1
    with pytest.raises(ChainBrokenError, match="cut"):
        next(found)


def test_one_that_does_not_come_is_given_up_whether_it_is_the_first_or_a_later_one() -> None:
    for before in (0, 2):
        answered = threading.Event()

        def read(before: int = before, answered: threading.Event = answered) -> Generator[int]:
            yield from range(before)
            answered.wait()

        found = bounded(read(), 0.05, too_late=too_late)
        assert [next(found) for _ in range(before)] == [*range(before)]
        with pytest.raises(StoreUnavailableError, match="nothing came"):
            next(found)
        answered.set()


def test_who_takes_them_may_take_long_and_leave_early_and_what_is_open_is_closed() -> None:
    closed = threading.Event()

    def read() -> Generator[int]:
        try:
            yield from range(10)
        finally:
            closed.set()

    found = bounded(read(), 0.2, too_late=too_late)
    assert next(found) == 0
    time.sleep(0.5)  # longer than one may take to come
    assert next(found) == 1
    found.close()
    assert closed.wait(60)
