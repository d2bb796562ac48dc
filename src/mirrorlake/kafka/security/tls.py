"""TLS on a non-blocking socket: the handshake, and a socket look-alike that seals and opens what passes through.

OpenSSL works in memory here (``ssl.MemoryBIO``) and the system calls are ours: one for many TLS records instead of two
for each, and no rule that a write which could not be finished must be repeated with the very same bytes.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError, RequestTimeoutError
from mirrorlake.kafka.security.tls_errors import handshake_cut, tls_error

_RECORD_BYTES: Final = 16 << 10
"""The most one TLS record holds (RFC 8446 §5.1)."""
_INBOX_BYTES: Final = 128 << 10
"""What one system call receives at most."""
_SEAL_BYTES: Final = 256 << 10
"""Sealed at a time; bounds what waits for the socket in memory."""

Buffer = bytes | bytearray | memoryview


class TlsSocket:
    """What `Connection` needs of a socket, over TLS. Made by `open_tls`.

    Unlike a socket it can hold back received bytes and bytes to be sent: see `holds_received` and `holds_unsent`.
    """

    __slots__ = ("_inbox", "_incoming", "_object", "_outgoing", "_sock", "_unsent")

    def __init__(
        self, sock: socket.socket, tls_object: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._sock = sock
        self._object = tls_object
        self._incoming = incoming
        self._outgoing = outgoing
        self._inbox = bytearray(_INBOX_BYTES)
        self._unsent = memoryview(b"")

    def fileno(self) -> int:
        """For the event loop."""
        return self._sock.fileno()

    def close(self) -> None:
        """Closes the socket, without TLS's farewell: brokers do not look at it, and frames have lengths."""
        self._sock.close()

    @property
    def holds_received(self) -> bool:
        """Whether `recv_into` may return bytes although the socket has none: nothing will announce them."""
        return bool(self._object.pending() or self._incoming.pending)

    @property
    def holds_unsent(self) -> bool:
        """Whether sealed bytes wait for the socket; `sendmsg` sends them first."""
        return bool(self._unsent)

    def recv_into(self, room: memoryview) -> int:
        """Fills the room as far as bytes are there; fewer than asked for means that the socket is drained.

        Returns:
            The number of bytes; 0 where the peer has closed.

        Raises:
            BlockingIOError: nothing is there.
            OSError: the connection broke, `ssl.SSLError` included.
        """
        wanted, filled = len(room), 0
        read = self._object.read
        while filled < wanted:
            try:
                with room[filled:] as rest:
                    # With a buffer it returns how many bytes; its annotations know the form without one only.
                    got = int(read(wanted - filled, rest))
            except ssl.SSLWantReadError:
                if not self._receive(is_wanted=not filled):
                    break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            else:
                if not got:
                    break
                filled += got
        return filled

    def _receive(self, *, is_wanted: bool) -> bool:
        """Takes in what the socket has; False where it has nothing, and nothing is ``is_wanted`` badly."""
        try:
            got = self._sock.recv_into(self._inbox)
        except (BlockingIOError, InterruptedError):
            if is_wanted:
                raise
            return False
        if got:
            with memoryview(self._inbox)[:got] as received:
                self._incoming.write(received)
        else:
            self._incoming.write_eof()
        return True

    def sendmsg(self, parts: Sequence[Buffer]) -> int:
        """Seals and sends parts, as many as may be held in memory, after what waits already.

        Returns:
            The number of bytes taken over; they need not be sent yet, see `holds_unsent`.

        Raises:
            BlockingIOError: none could be taken over.
            OSError: the connection broke.
        """
        if self._unsent:
            self._flush()
            if self._unsent:
                raise BlockingIOError
        taken = 0
        small: list[Buffer] = []
        small_bytes = 0
        for part in parts:
            # Each write makes a TLS record at least: a header of 40 bytes should not have one for itself.
            if small_bytes + len(part) <= _RECORD_BYTES:
                small.append(part)
                small_bytes += len(part)
                continue
            taken += self._seal(small)
            small, small_bytes = [], 0
            for start in range(0, len(part), _SEAL_BYTES):
                whole = len(part) <= _SEAL_BYTES
                taken += self._object.write(part if whole else memoryview(part)[start : start + _SEAL_BYTES])
                if self._outgoing.pending >= _SEAL_BYTES:
                    self._flush()
                    if self._unsent:
                        return taken
        taken += self._seal(small)
        self._flush()
        return taken

    def _seal(self, small: list[Buffer]) -> int:
        if not small:
            return 0
        return self._object.write(small[0] if len(small) == 1 else b"".join(small))

    def _flush(self) -> None:
        if not self._unsent:
            self._unsent = memoryview(self._outgoing.read())
        while self._unsent:
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            self._unsent = self._unsent[sent:]
            if not self._unsent and self._outgoing.pending:
                self._unsent = memoryview(self._outgoing.read())


async def open_tls(
    sock: socket.socket, host: str, *, context: ssl.SSLContext, cluster: str, address: str, timeout_seconds: float
) -> TlsSocket:
    """Returns the socket with TLS on it, after the handshake. The socket stays the caller's to close on an error.

    Args:
        sock: connected and non-blocking.
        host: what the certificate must name, and what is asked for by SNI.
        context: whom to trust and what to show.
        cluster: for messages.
        address: for messages.
        timeout_seconds: for all of it.

    Raises:
        UntrustedBrokerError: the broker's certificate is refused by us.
        AuthenticationFailedError: our certificate, or its absence, is refused by the broker.
        NotKafkaError: something answered that does not speak TLS.
        UnsupportedError: no common version or cipher.
        BrokerUnreachableError: closed meanwhile.
        RequestTimeoutError: silence.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls_object = context.wrap_bio(incoming, outgoing, server_side=False, server_hostname=host)
    try:
        async with asyncio.timeout(timeout_seconds):
            await _shake_hands(sock, tls_object, incoming, outgoing)
    except TimeoutError:
        raise RequestTimeoutError(
            f"{address} of cluster {cluster!r} accepted the connection and stayed silent in the TLS handshake for "
            f"{timeout_seconds:g} s",
            hint="the broker hangs, or the listener does not speak TLS: compare security.protocol with its listeners",
            cluster=cluster,
            address=address,
        ) from None
    except ssl.SSLError as error:
        raise tls_error(error, cluster=cluster, address=address) from None
    except OSError as error:
        raise _cut(error, cluster=cluster, address=address) from None
    return TlsSocket(sock, tls_object, incoming, outgoing)


async def _shake_hands(
    sock: socket.socket, tls_object: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            tls_object.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # The alert that says why is for the broker's log.
            await loop.sock_sendall(sock, outgoing.read())
            raise
        else:
            await loop.sock_sendall(sock, outgoing.read())
            return
        await loop.sock_sendall(sock, outgoing.read())
        received = await loop.sock_recv(sock, _INBOX_BYTES)
        if not received:
            raise ConnectionAbortedError
        incoming.write(received)


def _cut(error: OSError, *, cluster: str, address: str) -> MirrorlakeError:
    if isinstance(error, ConnectionAbortedError | ConnectionResetError | BrokenPipeError):
        return handshake_cut(cluster=cluster, address=address)
    return BrokerUnreachableError(
        f"connection to {address} of cluster {cluster!r} lost in the TLS handshake: {error.strerror or error}",
        cluster=cluster,
        address=address,
    )
