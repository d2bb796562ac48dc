"""On which executors a lease may run: on those that were looked at."""

import pickle
import subprocess
import sys
from collections.abc import Collection

import pytest

from mirrorlake.pipeline import lease_job
from mirrorlake.pipeline.cluster.identity import executor_id
from mirrorlake.pipeline.lease_job import UNCHECKED, order_bytes, serve

ran: list[bytes] = []


def note(plan: bytes) -> list[dict[str, object]]:
    ran.append(plan)
    return [{"kind": "ran"}]


def kinds(executors: Collection[str] | None) -> list[object]:
    ran.clear()
    order = order_bytes(f"{__name__}:note", b"plan", None, executors)
    return [pickle.loads(row)["kind"] for row, _, _ in serve(iter([order]))]


@pytest.mark.parametrize(
    ("here", "executors", "may_run"),
    [
        ("3", ("1", "3"), True),
        ("3", ("1", "2"), False),
        ("3", (), False),
        ("3", None, True),
        ("", ("1", "2"), True),
    ],
    ids=["looked at", "joined since", "none looked at", "one machine", "cannot tell whose it is"],
)
def test_a_lease_does_nothing_on_an_executor_that_was_not_looked_at(
    here: str, executors: Collection[str] | None, may_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_job, "executor_id", lambda: here)
    assert kinds(executors) == (["ran"] if may_run else [UNCHECKED])
    assert ran == ([b"plan"] if may_run else [])


def test_a_worker_finds_its_executors_id_two_processes_above_it() -> None:
    worker = "from mirrorlake.pipeline.cluster.identity import executor_id; print(repr(executor_id()))"
    daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    executor = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {daemon!r}])"
    command = [sys.executable, "-c", executor, "--executor-id", "17", "--cores", "2"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "'17'"


def test_a_process_that_is_no_executors_worker_has_no_id() -> None:
    executor_id.cache_clear()
    assert executor_id() == ""
