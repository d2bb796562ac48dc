"""One connection to one broker: requests go out in order, answers come back in order, the loop never blocks.

Our own non-blocking socket on the event loop instead of asyncio's streams, because a mirror lives from not
copying: frames are received straight into pooled buffers and batches are sent straight out of them.
"""

import asyncio
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final

from mirrorlake.errors import (
    BrokerUnreachableError,
    MirrorlakeError,
    RequestTimeoutError,
    UnsupportedError,
)
from mirrorlake.kafka.control.sockets.connection_errors import garbled_error, lost_error, unsupported_error
from mirrorlake.kafka.control.sockets.dial import dial
from mirrorlake.kafka.control.sockets.login import LOGIN_APIS, Login
from mirrorlake.kafka.control.sockets.outgoing import Buffer, Outgoing
from mirrorlake.kafka.control.sockets.pending_requests import (
    Answer,
    PendingRequest,
    PendingRequests,
    TakenAtOnce,
    fail_answer,
)
from mirrorlake.kafka.security.tls import TlsSocket, open_tls
from mirrorlake.kafka.security.tls_context import tls_context
from mirrorlake.kafka.security.tls_errors import tls_error
from mirrorlake.kafka.wire.apis import FLEXIBLE_SINCE, VERSION_CAPS, VERSION_FLOORS, Api, lacks
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.frame_reader import FrameReader
from mirrorlake.kafka.wire.handshake import decode_api_versions
from mirrorlake.kafka.wire.settings import ClusterSettings, format_server

RECEIVE_BYTES_PER_TURN: Final = 1 << 20
"""How much one connection reads before the others have their turn."""
WAKE_BYTES_MAX: Final = 512 << 10
"""How much of a large frame may gather in the kernel before we are woken for it; it comes in many small pieces."""
WAKE_BYTES_MIN: Final = 64 << 10
"""For less than this we are woken at the first byte: to say otherwise costs a system call, and one to take it back."""

_HEADER = struct.Struct(">ihhih")
_CORRELATION_ID_MAX = 0x7FFF_FFFF


class Connection:
    """An open connection to a broker; made by `open`, used from one event loop only.

    Brokers handle the requests of one connection one after the other, so a fetch that waits for data holds up
    everything behind it: control requests belong on another connection.

    Attributes:
        host: the broker's name or address, as it was asked for.
        port: its port.
        versions: lowest and highest version the broker knows, by API key.
        login: what the broker was last shown, and when it is shown that again.
    """

    def __init__(
        self, sock: socket.socket | TlsSocket, host: str, port: int, *, settings: ClusterSettings, buffers: BufferPool
    ) -> None:
        self.host = host
        self.port = port
        self.versions: Mapping[int, tuple[int, int]] = {Api.API_VERSIONS: (0, 0)}
        self._client_id = settings.client_id.encode("ascii")
        self._frame_bytes_max = buffers.frame_bytes_max
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._settings = settings
        self._is_greeted = False  # whether the peer has shown that it speaks Kafka
        self._close_reason: MirrorlakeError | None = None
        self._correlation_id = 0
        self._outgoing = Outgoing(sock, self._loop, broken=self._broken)
        self._reader = FrameReader(buffers, deliver=self._deliver, refuse=self._refuse_frame, resume=self._resume)
        self._pending = PendingRequests(
            self._loop,
            address=self.address,
            is_paused=lambda: self._reader.is_waiting,
            overdue=lambda: self.close("an earlier request was not answered in time"),
        )
        self.login = Login(self._loop, settings, self.address, send=self.send, put=self._put_held, failed=self._fail)
        self._paused_at = 0.0
        self._wakes_at_bytes = 1
        self._awaited_bytes: Callable[[], int] | None = None
        self._loop.add_reader(sock, self._on_readable)

    # -- life -----------------------------------------------------------------------------------------------

    @classmethod
    async def open(cls, host: str, port: int, *, settings: ClusterSettings, buffers: BufferPool) -> "Connection":
        """Connects, with TLS where it is set, asks the peer which APIs it knows, and logs in where SASL is set.

        Raises:
            BrokerUnreachableError: no address, no connection, or closed before an answer.
            RequestTimeoutError: connected, but silent.
            NotKafkaError: something else answered.
            UnsupportedError: the peer does not know ApiVersions, has no TLS version in common, or wants no SASL.
            UntrustedBrokerError: its certificate is not one to trust.
            AuthenticationFailedError: it refuses the credentials.
            TokenUnavailableError: the token endpoint does not answer.
            ConfigurationError: a file with a certificate, key or secret cannot be used.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + settings.connect_timeout_seconds
        sock = await dial(host, port, timeout_seconds=settings.connect_timeout_seconds)
        secured = await _secured(sock, host, port, settings, timeout_seconds=max(0.1, ends - loop.time()))
        connection = cls(secured, host, port, settings=settings, buffers=buffers)
        try:
            left = max(0.1, ends - loop.time())
            with await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=left) as frame:
                connection.versions = decode_api_versions(frame.view, peer=connection.address)
                connection._is_greeted = True
            if settings.security.sasl is not None:
                await connection.login.show(timeout_seconds=max(0.1, ends - loop.time()))
        except BaseException as error:
            connection.close("the handshake failed")
            if isinstance(error, RequestTimeoutError):
                raise RequestTimeoutError(
                    f"{connection.address} accepted the connection and stayed silent for "
                    f"{settings.connect_timeout_seconds:g} s",
                    hint="the broker hangs, or the port belongs to something that waits to be spoken to",
                    address=connection.address,
                ) from None
            raise
        return connection

    @property
    def address(self) -> str:
        """``host:port``."""
        return format_server(self.host, self.port)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._close_reason is not None

    @property
    def in_flight(self) -> int:
        """Number of requests without an answer."""
        return len(self._pending) + len(self.login.held or ())

    @property
    def silent_seconds(self) -> float:
        """For how long the oldest request without an answer has waited for it; 0 where all are answered."""
        first = self._pending.first
        return 0.0 if first is None else self._loop.time() - first.sent_at

    def close(self, reason: str) -> None:
        """Closes at once. Idempotent. Every request without an answer fails with BrokerUnreachableError."""
        self._fail(BrokerUnreachableError(f"connection to {self.address} closed: {reason}", address=self.address))

    def version(self, api: Api) -> int:
        """Returns the highest version of an API that both sides know and that is not above our cap.

        Raises:
            UnsupportedError: the broker lacks the API, or every version that carries what is needed.
        """
        if lacks(self.versions, api):
            raise self.unsupported(api)
        return min(self.versions[api][1], VERSION_CAPS[api])

    def knows(self, api: Api, version: int) -> bool:
        """Tells whether the broker knows a version of an API; one above our cap is for who has a reason to send it."""
        lowest, highest = self.versions.get(api, (0, -1))
        return lowest <= version <= highest

    def unsupported(self, api: Api) -> UnsupportedError:
        """Returns the error that says which versions of an API are needed, and what the broker knows instead."""
        floor, cap = VERSION_FLOORS[api], VERSION_CAPS[api]
        return self._unsupported(api, f"{floor} to {cap}" if floor < cap else str(cap))

    def _unsupported(self, api: int, wanted: str) -> UnsupportedError:
        return unsupported_error(self.address, api, wanted, self.versions.get(api))

    # -- sending --------------------------------------------------------------------------------------------

    async def request(self, api_key: int, api_version: int, body: Sequence[Buffer], *, timeout_seconds: float) -> Frame:
        """Sends a request and waits for its answer.

        See `send`. Cancelling gives the answer up, not the connection.

        Raises:
            BrokerUnreachableError: the connection is closed, or broke before the answer.
            RequestTimeoutError: no answer in time; the connection is closed then, as answers come in order.
            UnsupportedError: the broker does not know this version.
        """
        return await self.send(api_key, api_version, body, timeout_seconds=timeout_seconds)

    def send(
        self, api_key: int, api_version: int, body: Sequence[Buffer], *, timeout_seconds: float
    ) -> "asyncio.Future[Frame]":
        """Queues a request behind those before it and returns the future of its answer.

        The order of calls is the order on the wire. The parts of the body are not copied: they must not
        change until the answer is there (or the connection closed).

        Args:
            api_key: see `Api`.
            api_version: must lie in what the broker knows.
            body: contiguous pieces of bytes, sent one after the other.
            timeout_seconds: time for sending and answering. Time in which we ourselves had no buffer for an
                answer is not counted, nor is time in which the event loop stood still.

        Raises:
            BrokerUnreachableError: the connection is closed already; nothing was sent.
            UnsupportedError: the broker does not know this version; nothing was sent.
        """
        answer: asyncio.Future[Frame] = self._loop.create_future()
        self._queue(answer, api_key, api_version, body, timeout_seconds=timeout_seconds)
        return answer

    def send_for(
        self,
        api_key: int,
        api_version: int,
        body: Sequence[Buffer],
        *,
        timeout_seconds: float,
        taken: Callable[[Frame], None],
        lost: Callable[[MirrorlakeError], None],
    ) -> None:
        """Queues a request as `send` does; one of ``taken`` and ``lost`` is called, once, when its outcome is known.

        For who sends many: a future costs a turn of the loop for each answer.

        Args:
            api_key: see `send`.
            api_version: see `send`.
            body: see `send`.
            timeout_seconds: see `send`.
            taken: gets the answer, which it must release, while the connection is being read: it may send, must be
                quick, and must not raise.
            lost: gets the error that a future would have had, never from inside a call of this connection.

        Raises:
            BrokerUnreachableError: see `send`; neither is called then.
            UnsupportedError: see `send`; neither is called then.
        """
        answer = TakenAtOnce(self._loop, taken, lost)
        self._queue(answer, api_key, api_version, body, timeout_seconds=timeout_seconds)

    def _queue(
        self, answer: Answer, api_key: int, api_version: int, body: Sequence[Buffer], *, timeout_seconds: float
    ) -> None:
        if self._close_reason is not None:
            raise BrokerUnreachableError(f"not sent: {self._close_reason.message}", address=self.address)
        lowest, highest = self.versions.get(api_key, (0, -1))
        if not lowest <= api_version <= highest:
            raise self._unsupported(api_key, str(api_version))
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        is_flexible = api_version >= FLEXIBLE_SINCE[api_key]
        client_id = self._client_id + b"\0" if is_flexible else self._client_id
        size = 10 + len(client_id) + sum(map(len, body))
        header = _HEADER.pack(size, api_key, api_version, correlation_id, len(self._client_id)) + client_id
        now = self._loop.time()
        if now >= self.login.due:
            self.login.begin_again()
        pending = PendingRequest(correlation_id, api_key, is_flexible, now, now + timeout_seconds, answer)
        if self.login.held is not None and api_key not in LOGIN_APIS:
            self.login.held.append((pending, [header, *body], size + 4))
        else:
            self._put(pending, [header, *body], size + 4)

    def hold(self) -> None:
        """Sends nothing until `flush`: requests queued in between then go with one system call."""
        self._outgoing.hold()

    def flush(self) -> None:
        """Sends what was queued since `hold`."""
        self._outgoing.flush()

    def _put(self, pending: PendingRequest, parts: list[Buffer], size: int) -> None:
        self._pending.put(pending)
        self._outgoing.write(parts, size)

    def _put_held(self, pending: PendingRequest, parts: list[Buffer], size: int) -> None:
        if self._close_reason is None:
            self._put(pending, parts, size)
        else:  # one of those before has met its end
            fail_answer(pending.answer, copy(self._close_reason))

    # -- receiving ------------------------------------------------------------------------------------------

    def wake_after(self, awaited_bytes: Callable[[], int]) -> None:
        """Lets answers gather in the kernel.

        Args:
            awaited_bytes: returns how many bytes are to be there before they are received; 1 for any. It is asked
                whenever something was received, and by `set_wake`. More than are to come means that nothing is
                received, so whoever asks for more than one needs a clock of its own.
        """
        self._awaited_bytes = awaited_bytes

    def set_wake(self) -> None:
        """Asks anew how many bytes are awaited, see `wake_after`; what is there already may be received then."""
        self._wake_for(self._reader.missing_bytes)

    def _on_readable(self) -> None:
        budget = RECEIVE_BYTES_PER_TURN
        reader = self._reader
        try:
            while budget > 0 and self._close_reason is None:
                room = reader.room()
                wanted = len(room)
                got = self._sock.recv_into(room)
                if not got:
                    self._broken(None)
                    return
                is_drained = got < wanted
                reader.received(got)
                if reader.is_waiting:
                    # Back-pressure: what the broker sends stays in the kernel, then in the broker, until a buffer
                    # is released.
                    self._paused_at = self._loop.time()
                    self._loop.remove_reader(self._sock)
                    return
                if is_drained:
                    break  # the socket is empty; asking again would cost a system call to hear so
                budget -= got
            else:
                self._go_on_soon()
            self._wake_for(reader.missing_bytes)
        except (BlockingIOError, InterruptedError):
            self._wake_for(reader.missing_bytes)
        except OSError as error:
            self._broken(error)

    def _wake_for(self, missing_bytes: int) -> None:
        """Asks the kernel to wake us not before so much is there, at most ``WAKE_BYTES_MAX``, of a frame under way.

        Linux wakes us earlier where its buffers cannot hold that much (``tcp_epollin_ready`` in net/tcp.h), at an error
        and at the end; of other systems we do not know. With TLS it is not known how much is missing on the wire.
        """
        bytes_min = 1
        if missing_bytes >= WAKE_BYTES_MIN:
            bytes_min = min(missing_bytes, WAKE_BYTES_MAX)
        elif self._awaited_bytes is not None and self._reader.is_between_frames:
            bytes_min = self._awaited_bytes()
        if bytes_min == self._wakes_at_bytes or self._close_reason is not None:
            return
        if sys.platform != "linux" or isinstance(self._sock, TlsSocket):
            return
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, bytes_min)
        self._wakes_at_bytes = bytes_min

    def _resume(self) -> None:
        paused_seconds = self._loop.time() - self._paused_at
        self._pending.extend(paused_seconds)
        self._wake_for(self._reader.missing_bytes)
        self._loop.add_reader(self._sock, self._on_readable)
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        """Comes back for what TLS holds already: no event of the socket will tell of it."""
        if self._tls is not None and self._close_reason is None and self._tls.holds_received:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._close_reason is None and not self._reader.is_waiting:
            self._on_readable()

    def _deliver(self, correlation_id: int, frame: Frame) -> None:
        pending = self._pending.take()
        if pending is None or pending.correlation_id != correlation_id:
            expected = f"number {pending.correlation_id}" if pending else "none"
            if pending is not None:
                self._pending.give_back(pending)
            start = bytes(frame.view[:64])
            frame.release()
            self._garbled(f"answer number {correlation_id} came, expected was {expected}", start)
        elif pending.answer.done():  # given up by whoever asked
            frame.release()
        elif pending.is_flexible and not frame.skip_tagged_fields():
            frame.release()
            self._pending.give_back(pending)
            self._garbled("the header of an answer is cut", b"")
        else:
            pending.answer.set_result(frame)

    # -- endings --------------------------------------------------------------------------------------------

    def _refuse_frame(self, size: int, start: bytes) -> None:
        largest = self._frame_bytes_max
        self._garbled(f"a frame of {size} bytes was announced (accepted are 4 to {largest})", start)

    def _garbled(self, what: str, start: bytes) -> None:
        """Ends a connection of senseless bytes."""
        self._fail(garbled_error(self.address, what, start, is_greeted=self._is_greeted))

    def _broken(self, error: OSError | None) -> None:
        if isinstance(error, ssl.SSLError):
            self._fail(tls_error(error, cluster=self._settings.name, address=self.address))
            return
        # Brokers answer ApiVersions to everybody, and hang up at the first other request without a login.
        first = self._pending.first
        self._fail(
            lost_error(
                self.address,
                self._settings,
                error,
                is_greeted=self._is_greeted,
                is_first_request=first is not None and first.correlation_id == 2,
                is_session_over=self.login.is_session_over,
            )
        )

    def _fail(self, error: MirrorlakeError) -> None:
        if self._close_reason is not None:
            return
        self._close_reason = error
        self._awaited_bytes = None  # whoever gave it holds this connection, and its buffers
        self._pending.stop()
        self._loop.remove_reader(self._sock)
        self._outgoing.close()
        self._sock.close()
        self._reader.close()
        for pending in self.login.end():
            fail_answer(pending.answer, copy(error))
        self._pending.fail_all(error)


async def _secured(
    sock: socket.socket, host: str, port: int, settings: ClusterSettings, *, timeout_seconds: float
) -> socket.socket | TlsSocket:
    """Returns the socket, with TLS on it where the settings want that; closes it where that fails."""
    if not settings.security.protocol.is_encrypted:
        return sock
    try:
        return await open_tls(
            sock,
            host,
            context=tls_context(settings.name, settings.security.tls),
            cluster=settings.name,
            address=format_server(host, port),
            timeout_seconds=timeout_seconds,
        )
    except BaseException:
        sock.close()
        raise
