"""Waiting for executors, bounded, and taking one off."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from mirrorlake.errors import StartStoppedError
from mirrorlake.pipeline.cluster import executors
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorUnusableError, await_executors


def executor(number: int, slots: int = 2) -> Executor:
    return Executor(id=str(number), address=f"10.0.0.{number}", slots=slots)


def await_them(
    looks: Callable[[], Sequence[Executor]],
    *,
    slots: int = 4,
    seconds: float = 60.0,
    settled_seconds: float = 60.0,
    is_stopping: Callable[[], bool] = bool,
) -> Sequence[Executor]:
    return await_executors(
        looks,
        master="spark://h:7077",
        slots=slots,
        give_up_at=time.monotonic() + seconds,
        timeout_seconds=60.0,
        is_stopping=is_stopping,
        settled_seconds=settled_seconds,
    )


def test_as_many_as_have_the_slots_are_waited_for() -> None:
    coming: Iterator[list[Executor]] = iter([[], [executor(1)], [executor(1), executor(2)]])
    assert await_them(lambda: next(coming)) == [executor(1), executor(2)]


def test_none_at_all_is_an_error_that_says_whose_and_how_long() -> None:
    with pytest.raises(ExecutorUnusableError) as caught:
        await_them(list, seconds=0.0)
    assert caught.value.message == "no executors from spark://h:7077 after 60 s"
    assert "spark.executor.memory" in caught.value.hint
    assert "spark.driver.host" in caught.value.hint


def test_fewer_slots_than_wanted_are_taken_once_no_more_come() -> None:
    assert await_them(lambda: [executor(1)], settled_seconds=0.0) == [executor(1)]


def test_a_stop_ends_the_wait() -> None:
    asked = itertools.count()
    with pytest.raises(StartStoppedError):
        await_them(list, is_stopping=lambda: next(asked) == 2)


@pytest.mark.parametrize(
    ("host_port", "host"), [("10.0.0.1:4040", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("[fd00::2]:40", "[fd00::2]")]
)
def test_an_executor_has_its_hosts_address_before_it_has_a_port(host_port: str, host: str) -> None:
    assert executors._host(host_port) == host
