"""Reads source partitions: one fetch connection per source broker, every wanted partition in each request.

The order of the partitions rotates from request to request; a broker fills its answer in the order it was asked,
and the first would starve the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.apis import FETCH_VERSION, Api
from mirrorlake.kafka.connection import Connection
from mirrorlake.kafka.fetch import FetchedPartition, FetchPartition, decode_fetch, encode_fetch
from mirrorlake.kafka.frame import Frame
from mirrorlake.offsets import TopicPartition

FETCH_BYTES_MAX = 4 << 20
"""Bytes asked for in one answer: small enough that they are still in the cache when they are sent on."""

PARTITION_BYTES_MAX = 1 << 20
"""Bytes asked for of one partition; a larger batch comes whole when its partition is asked first (KIP-74)."""

WAIT_MS = 250
"""How long the broker may hold an empty answer back."""

BUSY_WAIT_MS = 2
"""The same while a partition was left out of the request for want of room: it may have room again any moment."""


class PinnedAnswer:
    """A fetch answer that gives its buffer back when the last pin is gone."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._pins = 1

    def pin(self) -> None:
        """Keeps the bytes for one more holder."""
        self._pins += 1

    def unpin(self) -> None:
        """Lets go; the last holder gives the buffer back to the pool."""
        self._pins -= 1
        if self._pins == 0:
            self._frame.release()


class ReadPartition(Protocol):
    """A partition as the reader sees it."""

    source: TopicPartition

    @property
    def wants_fetch(self) -> bool:
        """True where the partition can take a delivery now."""
        ...

    @property
    def is_over(self) -> bool:
        """True where the partition needs nothing more in this lease."""
        ...

    @property
    def fetch_offset(self) -> int:
        """The offset to ask for next."""
        ...

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer) -> None:
        """Takes what came for this partition; pins the frame if it keeps any of it."""
        ...

    def fetch_failed(self, error: MirrorlakeError) -> None:
        """Learns that the broker could not be read."""
        ...


class BrokerReader:
    """Fetches from one broker until the deadline, or until no partition wants anything more.

    Args:
        connect: opens the fetch connection.
        clock: tells when the time is over.
        read_until_seconds: reading of ``clock.elapsed_seconds`` at which fetching ends.
        timeout_seconds: how long the broker may take beyond the wait it was asked for.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        clock: Clock,
        read_until_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._until = read_until_seconds
        self._timeout = timeout_seconds
        self._partitions: list[ReadPartition] = []
        self._changed = asyncio.Event()
        self._turn = 0
        self.over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once ``run`` has ended; such a reader takes no more partitions."""
        return self.over.is_set()

    def add(self, partition: ReadPartition) -> None:
        """Adds a partition; it is part of the next request."""
        self._partitions.append(partition)
        self._changed.set()

    def changed(self) -> None:
        """Says that a partition may want something again."""
        self._changed.set()

    async def run(self) -> None:
        """Fetches and hands out until there is nothing more to do; errors go to the partitions."""
        connection: Connection | None = None
        try:
            connection = await self._connect()
            while (left := self._until - self._clock.elapsed_seconds()) > 0:
                self._partitions = [p for p in self._partitions if not p.is_over]
                if not self._partitions:
                    return
                wanted = [p for p in self._partitions if p.wants_fetch]
                if wanted:
                    await self._fetch(connection, wanted, left)
                else:
                    await self._wait(left)
        except MirrorlakeError as error:
            for partition in self._partitions:
                if not partition.is_over:
                    partition.fetch_failed(error)
        finally:
            self.over.set()
            if connection is not None:
                connection.close("the lease ended")

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        if any(p.wants_fetch or p.is_over for p in self._partitions):
            return
        try:
            await asyncio.wait_for(self._changed.wait(), timeout=seconds)
        except TimeoutError:
            return

    async def _fetch(self, connection: Connection, wanted: Sequence[ReadPartition], left_seconds: float) -> None:
        self._turn += 1
        turn = self._turn % len(wanted)
        rotated = [*wanted[turn:], *wanted[:turn]]
        wait_ms = WAIT_MS if len(wanted) == len(self._partitions) else BUSY_WAIT_MS
        wait_ms = min(wait_ms, max(0, int(left_seconds * 1000)))
        body = encode_fetch(
            [FetchPartition(p.source.topic, p.source.partition, p.fetch_offset, PARTITION_BYTES_MAX) for p in rotated],
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
        )
        frame = await connection.request(
            Api.FETCH, FETCH_VERSION, [body], timeout_seconds=wait_ms / 1000 + self._timeout
        )
        pinned = PinnedAnswer(frame)
        try:
            by_name = {(p.source.topic, p.source.partition): p for p in rotated}
            for answer in decode_fetch(frame.view):
                partition = by_name.get((answer.topic, answer.partition))
                if partition is not None:
                    partition.fetched(answer, pinned)
        finally:
            pinned.unpin()
        # Let the partitions take what they were given, so that the next request can ask for all of them again.
        await asyncio.sleep(0)
