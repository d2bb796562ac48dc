"""The start on a cluster: an executor that dies while it is looked at costs itself alone, and all of it is bounded."""

import time
from collections.abc import Callable, Sequence

import pytest

from mirrorlake.errors import StartStoppedError
from mirrorlake.pipeline.cluster import start
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorSilentError, ExecutorUnusableError
from mirrorlake.pipeline.cluster.looks import Checked
from mirrorlake.pipeline.cluster.needs import Needs


def executor(number: int) -> Executor:
    return Executor(id=str(number), address=f"10.0.0.{number}", slots=2)


def checked(each: Executor) -> Checked:
    return Checked(executor=each, host="a", python="3.11.7", offset_seconds=0.1, offset_error_seconds=0.01)


class Scene:
    """A cluster whose executors are replaced by the next one, as often as ``deaths`` says, while they are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, deaths: int) -> None:
        self.there = [executor(1)]
        self.deaths = deaths
        self.looks: list[list[str]] = []
        self.error = ExecutorSilentError("the executor did not answer")
        monkeypatch.setattr(start, "living", lambda _: list(self.there))
        monkeypatch.setattr(start, "check_executors", self._look)
        monkeypatch.setattr(start, "_POLL_SECONDS", 0.01)

    def _look(self, _: object, executors: Sequence[Executor], *__: object, **___: object) -> list[Checked]:
        self.looks.append([each.id for each in executors])
        if len(self.looks) <= self.deaths:
            self.there = [executor(len(self.looks) + 1)]
            raise self.error
        return [checked(each) for each in executors]

    def start(self, *, seconds_max: float = 60.0, is_stopping: Callable[[], bool] = bool) -> list[Checked]:
        return start.fit_executors(
            None,
            Needs(),
            master="spark://h:7077",
            slots=2,
            python="python",
            give_up_at=time.monotonic() + seconds_max,
            seconds_max=seconds_max,
            is_stopping=is_stopping,
        )


def test_the_one_that_takes_the_place_of_an_executor_that_died_under_the_look_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, deaths=2)
    assert scene.start() == [checked(executor(3))]
    assert scene.looks == [["1"], ["2"], ["3"]]


def test_a_start_under_which_every_executor_dies_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, deaths=1_000_000)
    began = time.monotonic()
    with pytest.raises(ExecutorSilentError, match="did not answer"):
        scene.start(seconds_max=0.2)
    assert len(scene.looks) > 1
    assert time.monotonic() - began < 30.0


def test_a_start_whose_only_executor_died_and_got_no_successor_says_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, deaths=1)

    def look_and_lose_all(*_: object, **__: object) -> list[Checked]:
        scene.there = []
        raise scene.error

    monkeypatch.setattr(start, "check_executors", look_and_lose_all)
    with pytest.raises(ExecutorUnusableError, match=r"no executors from spark://h:7077 after 0 s"):
        scene.start(seconds_max=0.3)


def test_an_executor_that_says_what_it_lacks_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, deaths=1)
    monkeypatch.setattr(scene, "error", ExecutorUnusableError("it has another mirrorlake"))
    with pytest.raises(ExecutorUnusableError, match="another mirrorlake"):
        scene.start()
    assert scene.looks == [["1"]]


def test_a_stop_ends_a_start_under_which_executors_die(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, deaths=1_000_000)
    with pytest.raises(StartStoppedError):
        scene.start(is_stopping=lambda: len(scene.looks) == 3)
