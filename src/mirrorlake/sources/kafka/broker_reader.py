"""Reads from one source broker: one fetch connection, every wanted partition in each request.

The order of the partitions rotates from request to request; a broker fills its answer in the order it was asked,
and the first would starve the others.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.descriptions import parse_topic_id
from mirrorlake.kafka.wire.apis import FETCH_VERSION, Api
from mirrorlake.kafka.wire.fetch import FETCH_BYTES_MAX, FetchedPartition, FetchPartition, decode_fetch, encode_fetch
from mirrorlake.kafka.wire.fetch_by_id import FETCH_BY_ID_VERSION, decode_fetch_by_id, encode_fetch_by_id
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

PARTITION_BYTES_MAX = 1 << 20
"""Bytes asked for of one partition, or its share of the answer where that is more: a few partitions fill it too. A
larger batch comes whole when its partition is asked first (KIP-74)."""

ANSWER_BYTES_MIN = 1
"""Bytes the broker waits for before it answers."""

FIRST_WAIT_MS = 8
"""How long the broker may hold the first answer back: partitions that are added meanwhile wait for the next one."""

FLOWING_WAIT_MS = 250
"""The same after an answer with records; records that come end every wait."""

QUIET_WAIT_MS = 1000
"""The same after many empty answers, each of which is handed to every partition; it doubles up to here."""

BUSY_WAIT_MS = 2
"""The same while a partition was left out of the request for want of room: it may have room again any moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What every request asks of the broker: the constants above, where a cluster's settings say nothing else.

    ``wait_ms`` is how long the broker may hold an answer back, None for as long as it fits (`QuietWait`).
    """

    answer_bytes_max: int
    partition_bytes_max: int | None
    answer_bytes_min: int
    wait_ms: int | None

    @classmethod
    def of(cls, settings: ClusterSettings) -> "FetchLimits":
        """Returns the limits of one cluster."""
        wait = settings.fetch_wait_seconds_max
        return cls(
            answer_bytes_max=settings.fetch_bytes_max or FETCH_BYTES_MAX,
            partition_bytes_max=settings.fetch_partition_bytes_max,
            answer_bytes_min=settings.fetch_bytes_min or ANSWER_BYTES_MIN,
            wait_ms=_wait_ms(settings) if wait is None else round(wait * 1000),
        )

    def wait_ms_within(self, left_seconds: float, fitting_ms: int) -> int:
        """Returns how long the broker may hold an answer back.

        Args:
            left_seconds: until reading ends.
            fitting_ms: how long it may, where the settings leave it open.
        """
        left_ms = max(0, int(left_seconds * 1000))
        if self.answer_bytes_min > 1:
            # Records held back until reading ends would come too late to be copied, lease after lease.
            left_ms //= 2
        return min(fitting_ms if self.wait_ms is None else self.wait_ms, left_ms)

    def body(
        self, partitions: Sequence["ReadPartition"], *, wait_ms: int, ids: Mapping[str, bytes] | None = None
    ) -> bytes:
        """Returns the request for these partitions, in this order, each from its next offset on.

        With ``ids``, one for each topic, it is a Fetch by id; without, one by name.
        """
        share = self.partition_bytes_max or max(PARTITION_BYTES_MAX, self.answer_bytes_max // len(partitions))
        asked = [
            FetchPartition(p.source.topic, p.source.partition, p.fetch_offset, share, leader_epoch=p.leader_epoch)
            for p in partitions
        ]
        least, most = self.answer_bytes_min, self.answer_bytes_max
        if ids is not None:
            return encode_fetch_by_id(asked, ids, max_wait_ms=wait_ms, min_bytes=least, max_bytes=most)
        return encode_fetch(asked, max_wait_ms=wait_ms, min_bytes=least, max_bytes=most)


def _wait_ms(settings: ClusterSettings) -> int | None:
    """A broker that is to wait for many bytes must have the time to; short waits would defeat it."""
    return FLOWING_WAIT_MS if (settings.fetch_bytes_min or ANSWER_BYTES_MIN) > 1 else None


class QuietWait:
    """How long a broker may hold its next answer back: briefly at first, and ever longer while nothing comes."""

    def __init__(self) -> None:
        self.milliseconds = FIRST_WAIT_MS

    def added(self) -> None:
        """A partition has come: more of them may follow, and none is to wait long for its first request."""
        self.milliseconds = FIRST_WAIT_MS

    def answered(self, *, is_empty: bool) -> None:
        """Takes whether an answer brought nothing."""
        self.milliseconds = min(2 * self.milliseconds, QUIET_WAIT_MS) if is_empty else FLOWING_WAIT_MS


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
    def topic_id(self) -> str:
        """The id the source topic must have; empty where its cluster gives none."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch the source's leader must lead in, −1 for any: after an election a log is looked at first."""
        ...

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

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        """Takes what came for this partition; pins the frame if it keeps any of it.

        ``is_quiet`` says that what is not in it was not left out for want of room: the whole answer is empty, or the
        partition was the first to be asked for, which gets its first batch however large (KIP-74).
        """
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
        settings: the broker's cluster: the limits of fetches, and how long the broker may take beyond the wait it
            was asked for.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        clock: Clock,
        read_until_seconds: float,
        settings: ClusterSettings,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._until = read_until_seconds
        self._timeout = settings.request_timeout_seconds
        self._limits = FetchLimits.of(settings)
        self._quiet_wait = QuietWait()
        self._partitions: list[ReadPartition] = []
        self._changed = asyncio.Event()
        self._turn = 0
        self._answer: asyncio.Future[Frame] | None = None
        self.over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once ``run`` has ended; such a reader takes no more partitions."""
        return self.over.is_set()

    def add(self, partition: ReadPartition) -> None:
        """Adds a partition; it is part of the next request."""
        self._partitions.append(partition)
        self._quiet_wait.added()
        self._changed.set()

    def changed(self) -> None:
        """Says that a partition may want something again."""
        self._changed.set()

    def end_reading(self) -> None:
        """Ends reading now: an answer that is still on its way is given up."""
        self._until = min(self._until, self._clock.elapsed_seconds())
        self._changed.set()
        if self._answer is not None:
            self._answer.cancel()

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
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours ends these partitions' part, not the others' (law 6)
            traceback.print_exc()
            self._fail(OutcomeUnknownError(f"internal error: {error!r}; please report it"))
        finally:
            self.over.set()
            if connection is not None:
                connection.close("the lease ended")

    def _fail(self, error: MirrorlakeError) -> None:
        for partition in self._partitions:
            if not partition.is_over:
                partition.fetch_failed(error)

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
        wait_ms = self._limits.wait_ms_within(left_seconds, self._quiet_wait.milliseconds)
        if len(wanted) < len(self._partitions):
            wait_ms = min(wait_ms, BUSY_WAIT_MS)
        ids = _ids_of(rotated) if connection.knows(Api.FETCH, FETCH_BY_ID_VERSION) else None
        body = self._limits.body(rotated, wait_ms=wait_ms, ids=ids)
        version = FETCH_VERSION if ids is None else FETCH_BY_ID_VERSION
        frame = await self._ask(connection, body, version, wait_ms / 1000 + self._timeout)
        if frame is None:
            return
        pinned = PinnedAnswer(frame)
        try:
            self._quiet_wait.answered(is_empty=_hand_out(frame, pinned, rotated, ids))
        finally:
            pinned.unpin()
        # Let the partitions take what they were given, so that the next request can ask for all of them again.
        await asyncio.sleep(0)

    async def _ask(self, connection: Connection, body: bytes, version: int, timeout_seconds: float) -> Frame | None:
        """Returns the answer, None where reading ended before it came."""
        self._answer = connection.send(Api.FETCH, version, [body], timeout_seconds=timeout_seconds)
        try:
            return await self._answer
        except asyncio.CancelledError:
            reading = asyncio.current_task()
            if reading is not None and reading.cancelling():
                raise
            return None
        finally:
            self._answer = None


def _ids_of(partitions: Sequence[ReadPartition]) -> dict[str, bytes] | None:
    """Returns the id of every topic; None where one has none, or two of one name have different ones."""
    ids = {partition.source.topic: partition.topic_id for partition in partitions}
    if not all(partition.topic_id and ids[partition.source.topic] == partition.topic_id for partition in partitions):
        return None
    return {topic: parse_topic_id(topic_id) for topic, topic_id in ids.items()}


def _hand_out(
    frame: Frame, pinned: PinnedAnswer, partitions: Sequence[ReadPartition], ids: Mapping[str, bytes] | None
) -> bool:
    """Gives each partition its part; no view of the buffer outlives the call but those it is pinned for.

    Returns whether the answer brought no records.
    """
    by_name = {(p.source.topic, p.source.partition): p for p in partitions}
    if ids is None:
        answers = decode_fetch(frame.view)
    else:
        answers = decode_fetch_by_id(frame.view, {topic_id: topic for topic, topic_id in ids.items()})
    is_empty = not any(len(answer.records) for answer in answers)
    first = partitions[0]
    for answer in answers:
        partition = by_name.get((answer.topic, answer.partition))
        if partition is not None:
            partition.fetched(answer, pinned, is_quiet=is_empty or partition is first)
    return is_empty
