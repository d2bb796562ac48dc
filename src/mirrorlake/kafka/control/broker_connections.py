"""Open connections by broker and use, reconnected when needed and never in a hurry."""

import asyncio
from collections import Counter
from copy import copy

from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.settings import ClusterSettings

RECONNECT_SECONDS_MIN = 0.05
"""Pause before a broker is dialled again, doubled by each failure."""
RECONNECT_SECONDS_MAX = 2.0
"""Longest pause: short against a lease, long against the cost of a refused connection."""


class _Slot:
    """The connection of one broker and use, if any, and when another may be tried."""

    __slots__ = ("attempted", "connection", "failure", "failures", "lock", "not_before")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.attempted = float("-inf")
        self.failure: MirrorlakeError | None = None
        self.failures = 0
        self.lock = asyncio.Lock()
        self.not_before = 0.0


class BrokerConnections:
    """Connections of one cluster, at most one per broker and use.

    Args:
        settings: of the cluster.
        buffers: what all of them receive into.
    """

    def __init__(self, settings: ClusterSettings, buffers: BufferPool) -> None:
        self._settings = settings
        self._buffers = buffers
        self._slots: dict[tuple[int, str], _Slot] = {}
        self._is_closed = False
        self._made: Counter[str] = Counter()

    def made(self, use: str) -> int:
        """Returns how many connections of a use were ever opened."""
        return self._made[use]

    def find_open(self, use: str) -> Connection | None:
        """Returns any open connection of a use, or None."""
        for (_, its_use), slot in self._slots.items():
            if its_use == use and slot.connection is not None and not slot.connection.closed:
                return slot.connection
        return None

    async def get(self, broker_id: int, use: str, host: str, port: int) -> Connection:
        """Returns the open connection of a broker and use, or opens it.

        Who finds it closed waits out the pause since the last attempt and dials once; all who came before
        that attempt began share what it brings.

        Raises:
            MirrorlakeError: as `Connection.open` has it.
        """
        slot = self._slots.setdefault((broker_id, use), _Slot())
        called = asyncio.get_running_loop().time()
        async with slot.lock:
            if slot.failure is not None and slot.attempted >= called:
                raise copy(slot.failure)
            connection = slot.connection
            if connection is not None and not connection.closed:
                if (connection.host, connection.port) == (host, port):
                    return connection
                connection.close(f"broker {broker_id} has moved to {host}:{port}")
            slot.connection = await self._open(slot, use, host, port)
            return slot.connection

    async def _open(self, slot: _Slot, use: str, host: str, port: int) -> Connection:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, slot.not_before - loop.time()))
        slot.attempted = loop.time()
        slot.failure = None
        try:
            connection = await self.open_unnamed(host, port)
        except MirrorlakeError as error:
            slot.failure = copy(error)
            pause = min(RECONNECT_SECONDS_MAX, RECONNECT_SECONDS_MIN * 2 ** min(slot.failures, 10))
            slot.failures += 1
            slot.not_before = loop.time() + pause
            raise
        slot.failures = 0
        self._made[use] += 1
        # A broker may accept and hang up at once: a pause after a success keeps that from becoming a busy
        # loop.
        slot.not_before = loop.time() + RECONNECT_SECONDS_MIN
        return connection

    async def open_unnamed(self, host: str, port: int) -> Connection:
        """Opens a connection that belongs to the caller, as to a bootstrap server.

        Raises:
            MirrorlakeError: as `Connection.open` has it; BrokerUnreachableError after `close`.
        """
        connection = await Connection.open(host, port, settings=self._settings, buffers=self._buffers)
        if self._is_closed:
            connection.close("the client was closed")
            raise BrokerUnreachableError("the client was closed", cluster=self._settings.name)
        return connection

    def open_ones(self) -> list[Connection]:
        """Returns what is open."""
        found = [slot.connection for slot in self._slots.values() if slot.connection is not None]
        return [connection for connection in found if not connection.closed]

    def close(self) -> None:
        """Closes all. Idempotent."""
        self._is_closed = True
        for slot in self._slots.values():
            if slot.connection is not None:
                slot.connection.close("the client was closed")
