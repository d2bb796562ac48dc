"""What a worker process keeps between leases: cluster clients. A cache only; nothing that matters lives here."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, cast, runtime_checkable

from mirrorlake.archive.ends.known_tails import KnownTails
from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import AppendChannel, BytesInFlight
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import BrokerUnreachableError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.stores.crash_points import CrashPoint, no_crash


@runtime_checkable
class Prolongable(Protocol):
    """What ends by itself some time before its lease does."""

    def prolong(self, seconds: float) -> None:
        """Lets it end so many seconds later."""
        ...


class Cancellable(Protocol):
    """What has tasks of its own."""

    async def cancel(self) -> None:
        """Gives up what is under way; returns when nothing goes on any more."""
        ...


@runtime_checkable
class Closable(Protocol):
    """What a worker keeps that has to be closed with it."""

    def close(self) -> None:
        """Closes it; never waits."""
        ...


KeptT = TypeVar("KeptT")


class Clients(Protocol):
    """What has a client of every cluster, and threads to look at stores: a worker, or one of its leases."""

    @property
    def store_threads(self) -> StoreThreads:
        """The worker's threads that wait for stores."""
        ...

    def client(self, settings: ClusterSettings) -> ClusterClient:
        """Returns the client of a cluster."""
        ...

    def kept(self, key: Hashable, make: Callable[[], KeptT]) -> KeptT:
        """Returns what the worker keeps under ``key`` between leases, made by the first who asks: a cache only."""
        ...


SharedT = TypeVar("SharedT", bound=Cancellable)


class WorkerCache:
    """Cluster clients of one worker process, by cluster name; they belong to one event loop.

    Args:
        crash_point: called before every step that touches a destination; for tests.
    """

    def __init__(self, crash_point: CrashPoint = no_crash) -> None:
        self.crash_point = crash_point
        self._clients: dict[str, ClusterClient] = {}
        self.encoder_thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._store_threads = StoreThreads()
        self._kept: dict[Hashable, object] = {}
        self.archive_tails = KnownTails()

    @property
    def store_threads(self) -> StoreThreads:
        """The threads that wait for the stores of archives."""
        return self._store_threads

    def kept(self, key: Hashable, make: Callable[[], KeptT]) -> KeptT:
        """Returns what is kept under ``key``, made by the first who asks."""
        if key not in self._kept:
            self._kept[key] = make()
        return cast(KeptT, self._kept[key])

    def client(self, settings: ClusterSettings) -> ClusterClient:
        """Returns the client of a cluster, made at first use."""
        if settings.name not in self._clients:
            self._clients[settings.name] = ClusterClient(settings)
        return self._clients[settings.name]

    def close_silent(self, seconds: float) -> None:
        """Closes the connections to a cluster of which one has owed an answer for so long."""
        for client in self._clients.values():
            client.close_if_silent(seconds)

    async def close(self) -> None:
        """Closes every client, and what is kept; the encoder and what is being published end by themselves."""
        for kept in self._kept.values():
            if isinstance(kept, Closable):
                kept.close()
        self._kept.clear()
        for client in self._clients.values():
            await client.close()
        self._clients.clear()
        self.encoder_thread.shutdown(wait=False, cancel_futures=True)
        self.store_threads.close()


class LeaseConnections:
    """The connections of one lease: produce channels and fetch connections are its own, clients are the worker's.

    Args:
        cache: the worker's clients.
        clock: for the channels.
        live_until_seconds: reading of the clock after which no gap is begun.
        send_until_seconds: reading of the clock after which no channel sends.
        memory_bytes_max: bound of all receive buffers of the lease together.
        receive_buffer_bytes: of one of them; above what one fetch answer holds.
    """

    def __init__(
        self,
        cache: WorkerCache,
        *,
        clock: Clock,
        live_until_seconds: float,
        send_until_seconds: float,
        memory_bytes_max: int,
        receive_buffer_bytes: int,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self.started_seconds = clock.elapsed_seconds()
        self.live_until_seconds = live_until_seconds
        self.send_until_seconds = send_until_seconds
        self._buffers = BufferPool(memory_bytes_max, receive_buffer_bytes)
        self._in_flight_bytes = BytesInFlight()
        self._channels: dict[tuple[str, int], asyncio.Future[AppendChannel]] = {}
        self._shared: dict[Hashable, Cancellable] = {}
        self._connections: list[Connection] = []

    @property
    def crash_point(self) -> CrashPoint:
        """The worker's crash point."""
        return self._cache.crash_point

    @property
    def encoder_thread(self) -> ThreadPoolExecutor:
        """The worker's one thread for decoding and writing archives."""
        return self._cache.encoder_thread

    @property
    def store_threads(self) -> StoreThreads:
        """The worker's threads that wait for the stores of archives."""
        return self._cache.store_threads

    @property
    def archive_tails(self) -> KnownTails:
        """Where the worker saw archives end."""
        return self._cache.archive_tails

    @property
    def memory_bytes_max(self) -> int:
        """What the lease's reading may take."""
        return self._buffers.total_bytes_max

    def kept(self, key: Hashable, make: Callable[[], KeptT]) -> KeptT:
        """Returns what the worker keeps under ``key``, made by the first who asks."""
        return self._cache.kept(key, make)

    def client(self, settings: ClusterSettings) -> ClusterClient:
        """Returns the worker's client of a cluster."""
        return self._cache.client(settings)

    def shared(self, key: Hashable, make: Callable[[], SharedT]) -> SharedT:
        """Returns what several sinks of the lease share under ``key``, made by the first of them that asks.

        It is cancelled when the lease ends, what was made last first.
        """
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = make()
        return cast(SharedT, known)

    async def channel(self, settings: ClusterSettings, broker: int) -> AppendChannel:
        """Returns the lease's produce channel to a broker; a closed one is replaced.

        Raises:
            MirrorlakeError: no connection.
        """
        key = (settings.name, broker)
        known = self._channels.get(key)
        if known is not None and known.done() and (known.cancelled() or known.exception() or known.result().is_closed):
            known = None
        if known is None:
            # Kept as a task, so that partitions asking at once share one connection.
            known = asyncio.ensure_future(self._open_channel(settings, broker))
            self._channels[key] = known
        return await asyncio.shield(known)

    async def _open_channel(self, settings: ClusterSettings, broker: int) -> AppendChannel:
        connection = await self._open(settings, broker)
        return AppendChannel(
            connection,
            clock=self._clock,
            send_until_seconds=self.send_until_seconds,
            timeout_seconds=settings.request_timeout_seconds,
            in_flight_bytes=self._in_flight_bytes,
        )

    async def fetch_connection(self, settings: ClusterSettings, broker: int) -> Connection:
        """Opens a connection for one reader.

        Raises:
            MirrorlakeError: no connection.
        """
        return await self._open(settings, broker)

    async def _open(self, settings: ClusterSettings, broker: int) -> Connection:
        address = (await self.client(settings).metadata([])).brokers.get(broker)
        if address is None:
            raise BrokerUnreachableError(
                f"cluster {settings.name!r} has no broker {broker} at the moment", cluster=settings.name, broker=broker
            )
        host, port = address
        connection = await Connection.open(host, port, settings=settings, buffers=self._buffers)
        self._connections.append(connection)
        return connection

    def prolong(self, seconds: float) -> None:
        """Lets everything of the lease end so many seconds later, as its driver has allowed it."""
        self.live_until_seconds += seconds
        self.send_until_seconds += seconds
        for opening in self._channels.values():
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().prolong(seconds)
        for shared in self._shared.values():
            if isinstance(shared, Prolongable):
                shared.prolong(seconds)

    async def end_lease(self) -> None:
        """Closes the lease's own connections: an answer that comes later belongs to no claim."""
        for shared in reversed(self._shared.values()):
            await shared.cancel()
        for task in self._channels.values():
            task.cancel()
        # Waited for, or a socket being opened would be left to the next lease, or to nobody. What failed is looked
        # at by this, so that the loop does not report it as lost.
        await asyncio.gather(*self._channels.values(), return_exceptions=True)
        for connection in self._connections:
            connection.close("the lease ended")
