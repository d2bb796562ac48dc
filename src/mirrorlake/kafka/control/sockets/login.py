"""The login of one connection: credentials are shown before all else, and again before the broker's session ends."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from mirrorlake.errors import MirrorlakeError, TokenUnavailableError
from mirrorlake.kafka.control.sockets.outgoing import Buffer
from mirrorlake.kafka.control.sockets.pending_requests import PendingRequest
from mirrorlake.kafka.security.sasl import authenticate
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings

REAUTHENTICATE_FACTOR: Final = 0.85
"""Of a session's lifetime: when credentials are shown again (KIP-368; Kafka's client takes 0.85 to 0.95)."""
REAUTHENTICATE_SECONDS_MIN: Final = 1.1
"""Brokers take one login per second on a connection (``KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS``)."""
TOKEN_RETRY_SECONDS: Final = 1.0
"""Pause before another try to re-authenticate where no token could be had and the session has not ended yet."""

LOGIN_APIS = frozenset({Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})

HeldRequest = tuple[PendingRequest, list[Buffer], int]
"""A request that was not sent yet, its pieces, and the bytes of all of them."""


class Send(Protocol):
    """What a login needs of its connection."""

    def __call__(
        self, api_key: int, api_version: int, body: Sequence[Buffer], /, *, timeout_seconds: float
    ) -> Awaitable[Frame]:
        """Sends a request and returns what its answer is awaited by."""
        ...


class Login:
    """What a broker was last shown on one connection, and which requests wait until it has been shown it again.

    Args:
        loop: the running one.
        settings: the broker's cluster's.
        address: the broker's, for messages.
        send: sends a request; one of ``LOGIN_APIS`` at once, whatever is held.
        put: puts a request on its way that was held.
        failed: told why the broker can be shown nothing; it ends the connection.

    Attributes:
        count: how often the broker has been shown credentials with success.
        due: reading of the loop's clock from which the next request shows them again; infinite without a limit.
        held: requests that wait while they are shown again; None while they are not.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ClusterSettings,
        address: str,
        *,
        send: Send,
        put: Callable[[PendingRequest, list[Buffer], int], None],
        failed: Callable[[MirrorlakeError], None],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._address = address
        self._send = send
        self._put = put
        self._failed = failed
        self.count = 0
        self.due = float("inf")
        self.held: deque[HeldRequest] | None = None
        self._session_ends = float("inf")
        self._again: asyncio.Task[None] | None = None

    @property
    def is_session_over(self) -> bool:
        """True where the broker answers to nothing but a login any more."""
        return self._loop.time() >= self._session_ends

    async def show(self, *, timeout_seconds: float) -> None:
        """Shows the credentials.

        Raises:
            UnsupportedError: the broker wants no SASL.
            AuthenticationFailedError: it refuses the credentials.
            TokenUnavailableError: the token endpoint does not answer; the broker was shown nothing.
            MirrorlakeError: the connection is lost, or its answer is none.
        """
        # The broker counts a session from its last answer, which may reach us late where the machine is busy; counted
        # from the request before it, ours never ends after the broker's.
        asked_at = self._loop.time()

        async def exchange(api: Api, version: int, body: Sequence[bytes]) -> Frame:
            nonlocal asked_at
            asked_at = self._loop.time()
            return await self._send(api, version, body, timeout_seconds=timeout_seconds)

        session_seconds = await authenticate(
            exchange,
            self._settings.security,
            cluster=self._settings.name,
            address=self._address,
            timeout_seconds=timeout_seconds,
        )
        self.count += 1
        if session_seconds is not None:
            self._session_ends = asked_at + session_seconds
            earliest = self._loop.time() + REAUTHENTICATE_SECONDS_MIN
            self.due = max(earliest, asked_at + REAUTHENTICATE_FACTOR * session_seconds)

    def begin_again(self) -> None:
        """Holds requests back and shows the credentials again (KIP-368); those on their way are answered before.

        Only ever begun by a request: a broker closes a connection not when its session ends, but at the first request
        after that, unless that one is SaslHandshake.
        """
        self.due = float("inf")
        self.held = deque()
        self._again = self._loop.create_task(self._show_again())

    async def _show_again(self) -> None:
        try:
            await self.show(timeout_seconds=self._settings.request_timeout_seconds)
        except TokenUnavailableError as error:
            if self.is_session_over:
                self._failed(error)
                return
            self.due = self._loop.time() + TOKEN_RETRY_SECONDS  # nothing was sent: the session goes on
        except MirrorlakeError as error:
            self._failed(error)
            return
        held, self.held = self.held, None
        for request in held or ():
            self._put(*request)

    def end(self) -> list[PendingRequest]:
        """Shows nothing any more; returns the requests that were held, which nobody sends."""
        if self._again is not None:
            self._again.cancel()
        held, self.held = self.held, None
        return [pending for pending, _, _ in held or ()]
