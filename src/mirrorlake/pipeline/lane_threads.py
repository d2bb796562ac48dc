"""Threads of lanes, each with a JVM thread of its own.

To make one asks the JVM, in the thread that starts it and in itself. A JVM that is gone then is found as one that goes
in a lease: an error of a connection would end the process, or the lane, and nothing would start Spark again.
"""

import threading
from collections.abc import Callable
from typing import Any

from mirrorlake.pipeline.lease_job import EngineDiedError


def lane_thread(jobs: Any, target: Callable[[], None], name: str) -> threading.Thread:
    """Returns a thread whose job descriptions and groups do not mix with those of others; see ``Engine.lane_thread``.

    Args:
        jobs: the door to Spark.
        target: what it runs, also where the JVM goes before it begins: the first lease of it finds that.
        name: of thread and job group.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark import InheritableThread

    gone = (Py4JNetworkError, ConnectionError, EOFError)
    begun = threading.Event()

    def work() -> None:
        jobs.sparkContext.setLocalProperty("spark.jobGroup.id", name)
        begun.set()
        target()

    class LaneThread(InheritableThread):
        def start(self) -> None:
            try:
                super().start()
            except gone as error:
                raise EngineDiedError(f"Spark's JVM does not answer: {error}") from error

        def run(self) -> None:
            try:
                super().run()
            except gone:
                if begun.is_set():
                    raise
                target()

    thread: threading.Thread = LaneThread(work, name=name)
    return thread
