"""A lease that waited in Spark past the time by which it must begin: its worker does nothing with it."""

import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.errors import LeaseLateError
from mirrorlake.moments import Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.session import EngineSession
from support.leases import kafka_work, lease_plan

pytestmark = pytest.mark.spark

SOURCE = TopicPartition("orders", 0)
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("frozen_seconds", [0.0, 3.0])
def test_a_lease_that_waited_in_a_frozen_jvm_does_nothing(engine: EngineSession, frozen_seconds: float) -> None:
    begins_by = Moment.of(SystemClock(), in_seconds=frozen_seconds / 2 or 60.0)
    plan = lease_plan(NOBODY, [(SOURCE, [kafka_work(NOBODY, SOURCE)])], end=10, seconds=0.5)
    order = pickle.dumps(replace(plan, begins_by=begins_by))
    with ThreadPoolExecutor(1) as lane:
        if frozen_seconds:
            os.kill(engine.jvm.pid, signal.SIGSTOP)
        try:
            running = lane.submit(engine.run_lease, "mirrorlake.mirror.lease_worker:work", order, description="late")
            time.sleep(frozen_seconds)
        finally:
            os.kill(engine.jvm.pid, signal.SIGCONT)
        (row,) = running.result(60)
    error = row["row"].error  # type: ignore[attr-defined]
    assert isinstance(error, LeaseLateError) == bool(frozen_seconds), error
