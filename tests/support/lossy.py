"""A copy whose destination stands behind a proxy; leases run in this process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import assert_equal_in_kafka, create_topic, source_end
from support.leases import kafka_work, lease_plan
from support.proxy import Proxy
from support.records import in_batches, produce, simple_records
from support.transactions import append_in_transaction

REQUEST_SECONDS = 3.0
"""Short, because some tests wait for it."""

BATCH_BYTES_MAX = 600
"""One batch of ten records, so that none are coalesced and their requests can be counted."""


class Lossy:
    """A source topic of one partition, its copy, and a worker that keeps its connections from lease to lease.

    ``old_by_ms`` is how old the records say they are: a broker forgets the producer of old ones at its next check.
    """

    def __init__(
        self, source: EmbeddedKafka, proxy: Proxy, topic: str, run_async: RunAsync, *, old_by_ms: int = 0
    ) -> None:
        self.source, self.proxy, self.topic, self._run_async = source.bootstrap_servers, proxy, topic, run_async
        self.old_by_ms = old_by_ms
        create_topic(self.source, topic)
        create_topic(proxy.address, topic)
        self.where = TopicPartition(topic, 0)
        self.written = 0
        self.worker = Worker()

    def write(self, count: int) -> None:
        """Appends to the source, in batches of 10."""
        timestamp = int(time.time() * 1000) - self.old_by_ms
        records = simple_records(count, start=self.written, timestamp=timestamp)
        self._run_async(produce(self.source, self.topic, 0, list(in_batches(records, 10))))
        self.written += count

    def write_gap(self, count: int) -> None:
        """Appends ``count`` records that are aborted, and the marker behind them: a gap of one offset more."""
        append_in_transaction(self.source, self.topic, simple_records(count), committed=False)
        self.written += count + 1

    def plan(
        self, seconds: float, *, end: int | None = None, needs_tail_check: bool = True, **settings: Any
    ) -> LeasePlan:
        """A lease up to ``end``, the source's by default; ``settings`` are of ``PreserveSettings``."""
        work = kafka_work(
            self.proxy.address,
            self.where,
            # A filler wants room.
            batch_bytes_max=1_048_588 if "gap_fill" in settings else BATCH_BYTES_MAX,
            needs_tail_check=needs_tail_check,
            **settings,
        )
        work = replace(work, cluster=replace(work.cluster, request_timeout_seconds=REQUEST_SECONDS))
        return lease_plan(
            self.source, [(self.where, [work])], end=self.written if end is None else end, seconds=seconds
        )

    def copy(self, *, patience_seconds: float = 120.0, **settings: Any) -> None:
        """Leases on one worker until one brings the position to the end."""
        give_up_at = time.monotonic() + patience_seconds
        while True:
            (row,) = self.worker.run(self.plan(5.0, **settings))
            if row.position == self.written and row.error is None:
                return
            assert time.monotonic() < give_up_at, row

    def assert_equal(self) -> None:
        """Both end where they should, and every record has its own offset."""
        assert source_end(self.source, self.topic) == self.written
        assert_equal_in_kafka(self.source, self.proxy.address, self.topic)


@contextmanager
def leases_aside(plan: LeasePlan, *, count: int = 200) -> Iterator[list[LeaseRow]]:
    """Another writer works beside the block: lease after lease, ``count`` at most, until one ends without an error.

    It is waited for after the block; the rows, one of each lease, are there then.
    """
    rows: list[LeaseRow] = []

    def work() -> None:
        worker = Worker()
        while len(rows) < count and not (rows and rows[-1].error is None):
            rows.extend(worker.run(plan))
            time.sleep(0.1)
        worker.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield rows
    thread.join(120)
    assert not thread.is_alive()
