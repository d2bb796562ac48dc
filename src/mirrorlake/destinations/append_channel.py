"""One produce connection to one destination broker, shared by the partitions of a lease that lead there.

It sends one batch per partition per request (a broker refuses more, and a partition named twice in one request
is silent loss), keeps a bounded number of requests in flight, and hands every answer to the sink it belongs to.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import PinnedFrame
from mirrorlake.destinations.round_trips import SendWindow, coalesced_bytes
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.records.batches import BatchHeader, Codec
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.produce import ProducedPartition, answer_bytes_min, decode_produce, encode_produce

REQUEST_BYTES_MAX = 8 << 20
"""Far below a broker's ``socket.request.max.bytes`` (100 MiB), and small enough to leave the cache in order."""

GATHER_SECONDS_MAX = 0.2
"""So long answers may gather unread: where the broker is slow with one, those before it are not to wait for it."""

_NO_DATA = memoryview(b"")


@dataclass(slots=True)
class Append:
    """One batch on its way: its frame is pinned until the answer is read.

    ``header`` is the batch's as it was read; ``data``, its bytes, is addressed to the writer when it is handed out.
    ``end_offset`` is the source position after it (exclusive). ``size_bytes`` is that of ``data``, also once it was
    let go. ``transactional_id`` is that of the open transaction the batch belongs to, None outside of one.
    """

    header: BatchHeader
    data: memoryview
    size_bytes: int
    expected_offset: int
    end_offset: int
    records: int
    reason: str
    max_timestamp_ms: int
    frame: PinnedFrame | None
    transactional_id: str | None = None

    def let_go(self) -> None:
        """Gives the bytes up: the view first, because a buffer that is still viewed is never used again."""
        self.data = _NO_DATA
        if self.frame is not None:
            self.frame.unpin()
            self.frame = None


class Appender(Protocol):
    """What the channel needs of a sink."""

    @property
    def topic(self) -> str:
        """The destination topic."""
        ...

    @property
    def partition(self) -> int:
        """The destination partition."""
        ...

    def next_append(self) -> Append | None:
        """Hands out the next batch where one may be sent now, else None."""
        ...

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        """Takes the broker's answer for one batch; answers come in the order of the sends."""
        ...

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        """Learns that no answer for this batch will come: it may or may not have been appended."""
        ...


class BytesInFlight:
    """What all channels of a lease have sent and have no answer for."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class AppendChannel:
    """Sends the batches of many partitions over one connection, in order, each partition at most once a request.

    Args:
        connection: an open produce connection, used by nobody else.
        clock: read before every send, and when it is answered.
        send_until_seconds: reading of ``clock.elapsed_seconds`` after which nothing is sent any more: a frozen
            writer that wakes later must not append on an old claim.
        timeout_seconds: how long the broker may take to answer one request.
        in_flight_bytes: counted together with the lease's other channels; by itself where left out.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        send_until_seconds: float,
        timeout_seconds: float,
        in_flight_bytes: BytesInFlight | None = None,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._send_until = send_until_seconds
        self._timeout = timeout_seconds
        self._ready: deque[Appender] = deque()
        self._is_ready: set[int] = set()
        self._window = SendWindow()
        self._gather_timer: asyncio.TimerHandle | None = None
        self._shut_seconds = 0.0
        self._in_flight_bytes = in_flight_bytes or BytesInFlight()
        self._round_trip_seconds = float("inf")
        self._pump_is_due = False
        connection.wake_after(lambda: self._window.awaited_bytes)

    @property
    def is_closed(self) -> bool:
        """True once the connection is gone; the channel is then of no more use."""
        return self._connection.closed

    @property
    def is_full(self) -> bool:
        """True where it takes nothing until more of what is under way is answered."""
        return not self._window.takes_more

    def coalesced_bytes(self, codec: Codec, *, batch_bytes_max: int) -> int:
        """Returns up to which size an appender that waits for answers should coalesce; see ``round_trips.py``."""
        return coalesced_bytes(
            codec,
            round_trip_seconds=self._round_trip_seconds,
            in_flight_bytes=self._in_flight_bytes.now,
            batch_bytes_max=batch_bytes_max,
        )

    def prolong(self, seconds: float) -> None:
        """Lets it send so many seconds longer."""
        self._send_until += seconds

    def notify(self, appender: Appender) -> None:
        """Says that ``appender`` may have something to send; the sending happens in the next loop turn."""
        if id(appender) not in self._is_ready:
            self._is_ready.add(id(appender))
            self._ready.append(appender)
        # One turn later, so that the partitions of one fetch answer share a request.
        if not self._pump_is_due:
            self._pump_is_due = True
            asyncio.get_running_loop().call_soon(self._begin_pump)

    def close(self) -> None:
        """Closes the connection; whatever was outstanding is reported as lost."""
        self._connection.close("the lease ended")

    def _begin_pump(self) -> None:
        self._pump_is_due = False
        self._pump()
        self._connection.set_wake()

    def _pump(self) -> None:
        """Sends what is ready as far as the window takes it, with one system call where the socket takes that."""
        if not self._ready or not self._window.takes_more:
            return
        self._connection.hold()
        try:
            while self._ready and self._window.takes_more:
                for appends in _by_transaction(self._collect()):
                    self._send(appends)
        finally:
            self._connection.flush()
        if self._window.is_shut:
            self._shut_seconds = self._clock.elapsed_seconds()
            if self._gather_timer is None:
                self._gather_timer = asyncio.get_running_loop().call_later(GATHER_SECONDS_MAX, self._look_at_window)

    def _look_at_window(self) -> None:
        """Opens a window that was shut for too long. One timer, set anew when it fires: it is shut again and again."""
        self._gather_timer = None
        if not self._window.is_shut or self._connection.closed:
            return
        left_seconds = self._shut_seconds + GATHER_SECONDS_MAX - self._clock.elapsed_seconds()
        if left_seconds > 0:
            self._gather_timer = asyncio.get_running_loop().call_later(left_seconds, self._look_at_window)
            return
        self._window.open()
        self._begin_pump()

    def _collect(self) -> list[tuple[Appender, Append]]:
        """Takes the head of each ready partition, once around, up to the request size."""
        appends: list[tuple[Appender, Append]] = []
        size = 0
        for _ in range(len(self._ready)):
            appender = self._ready.popleft()
            append = appender.next_append()
            if append is None:
                self._is_ready.discard(id(appender))
                continue
            appends.append((appender, append))
            self._ready.append(appender)
            size += append.size_bytes
            if size >= REQUEST_BYTES_MAX:
                break
        return appends

    def _send(self, appends: list[tuple[Appender, Append]]) -> None:
        now = self._clock.elapsed_seconds()
        if self._connection.closed or now >= self._send_until:
            self._lose(appends, OutcomeUnknownError("the lease's time to send was over; the batch was not sent"))
            return
        body = encode_produce(
            [(appender.topic, appender.partition, append.data) for appender, append in appends],
            timeout_ms=int(self._timeout * 1000),
            transactional_id=appends[0][1].transactional_id,
        )
        request = _Request(self, appends, now)
        try:
            self._connection.send_for(
                Api.PRODUCE,
                PRODUCE_VERSION,
                body,
                timeout_seconds=self._timeout,
                taken=request.taken,
                lost=request.lost,
            )
        except MirrorlakeError as error:
            self._lose(appends, _as_unknown(error))
            return
        self._window.sent(request.size_bytes, answer_bytes_min([appender.topic for appender, _ in appends]))
        self._in_flight_bytes.now += request.size_bytes

    def _taken(self, request: "_Request", frame: Frame) -> None:
        appends = request.appends
        after_seconds = self._ended(request)
        if after_seconds < self._round_trip_seconds:
            self._round_trip_seconds = after_seconds
        try:
            answers = answers_by_append(decode_produce(frame.view), [appender for appender, _ in appends])
        except MirrorlakeError as broken:
            self._connection.close(str(broken))
            self._lose(appends, _as_unknown(broken))
            return
        finally:
            frame.release()
        # What the answers make room for goes out from here, not a turn later.
        self._pump_is_due = True
        try:
            for (appender, append), answer in zip(appends, answers, strict=True):
                if answer is None:
                    appender.answer_lost(append, OutcomeUnknownError("the broker's answer left the partition out"))
                else:
                    appender.answered(append, answer)
        finally:
            self._pump_is_due = False
        self._pump()

    def _lost(self, request: "_Request", error: MirrorlakeError) -> None:
        self._ended(request)
        self._lose(request.appends, _as_unknown(error))

    def _ended(self, request: "_Request") -> float:
        """Takes a request out of what is under way; returns for how many seconds it was."""
        after_seconds = self._clock.elapsed_seconds() - request.sent_seconds
        self._window.answered(after_seconds)
        self._in_flight_bytes.now -= request.size_bytes
        return after_seconds

    @staticmethod
    def _lose(appends: list[tuple[Appender, Append]], error: MirrorlakeError) -> None:
        for appender, append in appends:
            appender.answer_lost(append, error)


class _Request:
    """The batches of one request, for which the channel waits."""

    __slots__ = ("_channel", "appends", "sent_seconds", "size_bytes")

    def __init__(self, channel: AppendChannel, appends: list[tuple[Appender, Append]], sent_seconds: float) -> None:
        self._channel = channel
        self.appends = appends
        self.sent_seconds = sent_seconds
        self.size_bytes = sum([append.size_bytes for _, append in appends])

    def taken(self, frame: Frame) -> None:
        self._channel._taken(self, frame)

    def lost(self, error: MirrorlakeError) -> None:
        self._channel._lost(self, error)


def answers_by_append(
    answers: Sequence[ProducedPartition], appenders: Sequence[Appender]
) -> Sequence[ProducedPartition | None]:
    """Returns the answer for each appender, None where the broker left it out; a broker may answer in another order."""
    if len(answers) == len(appenders):
        for answer, appender in zip(answers, appenders, strict=True):
            if answer.partition != appender.partition or answer.topic != appender.topic:
                break
        else:
            return answers
    by_name = {(answer.topic, answer.partition): answer for answer in answers}
    return [by_name.get((appender.topic, appender.partition)) for appender in appenders]


def _by_transaction(appends: list[tuple[Appender, Append]]) -> Iterable[list[tuple[Appender, Append]]]:
    """Groups appends by transaction, order kept: a request belongs to one, or to none."""
    for _, append in appends:
        if append.transactional_id is not None:
            break
    else:
        return (appends,) if appends else ()
    groups: dict[str | None, list[tuple[Appender, Append]]] = {}
    for appender, append in appends:
        groups.setdefault(append.transactional_id, []).append((appender, append))
    return groups.values()


def _as_unknown(error: BaseException) -> MirrorlakeError:
    """A lost answer proves nothing about the batch (law 7), whatever was lost on the way."""
    unknown = OutcomeUnknownError(f"the answer to an append was lost: {error}")
    unknown.__cause__ = error
    return unknown
