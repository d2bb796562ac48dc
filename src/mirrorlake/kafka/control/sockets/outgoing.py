"""Bytes that wait to be sent on a socket that does not block."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from mirrorlake.kafka.security.tls import TlsSocket

PARTS_PER_SEND: Final = 1024
"""IOV_MAX of Linux: how many pieces one sendmsg takes."""

Buffer = bytes | bytearray | memoryview


class Outgoing:
    """Sends what it is given in order, at once where the socket takes it, and the rest when it does.

    Args:
        sock: connected, and not blocking.
        loop: the running one.
        broken: called with what went wrong at the socket; it closes this.
    """

    def __init__(
        self, sock: socket.socket | TlsSocket, loop: asyncio.AbstractEventLoop, *, broken: Callable[[OSError], None]
    ) -> None:
        self._sock = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._loop = loop
        self._broken = broken
        self._unsent: deque[Buffer] = deque()
        self._held: list[Buffer] | None = None
        self._held_bytes = 0

    def hold(self) -> None:
        """Sends nothing until `flush`."""
        if self._held is None:
            self._held = []

    def flush(self) -> None:
        """Sends what was written since `hold`, as if it had been written at once. Without `hold` it does nothing."""
        held, self._held = self._held, None
        size, self._held_bytes = self._held_bytes, 0
        if held:
            self.write(held, size)

    def write(self, parts: list[Buffer], size: int) -> None:
        """Sends contiguous pieces behind all before them. They are not copied, and must not change until it is done.

        Args:
            parts: the pieces.
            size: bytes of all of them.
        """
        if self._held is not None:
            self._held += parts
            self._held_bytes += size
            return
        if self._unsent:
            self._unsent.extend(parts)
            return
        sent = self._send_some(parts[:PARTS_PER_SEND])
        if sent < 0 or (sent == size and not (self._tls is not None and self._tls.holds_unsent)):
            return
        self._unsent.extend(parts)
        self._drop_sent(sent)
        self._loop.add_writer(self._sock, self._on_writable)

    def close(self) -> None:
        """Forgets what was not sent; the socket is left to who owns it."""
        self._loop.remove_writer(self._sock)
        self._unsent.clear()
        self._held, self._held_bytes = None, 0

    def _on_writable(self) -> None:
        parts = [self._unsent[i] for i in range(min(PARTS_PER_SEND, len(self._unsent)))]
        sent = self._send_some(parts)
        if sent < 0:
            return
        self._drop_sent(sent)
        if not self._unsent and not (self._tls is not None and self._tls.holds_unsent):
            self._loop.remove_writer(self._sock)

    def _send_some(self, parts: list[Buffer]) -> int:
        """Returns how many bytes the socket took, below zero where it is broken."""
        try:
            return self._sock.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._broken(error)
            return -1

    def _drop_sent(self, sent: int) -> None:
        unsent = self._unsent
        while unsent and sent >= len(unsent[0]):
            sent -= len(unsent.popleft())
        if sent:
            unsent[0] = memoryview(unsent[0])[sent:]
