"""Requests on their way, and where their answers go."""

import asyncio
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import Final, Protocol

from mirrorlake.errors import MirrorlakeError, RequestTimeoutError
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.frame import Frame

LOOP_STOOD_STILL_SECONDS: Final = 0.5
"""A timer later than this means that the loop was kept busy (a kernel being compiled) or the machine slept."""


class Answer(Protocol):
    """Where an answer goes: a future, or what takes it at once."""

    def done(self) -> bool:
        """Tells whether nobody waits for it any more."""
        ...

    def set_result(self, result: Frame, /) -> None:
        """Takes the answer."""
        ...

    def set_exception(self, exception: MirrorlakeError, /) -> None:
        """Takes why none will come."""
        ...


class TakenAtOnce:
    """Hands an answer on in the moment it comes; a failure one turn of the loop later, as a future would."""

    __slots__ = ("_is_done", "_loop", "_lost", "_taken")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, taken: Callable[[Frame], None], lost: Callable[[MirrorlakeError], None]
    ) -> None:
        self._loop = loop
        self._taken = taken
        self._lost = lost
        self._is_done = False

    def done(self) -> bool:
        """Tells whether one of the two was called."""
        return self._is_done

    def set_result(self, result: Frame, /) -> None:
        """Hands the answer on at once."""
        self._is_done = True
        try:
            self._taken(result)
        except Exception as error:  # noqa: BLE001 - a bug of its taker must not leave the next answers half read
            self._loop.call_exception_handler({"message": "an answer could not be taken", "exception": error})

    def set_exception(self, exception: MirrorlakeError, /) -> None:
        """Hands the failure on in a moment."""
        self._is_done = True
        # Later, because a connection may break while its user is in the middle of sending.
        self._loop.call_soon(self._lost, exception)


class PendingRequest:
    """A request without its answer."""

    __slots__ = ("answer", "api", "correlation_id", "deadline", "is_flexible", "sent_at")

    def __init__(
        self,
        correlation_id: int,
        api: int,
        is_flexible: bool,
        sent_at: float,
        deadline: float,
        answer: Answer,
    ) -> None:
        self.correlation_id = correlation_id
        self.api = api
        self.is_flexible = is_flexible
        self.sent_at = sent_at
        self.deadline = deadline
        self.answer = answer


def fail_answer(answer: Answer, error: MirrorlakeError) -> None:
    """Says that no answer will come, unless nobody waits for it."""
    if not answer.done():
        answer.set_exception(error)
        if isinstance(answer, asyncio.Future):
            answer.exception()  # marks it as seen: who pipelines stops at the first failure and drops the rest


class PendingRequests:
    """Requests without their answers, in the order in which those come, and the one timer that ends overdue ones.

    Args:
        loop: the running one.
        address: the broker's, for messages.
        is_paused: tells whether we keep the peer waiting, and not the other way round.
        overdue: called once a request was not answered in time, after it was told so.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        address: str,
        is_paused: Callable[[], bool],
        overdue: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._address = address
        self._is_paused = is_paused
        self._overdue = overdue
        self._requests: deque[PendingRequest] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first(self) -> PendingRequest | None:
        """The request whose answer comes next; None where none is awaited."""
        return self._requests[0] if self._requests else None

    def put(self, request: PendingRequest) -> None:
        """Puts a request behind all others."""
        self._requests.append(request)
        self._arm(request.deadline)

    def take(self) -> PendingRequest | None:
        """Takes out the request whose answer comes next; None where none is awaited."""
        return self._requests.popleft() if self._requests else None

    def give_back(self, request: PendingRequest) -> None:
        """Puts back what was just taken."""
        self._requests.appendleft(request)

    def extend(self, seconds: float) -> None:
        """Gives every request so much more time."""
        for request in self._requests:
            request.deadline += seconds

    def stop(self) -> None:
        """Lets no request become overdue any more."""
        if self._timer is not None:
            self._timer.cancel()

    def fail_all(self, error: MirrorlakeError) -> None:
        """Tells every request that no answer will come."""
        while self._requests:
            # A copy each: an exception collects the frames it passes through, and those hold on to buffers.
            fail_answer(self._requests.popleft().answer, copy(error))

    def _arm(self, deadline: float) -> None:
        # One timer for all requests, set to the earliest deadline and looked at again when it fires: a timer
        # per request would cost more than the request.
        if self._timer is not None:
            if self._armed_for <= deadline:
                return
            self._timer.cancel()
        self._armed_for = deadline  # uvloop's handle of a time that has come does not tell it
        self._timer = self._loop.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        now = self._loop.time()
        timer, self._timer = self._timer, None
        late_seconds = now - self._armed_for if timer is not None else 0.0
        if not self._requests:
            return
        if self._is_paused():
            self._arm(now + 1.0)
            return
        if late_seconds > LOOP_STOOD_STILL_SECONDS:  # as long as we did not listen, no answer could be heard
            self.extend(late_seconds)
        earliest = min(request.deadline for request in self._requests)
        if earliest > now:
            self._arm(earliest)
            return
        for request in self._requests:
            if request.deadline <= now:
                title = Api(request.api).title
                error = RequestTimeoutError(f"{self._address} did not answer {title} in time", address=self._address)
                fail_answer(request.answer, error)
        self._overdue()
