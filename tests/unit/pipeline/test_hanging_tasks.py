"""What becomes of a job whose task takes too long: ended, or not yet; and of the executor that it hangs on."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mirrorlake.pipeline import session as session_module
from mirrorlake.pipeline.cluster.task_attempts import TaskAttempt
from mirrorlake.pipeline.overdue import Watched
from mirrorlake.pipeline.session import EngineSession

PATIENCE_SECONDS = 100.0


class FakeSpark:
    """Notes which tags' jobs are cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    @property
    def sparkContext(self) -> "FakeSpark":  # noqa: N802  Spark's name
        return self

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802  Spark's name
        self.cancelled.append(tag)


class FakeWatch:
    """Notes which executors are said to hang."""

    def __init__(self) -> None:
        self.hanging: list[str] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def hangs(self, executor: str) -> None:
        self.hanging.append(executor)

    def where(self, executor: str) -> str:
        return f"the executor on 10.0.0.{executor}"


class Scene:
    """A session, with the attempts that Spark would tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_cluster: bool) -> None:
        self.attempts: list[TaskAttempt] = []
        monkeypatch.setattr(session_module, "attempts_of_tag", lambda *_: self.attempts)
        self.spark, self.watch, nothing = FakeSpark(), FakeWatch(), None
        spark: Any = self.spark
        watch: Any = self.watch if is_cluster else None
        rest: Any = nothing
        self.session = EngineSession(spark, rest, rest, rest, watch, slots=2)
        self.job = Watched("tag", PATIENCE_SECONDS, time.monotonic())

    def runs(self, executor: str, *, for_seconds: float, status: str = "RUNNING") -> None:
        began = time.time() - for_seconds
        self.attempts.append(TaskAttempt(executor=executor, status=status, error="", began_seconds=began))

    def give_up(self, *, is_shuffle: bool = False) -> bool:
        self.job.is_shuffle = is_shuffle
        return self.session._give_up(self.job)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(monkeypatch, is_cluster=True)
    yield scene
    scene.session._end_watch()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(monkeypatch, is_cluster=False)
    yield scene
    scene.session._end_watch()


def test_a_job_whose_task_hangs_is_ended_and_its_executor_is_replaced_and_named(cluster: Scene) -> None:
    cluster.runs("3", for_seconds=PATIENCE_SECONDS + 1)
    assert cluster.give_up()
    assert (cluster.spark.cancelled, cluster.watch.hanging) == (["tag"], ["3"])
    assert session_module._why_given_up(cluster.job) == "it hangs on the executor on 10.0.0.3"


def test_a_task_that_had_to_wait_for_its_slot_has_its_whole_time(cluster: Scene) -> None:
    cluster.runs("3", for_seconds=PATIENCE_SECONDS - 20)
    assert not cluster.give_up()
    assert (cluster.spark.cancelled, cluster.watch.hanging) == ([], [])


def test_a_job_that_got_no_slot_in_all_its_time_is_ended_and_no_executor_blamed(cluster: Scene) -> None:
    cluster.runs("3", for_seconds=PATIENCE_SECONDS * 2, status="FAILED")
    assert cluster.give_up()
    assert (cluster.spark.cancelled, cluster.watch.hanging) == (["tag"], [])
    assert "it got no slot" in session_module._why_given_up(cluster.job)


def test_of_a_shuffle_only_executors_that_hang_are_replaced_and_the_job_goes_on(cluster: Scene) -> None:
    cluster.runs("1", for_seconds=5.0)
    assert not cluster.give_up(is_shuffle=True)
    assert cluster.watch.hanging == []
    cluster.runs("2", for_seconds=PATIENCE_SECONDS + 1)
    assert not cluster.give_up(is_shuffle=True)
    assert (cluster.spark.cancelled, cluster.watch.hanging) == ([], ["2"])


def test_a_shuffle_between_two_tasks_is_left_alone_however_long_it_takes(cluster: Scene) -> None:
    assert not cluster.give_up(is_shuffle=True)
    assert cluster.spark.cancelled == []


@pytest.mark.parametrize("is_shuffle", [False, True])
def test_on_one_machine_a_job_whose_task_hangs_is_ended(alone: Scene, is_shuffle: bool) -> None:
    alone.runs("driver", for_seconds=PATIENCE_SECONDS + 1)
    assert alone.give_up(is_shuffle=is_shuffle)
    assert alone.spark.cancelled == ["tag"]
