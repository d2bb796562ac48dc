"""A small service on the engine, run as a process by the tests. Says on stdout what it does."""

import json
import os
import sys
import threading
from pathlib import Path

from mirrorlake.errors import MirrorlakeError
from mirrorlake.pipeline.lanes import Lease, engine_lanes
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.restart import TIMES_VARIABLE, RestartBounds, restart_process
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.pipeline.signals import StopSignal

LANES = 2


def say(*words: object) -> None:
    # One system call, so that lines of two threads never mix.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Work:
    """Leases of the given length for ever; once flushing, a last one for each lane."""

    def __init__(self, folder: Path, lease_seconds: float) -> None:
        self._folder = folder
        self._seconds = lease_seconds
        self._lock = threading.Lock()
        self._flushes = dict.fromkeys(range(LANES), False)
        self.is_flushing = False

    def next_lease(self, lane_index: int) -> Lease | None:
        with self._lock:
            if not self.is_flushing:
                return self._lease(f"lease-{lane_index}", self._seconds)
            if self._flushes[lane_index]:
                return None
            self._flushes[lane_index] = True
            return self._lease(f"flush-{lane_index}", 0.1)

    def _lease(self, name: str, seconds: float) -> Lease:
        plan = {"note": str(self._folder / name), "seconds": seconds}
        return Lease(
            work="engine_works:note_pid_and_sleep",
            plan=json.dumps(plan).encode(),
            description=name,
            seconds=seconds,
        )

    def lease_ended(self, lane_index: int, lease: Lease, outcome: list[LeaseRow] | MirrorlakeError) -> None:
        if isinstance(outcome, MirrorlakeError):
            say("failed", lease.description, type(outcome).__name__, outcome.message)
        else:
            say("ended", lease.description, *(row["kind"] for row in outcome))


def main(folder: Path, lease_seconds: float, restarts_max: int) -> int:
    is_over = threading.Event()

    def on_stop(name: str) -> None:
        say("stop", name)
        is_over.set()

    stop = StopSignal(on_stop).install()
    say("installed", os.getpid(), "restarts", len(os.environ.get(TIMES_VARIABLE, "").split(",")))
    settings = SessionSettings(lanes=LANES, batch_slots=0, cache_folder=_cache_folder())
    session = build_session(settings)
    say("jvm", session.jvm.pid)
    say("folder", session.jobs.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))
    work = Work(folder, lease_seconds)
    lanes = engine_lanes(session, lanes=LANES, source=work, on_engine_dead=is_over.set)
    lanes.start()
    is_over.wait()
    if lanes.is_engine_dead and not stop.requested.is_set():
        why = "Spark lost every lease" if lanes.is_engine_useless else "Spark's JVM died"
        restart_process(session, RestartBounds(restarts_max=restarts_max), why=why)
    work.is_flushing = True
    lanes.wake()
    all_ended = lanes.stop(60.0)
    say("imported", *sorted({"numba", "pandas", "pyspark"} & sys.modules.keys()))
    session.stop()
    say("graceful", "end" if all_ended else "timeout")
    return 0


def _cache_folder() -> Path | None:
    given = os.environ.get("ENGINE_CACHE_FOLDER")
    return Path(given) if given else None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
