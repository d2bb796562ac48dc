"""Threads of lanes where Spark's JVM has gone before they begin."""

import threading
from types import SimpleNamespace

import pytest
from pyspark import InheritableThread

from mirrorlake.pipeline.lease_job import EngineDiedError
from mirrorlake.pipeline.session import lane_thread

PATIENCE_SECONDS = 20.0


def refused(*_: object) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def jobs(*, is_gone: bool = False) -> SimpleNamespace:
    named: dict[str, str] = {}
    context = SimpleNamespace(setLocalProperty=refused if is_gone else named.__setitem__, named=named)
    return SimpleNamespace(sparkContext=context)


def test_a_thread_names_its_job_group_and_runs_its_target() -> None:
    spark, ran = jobs(), threading.Event()
    thread = lane_thread(spark, ran.set, "lane-3")
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert ran.is_set()
    assert spark.sparkContext.named == {"spark.jobGroup.id": "lane-3"}


def test_a_jvm_that_is_gone_when_a_thread_starts_is_a_dead_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InheritableThread, "start", refused)
    with pytest.raises(EngineDiedError, match="does not answer"):
        lane_thread(jobs(), lambda: None, "lane-0").start()


def test_a_jvm_that_goes_while_a_thread_begins_is_left_to_its_target_to_find() -> None:
    times: list[int] = []
    thread = lane_thread(jobs(is_gone=True), lambda: times.append(1), "lane-0")
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert times == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_target_that_has_begun_does_not_run_twice() -> None:
    times: list[int] = []

    def target() -> None:
        times.append(1)
        refused()

    thread = lane_thread(jobs(), target, "lane-0")
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert times == [1]
