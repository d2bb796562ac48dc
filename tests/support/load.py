"""A producer that never stops, in a thread: every record says its own number."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from mirrorlake.errors import MirrorlakeError
from support.records import Record, build_batch, produce, simple_records


def numbered(count: int, start: int, timestamp: int) -> list[Record]:
    return simple_records(count, start=start, timestamp=timestamp)


class Load:
    """Appends small batches to every partition in turn until stopped; goes on after a broker was away.

    Args:
        bootstrap_servers: of the cluster.
        topic: exists already.
        partitions: how many of it are written.
        batch: records per batch.
        pause_seconds: between two batches; short enough that a lease always finds something to do.
        make: returns so many records, from a number on, of a time in Unix milliseconds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        partitions: int = 1,
        batch: int = 10,
        pause_seconds: float = 0.02,
        make: Callable[[int, int, int], list[Record]] = numbered,
    ) -> None:
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._batch = batch
        self._pause_seconds = pause_seconds
        self._make = make
        self._stop = threading.Event()
        self._counts = [0] * partitions
        self._thread = threading.Thread(target=self._work, name="load", daemon=True)

    def stop(self) -> None:
        """Ends with the batch it is at. Idempotent."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        for partition in itertools.cycle(range(self._partitions)):
            if self._stop.is_set():
                return
            try:
                asyncio.run(produce(self._servers, self._topic, partition, self._batches(partition)))
            except (MirrorlakeError, AssertionError):
                time.sleep(0.2)  # the broker is away: what was lost is not missed, the source's log is the truth

    def _batches(self, partition: int) -> Iterator[bytes]:
        for _ in range(20):
            if self._stop.is_set():
                return
            start = self._counts[partition]
            self._counts[partition] += self._batch
            # Of today: a broker forgets a producer of old records, and the sink then keeps one batch in flight.
            yield build_batch(self._make(self._batch, start, int(time.time() * 1000)))
            time.sleep(self._pause_seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
