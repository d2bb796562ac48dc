"""The watch over executors: each that joins is looked at, none keeps others waiting, and none is taken off unheard."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import structlog.testing

from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.pipeline.cluster import watch as module
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorSilentError, ExecutorUnusableError
from mirrorlake.pipeline.cluster.looks import Checked
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.cluster.watch import SAID_AFTER_LOOKS, ExecutorWatch
from support.copies import wait_until

Answer = Callable[[Executor], Checked]


def executor(number: int) -> Executor:
    return Executor(id=str(number), address=f"10.0.0.{number}", slots=2)


def checked(each: Executor) -> Checked:
    return Checked(executor=each, host="a", python="3.11.7", offset_seconds=0.1, offset_error_seconds=0.01)


def refuse(error: Exception) -> Answer:
    def answer(_: Executor) -> Checked:
        raise error

    return answer


class Scene:
    """A watch over executors and answers that a test names, without a pause between its rounds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there = [executor(1)]
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.held: dict[str, float] = {}
        self.replaced: dict[str, float] = {}
        self.cancelled: list[str] = []
        self.is_under_way = True
        monkeypatch.setattr(module, "living", lambda _: list(self.there))
        monkeypatch.setattr(module, "check_executor", lambda _, each, *__, **___: self._asked(each))
        monkeypatch.setattr(module, "hold", lambda _, each, __: self.held.update({each.id: time.monotonic()}))
        monkeypatch.setattr(module, "replace", lambda _, each: self.replaced.update({each.id: time.monotonic()}))
        monkeypatch.setattr(module, "cancel_look", lambda _, each: self._cancelled(each))
        monkeypatch.setattr(module, "LOOK_AGAIN_SECONDS", 0.0)
        monkeypatch.setattr(module, "STOP_SECONDS_MAX", 0.0)

    def watch(self, *, look_seconds_max: float = 60.0, replace_seconds: float = 3600.0) -> ExecutorWatch:
        made = ExecutorWatch(
            None,
            [checked(executor(1))],
            Needs(),
            python="python",
            look_seconds_max=look_seconds_max,
            replace_seconds=replace_seconds,
        )
        made.every(0.005)
        return made

    def joins(self, number: int, answer: Answer = checked) -> None:
        self.answers[str(number)] = answer
        self.there = [*self.there, executor(number)]

    def _asked(self, each: Executor) -> Checked:
        self.asked.append(each.id)
        return self.answers[each.id](each)

    def _cancelled(self, each: Executor) -> bool:
        self.cancelled.append(each.id)
        return self.is_under_way


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.fixture
def hangs() -> Iterator[Answer]:
    """An answer that does not come before the end of the test."""
    is_over = threading.Event()

    def answer(each: Executor) -> Checked:
        is_over.wait(60.0)
        return checked(each)

    yield answer
    is_over.set()


def test_an_executor_that_joins_is_looked_at_once_and_one_that_goes_is_forgotten(scene: Scene) -> None:
    with scene.watch() as watch:
        scene.joins(2)
        wait_until(lambda: watch.clock_offsets == {"1": 0.1, "2": 0.1}, "the look")
        assert watch.slots == 4
        scene.there = [executor(2)]
        wait_until(lambda: watch.clock_offsets == {"2": 0.1}, "the loss")
        assert watch.slots == 2
    assert scene.asked == ["2"]


def test_an_executor_that_is_not_fit_gets_nothing_from_then_on_and_is_replaced_after_a_while(scene: Scene) -> None:
    with scene.watch(replace_seconds=0.2) as watch:
        scene.joins(2, refuse(ExecutorUnusableError("it has another mirrorlake")))
        wait_until(lambda: scene.replaced, "it to be replaced")
        assert scene.replaced["2"] - scene.held["2"] >= 0.2
        assert (watch.checked, watch.slots, scene.asked) == (("1",), 2, ["2"])
        scene.there = [executor(1)]
        scene.joins(3)
        wait_until(lambda: watch.slots == 4, "the next one")


def test_an_executor_from_which_no_answer_came_is_looked_at_again_and_it_is_said_after_some_looks(
    scene: Scene,
) -> None:
    with structlog.testing.capture_logs() as said, scene.watch() as watch:
        scene.joins(2, refuse(ExecutorSilentError("a worker died on another host")))
        wait_until(lambda: len(scene.asked) > SAID_AFTER_LOOKS + 1, "looks")
        scene.answers["2"] = checked
        wait_until(lambda: watch.clock_offsets == {"1": 0.1, "2": 0.1}, "an answer")
    assert (scene.held, scene.replaced) == ({}, {})
    (line, *_) = [each for each in said if each["event"].startswith("executor gets no leases")]
    assert (line["executor"], line["looks"]) == ("2", SAID_AFTER_LOOKS)
    assert line["error"] == "a worker died on another host"


def test_an_executor_that_hangs_keeps_no_other_from_being_looked_at(scene: Scene, hangs: Answer) -> None:
    with scene.watch() as watch:
        scene.joins(2, hangs)
        scene.joins(3)
        wait_until(lambda: watch.checked == ("1", "3"), "a look at the other")
    assert scene.held == {}


def test_an_executor_whose_look_began_there_and_does_not_end_is_replaced_at_once(scene: Scene, hangs: Answer) -> None:
    with structlog.testing.capture_logs() as said, scene.watch(look_seconds_max=0.2):
        scene.joins(2, hangs)
        wait_until(lambda: scene.replaced, "the one that hangs to be replaced")
        assert [*scene.held] == [*scene.replaced] == scene.cancelled == ["2"]
    (line,) = [each for each in said if each["event"] == "executor taken off"]
    assert line["error"] == "the executor on 10.0.0.2 has begun to look at its host and not ended within 0 s"


def test_a_look_that_has_not_begun_in_time_is_ended_and_takes_nobody_off(scene: Scene) -> None:
    is_cancelled = threading.Event()

    def wait_for_a_slot(_: Executor) -> Checked:
        assert is_cancelled.wait(60.0)
        raise ExecutorSilentError("the job was cancelled")

    def cancel(each: Executor) -> bool:
        scene.answers[each.id] = checked
        is_cancelled.set()
        return False

    scene._cancelled = cancel  # type: ignore[method-assign]
    with scene.watch(look_seconds_max=0.1) as watch:
        scene.joins(2, wait_for_a_slot)
        wait_until(lambda: watch.checked == ("1", "2"), "a second look")
    assert (scene.held, scene.replaced) == ({}, {})


@pytest.mark.parametrize("error", [OutcomeUnknownError("Spark gave up a lease"), RuntimeError("a bug"), OSError()])
def test_an_unforeseen_error_of_a_look_takes_nobody_off_and_ends_no_watch(scene: Scene, error: Exception) -> None:
    with scene.watch() as watch:
        scene.joins(2, refuse(error))
        wait_until(lambda: len(scene.asked) > 2, "looks")
        scene.answers["2"] = checked
        wait_until(lambda: watch.checked == ("1", "2"), "an answer")
    assert scene.held == {}


def test_a_session_that_dies_while_it_is_watched_is_the_lanes_news(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def died(_: object) -> list[Executor]:
        asked.set()
        raise ConnectionError("the JVM is gone")

    with structlog.testing.capture_logs() as said, scene.watch() as watch:
        monkeypatch.setattr(module, "living", died)
        assert asked.wait(60.0)
        assert watch.clock_offsets == {"1": 0.1}
    assert said == []


def test_an_executor_on_which_a_lease_hangs_is_taken_off_and_replaced_at_once(scene: Scene) -> None:
    with structlog.testing.capture_logs() as said, scene.watch() as watch:
        scene.joins(2)
        wait_until(lambda: watch.checked == ("1", "2"), "the look")
        watch.hangs("2")
        watch.hangs("9")  # one that is gone by now
        wait_until(lambda: scene.replaced, "the one that hangs to be replaced")
        assert ([*scene.held], watch.checked, watch.slots) == (["2"], ("1",), 2)
        watch.hangs("2")
        scene.there = [executor(1)]
        scene.joins(3)
        wait_until(lambda: watch.checked == ("1", "3"), "the next one")
    (line,) = [each for each in said if each["event"] == "executor taken off"]
    assert (line["executor"], line["replaced_after_seconds"]) == ("2", 0.0)


def test_who_waits_for_looks_gets_them_of_all_that_are_there_or_waits_no_longer_than_asked(
    scene: Scene, hangs: Answer
) -> None:
    with scene.watch() as watch:
        scene.joins(2)
        scene.joins(3, refuse(ExecutorUnusableError("it has another mirrorlake")))
        watch.await_looks(60.0)
        assert (watch.checked, [*scene.held]) == (("1", "2"), ["3"])
        scene.joins(4, hangs)
        began = time.monotonic()
        watch.await_looks(0.3)
        assert 0.3 <= time.monotonic() - began < 30.0
        assert watch.checked == ("1", "2")
