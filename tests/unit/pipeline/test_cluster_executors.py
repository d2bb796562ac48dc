"""Waiting for executors, bounded; and how far their clocks are from ours."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from mirrorlake.errors import StartStoppedError
from mirrorlake.pipeline.cluster import executors
from mirrorlake.pipeline.cluster.executors import (
    Checked,
    Executor,
    ExecutorBusyError,
    ExecutorUnusableError,
    ExecutorWatch,
    await_executors,
    check_executor,
)
from mirrorlake.pipeline.cluster.needs import Needs


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


def test_the_offset_of_a_clock_comes_from_the_quickest_answer() -> None:
    # Sent at 0, there 13, back at 10; then sent at 20, there 28.5, back at 21; then slow again.
    ours, theirs = iter([0.0, 10.0, 20.0, 21.0, 30.0, 40.0]), iter([13.0, 28.5, 43.0])
    offset, error_seconds = executors._clock_offset(lambda: next(theirs), lambda: next(ours))
    assert (offset, error_seconds) == (8.0, 0.5)


@pytest.mark.parametrize(
    ("host_port", "host"), [("10.0.0.1:4040", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("[fd00::2]:40", "[fd00::2]")]
)
def test_an_executor_has_its_hosts_address_before_it_has_a_port(host_port: str, host: str) -> None:
    assert executors._host(host_port) == host


class FakeSpark:
    """Has a context that takes the name of a job group, and notes which executors are taken off."""

    def __init__(self) -> None:
        self.killed: list[str] = []
        self.sparkContext = self
        self._jsc = self

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802  Spark's name
        assert (key, value) == ("spark.jobGroup.id", "executor_10.0.0.1_1")

    def sc(self) -> "FakeSpark":
        return self

    def killExecutor(self, name: str) -> None:  # noqa: N802  Spark's name
        self.killed.append(name)


def test_an_answer_of_another_executor_is_none_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["2", "3", "1"])

    def ask(*_: object, **__: object) -> list[dict[str, object]]:
        return [{"kind": "checked", "executor": next(answers), "host": "a", "wrong": ["nothing"]}]

    monkeypatch.setattr(executors, "run_lease", ask)
    with pytest.raises(ExecutorUnusableError, match=r"a \(10\.0\.0\.1\) cannot run leases: nothing"):
        check_executor(FakeSpark(), executor(1), Needs(), python="python")

    answers = iter(["2"] * 9)
    with pytest.raises(ExecutorBusyError, match="has no free slot"):
        check_executor(FakeSpark(), executor(1), Needs(), python="python")


class Rounds:
    """An `ExecutorWatch` whose rounds are done by hand, over executors and answers that a test names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there: list[Executor] = [executor(1)]
        self.answer: Callable[[Executor], Checked] = checked
        self.asked: list[str] = []
        self.spark = FakeSpark()
        monkeypatch.setattr(executors, "living", lambda _: self.there)
        monkeypatch.setattr(executors, "check_executor", lambda _, each, *__, **___: self._asked(each))
        self.watch = ExecutorWatch(self.spark, [checked(executor(1))], Needs(), python="python")

    def round(self) -> None:
        self.watch._round()

    def _asked(self, each: Executor) -> Checked:
        self.asked.append(each.id)
        return self.answer(each)


def checked(each: Executor) -> Checked:
    return Checked(executor=each, host="a", python="3.11.7", offset_seconds=0.1, offset_error_seconds=0.01)


def refuse(error: Exception) -> Callable[[Executor], Checked]:
    def answer(_: Executor) -> Checked:
        raise error

    return answer


def test_an_executor_that_joins_is_looked_at_once_and_one_that_goes_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch)
    rounds.there = [executor(1), executor(2)]
    rounds.round()
    rounds.round()
    assert rounds.asked == ["2"]
    assert rounds.watch.clock_offsets == {"1": 0.1, "2": 0.1}
    rounds.there = [executor(2)]
    rounds.round()
    assert rounds.watch.clock_offsets == {"2": 0.1}


def test_an_executor_that_joins_and_is_not_fit_is_taken_off_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch)
    rounds.there = [executor(1), executor(2)]
    rounds.answer = refuse(ExecutorUnusableError("it has another mirrorlake"))
    rounds.round()
    assert rounds.spark.killed == ["2"]
    assert rounds.watch.clock_offsets == {"1": 0.1}


def test_an_executor_without_a_free_slot_is_looked_at_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch)
    rounds.there = [executor(1), executor(2)]
    rounds.answer = refuse(ExecutorBusyError("no slot"))
    rounds.round()
    rounds.answer = checked
    rounds.round()
    assert rounds.asked == ["2", "2"]
    assert rounds.spark.killed == []
    assert rounds.watch.clock_offsets == {"1": 0.1, "2": 0.1}


def test_a_session_that_dies_while_it_is_watched_is_the_lanes_news(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch)

    def died(_: object) -> list[Executor]:
        raise ConnectionError("the JVM is gone")

    monkeypatch.setattr(executors, "living", died)
    rounds.round()
    assert rounds.watch.clock_offsets == {"1": 0.1}
