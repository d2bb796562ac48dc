"""Lanes on a real session: a killed worker and a batch job, and what the other lanes notice of them."""

import json
import os
import signal
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from integration.pipeline.engine_process import PATIENCE_SECONDS, wait_until
from mirrorlake.errors import MirrorlakeError
from mirrorlake.pipeline.lanes import Lease, LeaseSource, engine_lanes
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.session import EngineSession

pytestmark = pytest.mark.spark


class ScriptedSource:
    """Gives each lane its leases in order and keeps, in order of their ends, what came back."""

    def __init__(self, leases: dict[int, list[Lease]]) -> None:
        self._waiting = leases
        self._lock = threading.Lock()
        self.kinds: dict[int, list[str]] = defaultdict(list)
        self.order: list[str] = []

    def next_lease(self, lane_index: int) -> Lease | None:
        with self._lock:
            waiting = self._waiting.get(lane_index, [])
            return waiting.pop(0) if waiting else None

    def lease_ended(self, lane_index: int, lease: Lease, outcome: list[LeaseRow] | MirrorlakeError) -> None:
        with self._lock:
            kind = type(outcome).__name__ if isinstance(outcome, MirrorlakeError) else str(outcome[0]["kind"])
            self.kinds[lane_index].append(kind)
            self.order.append(lease.description)


def busy(folder: Path, name: str, seconds: float, until: Path | None = None) -> Lease:
    plan = {"note": str(folder / name), "seconds": seconds, "until": str(until or "/nowhere")}
    return Lease(
        work="engine_works:note_pid_and_sleep",
        plan=json.dumps(plan).encode(),
        description=name,
        seconds=seconds,
    )


def never() -> None:
    raise AssertionError("the engine is alive")


def run_all(engine: EngineSession, source: LeaseSource) -> None:
    lanes = engine_lanes(engine, lanes=2, source=source, on_engine_dead=never)
    lanes.start()
    assert lanes.stop(PATIENCE_SECONDS)


def test_a_killed_worker_costs_its_own_lease_alone(engine: EngineSession, tmp_path: Path) -> None:
    others_done = tmp_path / "others-done"
    source = ScriptedSource(
        {
            0: [busy(tmp_path, "victim", PATIENCE_SECONDS), busy(tmp_path, "after", 0.1)],
            1: [busy(tmp_path, f"other-{n}", 0.1) for n in range(5)]
            + [busy(tmp_path, "long", PATIENCE_SECONDS, until=others_done)],
        }
    )
    lanes = engine_lanes(engine, lanes=2, source=source, on_engine_dead=never)
    lanes.start()
    wait_until((tmp_path / "victim").exists, "the victim to run")
    wait_until((tmp_path / "long").exists, "the other lane's long lease to run")
    os.kill(int((tmp_path / "victim").read_text()), signal.SIGKILL)
    wait_until(lambda: "after" in source.order, "the lane to go on")
    assert "long" not in source.order
    others_done.touch()

    assert lanes.stop(PATIENCE_SECONDS)
    assert source.kinds == {0: ["retried", "ok"], 1: ["ok"] * 6}
    assert source.order == [*(f"other-{n}" for n in range(5)), "victim", "after", "long"]


@pytest.mark.slow
def test_leases_go_on_beside_a_batch_job_in_its_slot(engine: EngineSession, tmp_path: Path) -> None:
    leases_done = tmp_path / "leases-done"
    slots = 1  # what the session of these tests keeps beside its lanes
    started, ended = tmp_path / "batch-started", threading.Event()

    def slow_task(batches):  # type: ignore[no-untyped-def]
        import time
        from pathlib import Path

        Path(started).touch()
        for batch in batches:
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while not Path(leases_done).exists() and time.monotonic() < give_up_at:
                time.sleep(0.02)
            yield batch

    def run_batch() -> None:
        engine.spark.range(0, 8, 1, slots).mapInArrow(slow_task, "id long").collect()
        ended.set()

    batch = threading.Thread(target=run_batch)
    batch.start()
    wait_until(started.exists, "the batch job to run")
    source = ScriptedSource({lane: [busy(tmp_path, f"lease-{lane}-{n}", 0.1) for n in range(3)] for lane in range(2)})
    run_all(engine, source)
    assert not ended.is_set()
    leases_done.touch()
    batch.join(PATIENCE_SECONDS)

    assert ended.is_set()
    assert source.kinds == {0: ["ok"] * 3, 1: ["ok"] * 3}
