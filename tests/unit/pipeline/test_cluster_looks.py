"""Looks at executors: an answer is what an executor said itself, or what became of its own workers."""

import threading
from collections.abc import Callable, Mapping, Sequence

import pytest
import structlog.testing

from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.pipeline.cluster import looks
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorSilentError, ExecutorUnusableError
from mirrorlake.pipeline.cluster.looks import Checked, check_executor, check_executors
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.cluster.task_attempts import TaskAttempt
from mirrorlake.pipeline.lease_job import LeaseRow

EXECUTOR = Executor(id="1", address="10.0.0.1", slots=2)
NO_MODULE = "a.B: \nError from python worker:\n py: No module named 'mirrorlake'\n\tat c.D"
NO_MODULE_SAID = (
    "the executor on 10.0.0.1 cannot run leases with py3: a.B: Error from python worker: py: No module named "
    "'mirrorlake'; install what the driver has into that Python, or name one that has it in `spark.pyspark.python`"
)


class FakeSpark:
    """Has a context that takes the name of a job group, and knows which were cancelled."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.cancelled: list[str] = []

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802  Spark's name
        self.cancelled.append(group)

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802  Spark's name
        assert (key, value) == ("spark.jobGroup.id", "executor_10.0.0.1_1")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[TaskAttempt]:
    """What Spark noted of the tasks of looks; nothing at first."""
    attempts: list[TaskAttempt] = []
    monkeypatch.setattr(looks, "attempts_of", lambda _, group, **__: attempts if group else [])
    return attempts


def failed(executor: str, error: str = "it crashed") -> TaskAttempt:
    return TaskAttempt(executor=executor, status="FAILED", error=error)


def ended(executor: str) -> TaskAttempt:
    return TaskAttempt(executor=executor, status="SUCCESS", error="")


Answer = Callable[[], list[LeaseRow]]


def rows(kind: str, **more: object) -> Answer:
    return lambda: [{"kind": kind, **more}]


def given_up() -> list[LeaseRow]:
    raise OutcomeUnknownError("Spark gave up a lease: the job was cancelled")


def ask(monkeypatch: pytest.MonkeyPatch, answers: Sequence[Answer]) -> int:
    """Looks at the executor once; returns how often it was asked."""
    left = list(answers)
    monkeypatch.setattr(looks, "run_lease", lambda *_, **__: left.pop(0)())
    check_executor(FakeSpark(), EXECUTOR, Needs(), python="py3")
    return len(answers) - len(left)


FIT = rows("checked", executor="1", host="a", wrong=[], python="3.11")


def test_the_offset_of_a_clock_comes_from_the_quickest_answer() -> None:
    # Sent at 0, there 13, back at 10; then sent at 20, there 28.5, back at 21; then slow again.
    ours, theirs = iter([0.0, 10.0, 20.0, 21.0, 30.0, 40.0]), iter([13.0, 28.5, 43.0])
    offset, error_seconds = looks._clock_offset(lambda: next(theirs), lambda: next(ours))
    assert (offset, error_seconds) == (8.0, 0.5)


def test_an_answer_of_another_executor_is_none_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["2", "3", "1"])

    def ask(*_: object, **__: object) -> list[dict[str, object]]:
        return [{"kind": "checked", "executor": next(answers), "host": "a", "wrong": ["nothing"]}]

    monkeypatch.setattr(looks, "run_lease", ask)
    with pytest.raises(ExecutorUnusableError, match=r"a \(10\.0\.0\.1\) cannot run leases: nothing"):
        check_executor(FakeSpark(), EXECUTOR, Needs(), python="python")

    answers = iter(["2"] * 9)
    with pytest.raises(ExecutorSilentError, match="has no free slot"):
        check_executor(FakeSpark(), EXECUTOR, Needs(), python="python")


@pytest.mark.parametrize("answer", [rows("retried"), given_up, rows("crashed", message="an older version")])
def test_work_that_failed_elsewhere_is_no_answer_and_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt], answer: Answer
) -> None:
    monkeypatch.setattr(looks, "_clock_offset", lambda _: (0.0, 0.0))
    noted += [failed("2"), failed("2"), ended("2")]
    assert ask(monkeypatch, [answer, answer, FIT]) == 3
    with pytest.raises(ExecutorSilentError, match=r"the executor on 10\.0\.0\.1 did not answer: "):
        ask(monkeypatch, [answer] * 3)


def test_one_worker_that_died_is_chance_and_two_are_the_executors_answer(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt]
) -> None:
    monkeypatch.setattr(looks, "_clock_offset", lambda _: (0.0, 0.0))
    noted += [failed("1", NO_MODULE), ended("1")]
    assert ask(monkeypatch, [rows("retried"), FIT]) == 2
    noted += [failed("2"), failed("1", NO_MODULE)]
    for answer in (rows("retried"), given_up):
        with pytest.raises(ExecutorUnusableError) as caught:
            ask(monkeypatch, [answer])
        assert not isinstance(caught.value, ExecutorSilentError)
        assert caught.value.message == NO_MODULE_SAID


def test_what_the_check_raised_on_the_executor_itself_is_its_answer(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt]
) -> None:
    noted += [ended("2"), ended("1")]
    with pytest.raises(ExecutorUnusableError) as caught:
        ask(monkeypatch, [rows("crashed", message="an older version")])
    assert caught.value.message == "the executor on 10.0.0.1 cannot run leases with py3: an older version"


def test_a_worker_that_dies_while_clocks_are_compared_makes_the_clock_be_asked_again(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt]
) -> None:
    now = rows("clock", executor="1", now_seconds=0.0)
    monkeypatch.setattr(looks, "CLOCK_DIFFERENCE_SECONDS_MAX", float("inf"))
    assert ask(monkeypatch, [FIT, now, given_up, now, now]) == 5
    with pytest.raises(ExecutorSilentError):
        ask(monkeypatch, [FIT, now, given_up, given_up, given_up])


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([failed("2", NO_MODULE)], "the executor on 10.0.0.1 did not answer within 0 s"),
        ([failed("1", NO_MODULE)], NO_MODULE_SAID),
    ],
)
def test_a_look_at_the_start_is_bounded_and_says_what_spark_noted_by_then(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt], seen: list[TaskAttempt], said: str
) -> None:
    noted += seen
    is_over = threading.Event()
    monkeypatch.setattr(looks, "run_lease", lambda *_, **__: is_over.wait())
    try:
        with pytest.raises(ExecutorUnusableError) as caught:
            check_executors(FakeSpark(), [EXECUTOR], Needs(), python="py3", is_stopping=bool, seconds_max=0.0)
    finally:
        is_over.set()
    assert caught.value.message == said


OTHERS = [Executor(id=str(number), address=f"10.0.0.{number}", slots=2) for number in (2, 3)]


def checked(each: Executor) -> Checked:
    return Checked(executor=each, host="a", python="3.11.7", offset_seconds=0.1, offset_error_seconds=0.01)


def look_at_all(monkeypatch: pytest.MonkeyPatch, errors: Mapping[str, Exception]) -> list[Checked]:
    """Looks at three executors, of which those named do not say that they are fit."""

    def look(_: object, each: Executor, *__: object, **___: object) -> Checked:
        if each.id in errors:
            raise errors[each.id]
        return checked(each)

    monkeypatch.setattr(looks, "check_executor", look)
    executors = [EXECUTOR, *OTHERS]
    return check_executors(FakeSpark(), executors, Needs(), python="py3", is_stopping=bool, seconds_max=60.0)


def test_an_executor_that_dies_while_it_is_looked_at_is_left_out_and_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with structlog.testing.capture_logs() as said:
        found = look_at_all(monkeypatch, {"2": ExecutorSilentError("the executor on 10.0.0.2 did not answer: lost")})
    assert found == [checked(EXECUTOR), checked(OTHERS[1])]
    (line,) = said
    assert line["log_level"] == "warning"
    assert line["error"] == "the executor on 10.0.0.2 did not answer: lost"


def test_where_no_answer_came_from_any_executor_that_is_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExecutorSilentError) as caught:
        look_at_all(monkeypatch, {each.id: ExecutorSilentError(f"{each.id} is silent") for each in (EXECUTOR, *OTHERS)})
    assert caught.value.message.splitlines() == ["1 is silent", "2 is silent", "3 is silent"]


def test_one_that_is_not_fit_by_its_own_answer_ends_the_look_with_all_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = {"2": ExecutorSilentError("2 is silent"), "3": ExecutorUnusableError("3 has another mirrorlake")}
    with pytest.raises(ExecutorUnusableError) as caught:
        look_at_all(monkeypatch, errors)
    assert not isinstance(caught.value, ExecutorSilentError)
    assert caught.value.message.splitlines() == ["2 is silent", "3 has another mirrorlake"]


def test_a_look_that_has_no_answer_in_time_is_ended_and_not_begun_again(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt]
) -> None:
    assert noted == []
    is_cancelled, asked, spark = threading.Event(), [], FakeSpark()
    has_ended = threading.Event()

    def ask(*_: object, **__: object) -> list[LeaseRow]:
        asked.append(1)
        is_cancelled.wait(60.0)
        raise OutcomeUnknownError("the job was cancelled")

    def look(*arguments: object, **more: object) -> Checked:
        if arguments[1] == OTHERS[0]:
            return checked(OTHERS[0])
        try:
            return check_executor(*arguments, **more)  # type: ignore[arg-type]
        finally:
            has_ended.set()

    monkeypatch.setattr(looks, "run_lease", ask)
    monkeypatch.setattr(looks, "check_executor", look)
    found = check_executors(spark, [EXECUTOR, OTHERS[0]], Needs(), python="py3", is_stopping=bool, seconds_max=0.3)
    assert (found, spark.cancelled) == ([checked(OTHERS[0])], ["executor_10.0.0.1_1"])
    is_cancelled.set()
    assert has_ended.wait(60.0)
    assert len(asked) == 1


def test_tasks_that_are_gone_with_their_executor_are_no_answer_of_its(
    monkeypatch: pytest.MonkeyPatch, noted: list[TaskAttempt]
) -> None:
    gone = "ExecutorLostFailure (executor 1 exited unrelated to the running tasks) Reason: Command exited with code 137"
    noted += [failed("1", gone), failed("1", NO_MODULE)]
    with pytest.raises(ExecutorSilentError):
        ask(monkeypatch, [rows("retried")] * 3)
