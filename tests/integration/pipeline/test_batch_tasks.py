"""Batch work on a real session: tasks side by side in their slots, and one whose worker is killed begins again."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchResult, BatchTask, BatchTaskFailedError, slots_beside
from mirrorlake.pipeline.session import EngineSession
from support.copies import wait_until

pytestmark = pytest.mark.spark


def sleeping(note: Path, until: Path) -> BatchTask:
    plan = json.dumps({"note": str(note), "seconds": 120.0, "until": str(until)}).encode()
    return BatchTask(work="engine_works:note_pid_and_sleep", plan=plan, description=note.name, seconds_max=600.0)


def test_a_task_whose_worker_is_killed_begins_again_and_the_others_go_on(engine: EngineSession, tmp_path: Path) -> None:
    notes, until = [tmp_path / f"task-{n}" for n in range(3)], tmp_path / "until"
    jobs = BatchJobs(engine, slots=slots_beside(engine, 1))
    assert jobs.slots == 2
    found: list[BatchResult] = []
    reader = threading.Thread(target=lambda: found.extend(jobs.results(sleeping(note, until) for note in notes)))
    reader.start()
    wait_until(lambda: notes[0].exists() and notes[1].exists(), "two tasks")
    first = int(notes[0].read_text())
    assert first != int(notes[1].read_text()), "they share no worker"
    assert not notes[2].exists(), "a third one has no slot"
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: int(notes[0].read_text()) != first, "another worker")
    until.touch()
    reader.join(60.0)
    assert {result.task.description for result in found} == {note.name for note in notes}
    for result in found:
        assert isinstance(result.outcome, list), result
        assert [row["note"] for row in result.outcome] == [str(tmp_path / result.task.description)]


def test_an_error_of_the_work_is_its_tasks_outcome(engine: EngineSession) -> None:
    with pytest.raises(BatchTaskFailedError, match="ValueError: shard 3 broke"):
        BatchJobs(engine, slots=slots_beside(engine, 2)).run(
            BatchTask(work="engine_works:rows_then_error", plan=b"", description="broken", seconds_max=600.0)
        )
