"""Reads from one source broker: one fetch connection, every wanted partition in each request.

The order of the partitions rotates from request to request; a broker fills its answer in the order it was asked,
and the first would starve the others.

Many partitions that are read to their ends are read on in a session (`fetch_session`), in which requests and answers
name only those of which there is something to say. Whatever an answer does not settle ends it: all are asked for again.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.descriptions import parse_topic_id
from mirrorlake.kafka.wire.apis import FETCH_VERSION, Api
from mirrorlake.kafka.wire.error_codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from mirrorlake.kafka.wire.fetch import FetchedPartition, decode_fetch
from mirrorlake.kafka.wire.fetch_by_id import (
    FETCH_BY_ID_VERSION,
    FINAL_EPOCH,
    NO_SESSION_ID,
    OPENING_EPOCH,
    SessionStep,
    decode_fetch_by_id,
    decode_head,
)
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.fetch_limits import BUSY_WAIT_MS, FetchLimits, QuietWait
from mirrorlake.sources.kafka.fetch_session import FetchSession
from mirrorlake.sources.kafka.read_partition import PinnedAnswer, ReadPartition

SESSION_PARTITIONS_MIN = 16
"""Fewer are named in every request: that costs less than it takes to think of a session."""

LOOK_AT_ALL_SECONDS = 5.0
"""How often in a session all partitions are asked what they want, and not only those that said so or got something."""

_SESSION_ERRORS = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR})
"""The broker has forgotten the session, for want of room or since it was started again; nothing was fetched."""


class BrokerReader:
    """Fetches from one broker until the deadline, or until no partition wants anything more.

    Args:
        connect: opens the fetch connection.
        clock: tells when the time is over.
        read_until_seconds: reading of ``clock.elapsed_seconds`` at which fetching ends.
        settings: the broker's cluster: the limits of fetches, and how long the broker may take beyond the wait it
            was asked for.
        sessions_left: ids of sessions at this broker that nobody goes on with, which stay in its memory until a
            request names them. Each request of all partitions ends one; that of this reader is added when it is over.

    Attributes:
        reads_by_id: whether the last request of all partitions named topics by their ids.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        clock: Clock,
        read_until_seconds: float,
        settings: ClusterSettings,
        sessions_left: list[int] | None = None,
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
        self._session: FetchSession | None = None
        self._sessions_left = [] if sessions_left is None else sessions_left
        self._may_open = True
        self._were_at_end = False
        self._to_look_at: dict[int, ReadPartition] = {}
        self._looked_at_all = 0.0
        self.reads_by_id = False
        self.over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once ``run`` has ended; such a reader takes no more partitions."""
        return self.over.is_set()

    def add(self, partition: ReadPartition) -> None:
        """Adds a partition; it is part of the next request."""
        self._partitions.append(partition)
        self._quiet_wait.added(to_partitions=len(self._partitions) - 1)
        self.changed(partition)

    def changed(self, partition: ReadPartition) -> None:
        """Says that a partition may want something again, or is over."""
        self._to_look_at[id(partition)] = partition
        self._changed.set()

    def prolong(self, seconds: float) -> None:
        """Lets fetching end so many seconds later."""
        self._until += seconds

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
                looked_at = self._look()
                if not self._partitions:
                    return
                if self._session is not None:
                    await self._fetch_changes(connection, self._session, looked_at, left)
                elif wanted := [p for p in self._partitions if p.wants_fetch]:
                    await self._fetch_all(connection, wanted, left)
                else:
                    await self._wait(left)
        except MirrorlakeError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours ends these partitions' part, not the others' (law 6)
            traceback.print_exc()
            self._fail(OutcomeUnknownError(f"internal error: {error!r}; please report it"))
        finally:
            self.over.set()
            if self._session is not None:
                self._leave(self._session)
            if connection is not None:
                connection.close("the lease ended")

    def _look(self) -> Collection[ReadPartition]:
        """Lets go of partitions that are over; returns those of which it is not known what they want."""
        now = self._clock.elapsed_seconds()
        looked_at: Collection[ReadPartition] = self._to_look_at.values()
        if self._session is None or now >= self._looked_at_all + LOOK_AT_ALL_SECONDS:
            looked_at, self._looked_at_all = self._partitions, now
        self._to_look_at = {}
        if any(p.is_over for p in looked_at):
            self._partitions = [p for p in self._partitions if not p.is_over]
        return looked_at

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

    # --- all that is wanted -------------------------------------------------------------------------------

    async def _fetch_all(self, connection: Connection, wanted: Sequence[ReadPartition], left_seconds: float) -> None:
        self._turn += 1
        turn = self._turn % len(wanted)
        rotated = [*wanted[turn:], *wanted[:turn]]
        wait_ms = self._wait_ms(left_seconds, is_whole=len(wanted) == len(self._partitions))
        ids = _ids_of(rotated) if connection.knows(Api.FETCH, FETCH_BY_ID_VERSION) else None
        self.reads_by_id = ids is not None
        opens = ids is not None and self._may_open_with(wanted)
        body = self._limits.body(rotated, wait_ms=wait_ms, ids=ids, session=self._step_of_all(opens=opens, by_id=ids))
        opened_with = [(p, p.fetch_offset) for p in rotated] if opens else []
        version = FETCH_VERSION if ids is None else FETCH_BY_ID_VERSION
        frame = await self._ask(connection, body, version, wait_ms / 1000 + self._timeout)
        if frame is None:
            return
        pinned = PinnedAnswer(frame)
        try:
            answers = _decoded(frame, ids)
            self._quiet_wait.answered(is_empty=_hand_out(answers, pinned, rotated))
            self._were_at_end = len(rotated) >= SESSION_PARTITIONS_MIN and all(p.is_at_end for p in rotated)
            if opens and ids is not None:
                answered = {TopicPartition(each.topic, each.partition) for each in answers}
                begun = [(p, offset) for p, offset in opened_with if p.source in answered]
                self._opened(decode_head(frame.view).session_id, begun, ids, share_bytes_of=len(rotated))
        finally:
            pinned.unpin()
        # Let the partitions take what they were given, so that the next request can ask for all of them again.
        await asyncio.sleep(0)

    def _wait_ms(self, left_seconds: float, *, is_whole: bool) -> int:
        wait_ms = self._limits.wait_ms_within(left_seconds, self._quiet_wait.milliseconds)
        return wait_ms if is_whole else min(wait_ms, BUSY_WAIT_MS)

    # --- a session ----------------------------------------------------------------------------------------

    def _may_open_with(self, wanted: Sequence[ReadPartition]) -> bool:
        return (
            self._may_open
            and self._were_at_end
            and len(wanted) == len(self._partitions) >= SESSION_PARTITIONS_MIN
            and all(p.is_steady for p in wanted)
        )

    def _step_of_all(self, *, opens: bool, by_id: object) -> SessionStep:
        ended = self._sessions_left.pop() if by_id is not None and self._sessions_left else NO_SESSION_ID
        return SessionStep(ended, OPENING_EPOCH if opens else FINAL_EPOCH)

    def _opened(
        self,
        session_id: int,
        begun: Sequence[tuple[ReadPartition, int]],
        ids: Mapping[str, bytes],
        *,
        share_bytes_of: int,
    ) -> None:
        """Takes what the broker said to the wish for a session."""
        if session_id == NO_SESSION_ID:
            self._may_open = False  # it has no room, or knows none; the next lease asks again
            return
        session = FetchSession(session_id, begun, ids=ids, share_bytes=self._limits.share_of(share_bytes_of))
        if not self._were_at_end:
            self._sessions_left.append(session_id)
            return
        self._session = session
        self._to_look_at |= {id(p): p for p in self._partitions}  # of which some were not among the answers
        self._looked_at_all = self._clock.elapsed_seconds()

    def _leave(self, session: FetchSession) -> None:
        """Goes on by requests of all partitions; the next one tells the broker."""
        self._session = None
        self._sessions_left.append(session.session_id)
        self._were_at_end = False

    async def _fetch_changes(
        self,
        connection: Connection,
        session: FetchSession,
        looked_at: Collection[ReadPartition],
        left_seconds: float,
    ) -> None:
        changes = session.changes(looked_at) if all(map(session.admits, looked_at)) else None
        if changes is None or not len(session):
            self._leave(session)
            return
        wait_ms = self._wait_ms(left_seconds, is_whole=len(session) == len(self._partitions))
        body = self._limits.changes(changes, wait_ms=wait_ms, share_bytes=session.share_bytes)
        frame = await self._ask(connection, body, FETCH_BY_ID_VERSION, wait_ms / 1000 + self._timeout)
        if frame is None:
            return
        pinned = PinnedAnswer(frame)
        try:
            if decode_head(frame.view).error_code in _SESSION_ERRORS:
                self._session, self._may_open = None, False
                return
            self._hand_out_changes(decode_fetch_by_id(frame.view, session.names), pinned, session)
        finally:
            pinned.unpin()
        await asyncio.sleep(0)  # as after a request of all

    def _hand_out_changes(
        self, answers: Sequence[FetchedPartition], pinned: PinnedAnswer, session: FetchSession
    ) -> None:
        # Where no records came none was left out for want of room: the broker has looked at every partition.
        is_empty = not any(len(answer.records) for answer in answers)
        are_at_end = True
        for answer in answers:
            partition = session.partition(answer.topic, answer.partition)
            if partition is not None:
                partition.fetched(answer, pinned, is_quiet=is_empty)
                are_at_end = are_at_end and partition.is_at_end
                self._to_look_at[id(partition)] = partition
        self._quiet_wait.answered(is_empty=is_empty)
        if not are_at_end:
            self._leave(session)

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


def _decoded(frame: Frame, ids: Mapping[str, bytes] | None) -> list[FetchedPartition]:
    if ids is None:
        return decode_fetch(frame.view)
    return decode_fetch_by_id(frame.view, {topic_id: topic for topic, topic_id in ids.items()})


def _hand_out(answers: Sequence[FetchedPartition], pinned: PinnedAnswer, partitions: Sequence[ReadPartition]) -> bool:
    """Gives each partition its part; no view of the buffer outlives the call but those it is pinned for.

    Returns whether the answer brought no records.
    """
    by_name = {(p.source.topic, p.source.partition): p for p in partitions}
    is_empty = not any(len(answer.records) for answer in answers)
    first = partitions[0]
    for answer in answers:
        partition = by_name.get((answer.topic, answer.partition))
        if partition is not None:
            partition.fetched(answer, pinned, is_quiet=is_empty or partition is first)
    return is_empty
