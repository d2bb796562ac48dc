"""Leases on a real session: whatever happens in the task comes back as rows."""

import contextlib
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from integration.pipeline.engine_process import PATIENCE_SECONDS
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.pipeline import overdue
from mirrorlake.pipeline.cluster.task_attempts import TaskAttempt, attempts_of_tag
from mirrorlake.pipeline.lease_job import run_lease
from mirrorlake.pipeline.overdue import Watched
from mirrorlake.pipeline.session import EngineSession

pytestmark = pytest.mark.spark


def run(engine: EngineSession, work: str, plan: bytes = b"", **options: float) -> list[dict[str, object]]:
    seconds_max = options.get("seconds_max")
    return run_lease(engine.jobs, f"engine_works:{work}", plan, description=f"test {work}", seconds_max=seconds_max)


def content(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{k: v for k, v in row.items() if k not in ("worker_pid", "attempt")} for row in rows]


def test_a_plan_goes_to_the_worker_and_rows_come_back_from_it(engine: EngineSession) -> None:
    (row,) = run(engine, "answer", b"\x00plan\xff")
    assert row["plan"] == b"\x00plan\xff"
    assert row["attempt"] == 0
    assert isinstance(row["worker_pid"], int)
    assert row["worker_pid"] != engine.jvm.pid


def test_a_plan_of_some_megabytes_arrives_whole(engine: EngineSession) -> None:
    plan = bytes(range(256)) * 12_000
    assert content(run(engine, "answer", plan)) == [{"kind": "ok", "plan": plan}]


def test_rows_keep_whatever_they_hold(engine: EngineSession) -> None:
    assert content(run(engine, "strange_values")) == [
        {"kind": "ok", "bytes": b"\x00\xff", "none": None, "big": 2**80, "nested": {"a": [1, ("x",)]}},
        {"kind": "other", "text": "ünï\0code", "bytes": 7},
        {},
    ]


def test_many_rows_come_back_in_order(engine: EngineSession) -> None:
    rows = run(engine, "many_rows")
    assert [row["number"] for row in rows] == list(range(20_000))


def test_no_rows_are_no_rows(engine: EngineSession) -> None:
    assert run_lease(engine.jobs, "builtins:list", b"", description="nothing") == []


def test_an_exception_comes_back_as_a_row_after_the_rows_before_it(engine: EngineSession) -> None:
    first, second, crash = run(engine, "rows_then_error")
    assert (first["shard"], second["shard"]) == (1, 2)
    assert (crash["kind"], crash["error_type"], crash["message"]) == (
        "crashed",
        "ValueError",
        "shard 3 broke",
    )
    assert "rows_then_error" in str(crash["traceback"])
    assert crash["attempt"] == 0


@pytest.mark.parametrize(
    ("work", "error_type"),
    [
        ("exit_python", "SystemExit"),
        ("unpicklable_row", "PicklingError"),
        ("no_such_function", "AttributeError"),
    ],
)
def test_whatever_leaves_the_work_comes_back_as_a_row(engine: EngineSession, work: str, error_type: str) -> None:
    (crash,) = run(engine, work)
    assert (crash["kind"], crash["attempt"]) == ("crashed", 0)
    # Python 3.11 calls it AttributeError when a local object cannot be pickled.
    assert crash["error_type"] in (error_type, "AttributeError")


def test_work_that_cannot_be_imported_comes_back_as_a_row(engine: EngineSession) -> None:
    (crash,) = run_lease(engine.jobs, "no_such_module:work", b"", description="missing")
    assert (crash["kind"], crash["error_type"]) == ("crashed", "ModuleNotFoundError")


@pytest.mark.parametrize("work", ["sleep_for_ever", "hang_in_native_code"])
def test_work_that_hangs_is_ended_with_its_worker_and_reported_as_retried(engine: EngineSession, work: str) -> None:
    assert [(row["kind"], row["attempt"]) for row in run(engine, work, seconds_max=0.5)] == [("retried", 1)]
    assert content(run(engine, "answer", b"next")) == [{"kind": "ok", "plan": b"next"}]


def test_a_lease_that_ended_in_time_is_not_killed_later(engine: EngineSession) -> None:
    (first,) = run(engine, "answer", seconds_max=0.3)
    time.sleep(1.0)
    (second,) = run(engine, "answer", seconds_max=0.3)
    assert first["worker_pid"] == second["worker_pid"]


@contextlib.contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.mark.slow
def test_a_lease_with_which_no_worker_begins_is_given_up_and_the_next_one_runs(
    engine: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue, "GRACE_SECONDS", 1.0)
    engine._overdue.every(0.1)
    seen: list[TaskAttempt] = []
    end = engine._give_up

    def look_and_end(job: Watched) -> bool:
        seen[:] = attempts_of_tag(engine.jobs, job.tag)
        return end(job)

    monkeypatch.setattr(engine._overdue, "_end", look_and_end)
    (row,) = run(engine, "environment")  # its worker waits for the next lease
    assert isinstance(row["parent_pid"], int)
    daemon = psutil.Process(row["parent_pid"])
    began = time.time()
    with ThreadPoolExecutor(1) as lane, frozen(daemon.children()):
        lease = lane.submit(engine.run_lease, "engine_works:answer", b"", description="frozen", seconds_max=0.5)
        error = lease.exception(PATIENCE_SECONDS)
    assert isinstance(error, OutcomeUnknownError), error
    assert "was given up" in error.message
    assert [(each.executor, each.is_running) for each in seen] == [("driver", True)]
    assert -1.0 < seen[0].began_seconds - began < 60.0
    assert content(engine.run_lease("engine_works:answer", b"next", description="next", seconds_max=60.0)) == [
        {"kind": "ok", "plan": b"next"}
    ]


def test_workers_are_forked_from_a_parent_that_has_imported_and_frozen_everything(
    engine: EngineSession,
) -> None:
    (row,) = run(engine, "environment")
    assert row["numpy"]
    assert row["pyarrow"]
    assert row["fractions"], "a module of SessionSettings.preload"
    assert isinstance(row["frozen_objects"], int)
    assert row["frozen_objects"] > 10_000
    assert row["executable"] == sys.executable


@pytest.mark.slow
def test_the_cost_of_an_empty_lease_is_printed(engine: EngineSession, capsys: pytest.CaptureFixture[str]) -> None:
    walls = []
    for _ in range(20):
        began = time.monotonic()
        run(engine, "answer")
        walls.append(time.monotonic() - began)
    with capsys.disabled():
        print(f"\nempty lease: median {sorted(walls)[10] * 1000:.0f} ms, least {min(walls) * 1000:.0f} ms")
