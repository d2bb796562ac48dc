"""Requests on their way, and where their answers go."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.frame import Frame


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

    __slots__ = ("answer", "api", "correlation_id", "deadline", "is_flexible")

    def __init__(
        self,
        correlation_id: int,
        api: int,
        is_flexible: bool,
        deadline: float,
        answer: Answer,
    ) -> None:
        self.correlation_id = correlation_id
        self.api = api
        self.is_flexible = is_flexible
        self.deadline = deadline
        self.answer = answer


def fail_answer(answer: Answer, error: MirrorlakeError) -> None:
    """Says that no answer will come, unless nobody waits for it."""
    if not answer.done():
        answer.set_exception(error)
        if isinstance(answer, asyncio.Future):
            answer.exception()  # marks it as seen: who pipelines stops at the first failure and drops the rest
