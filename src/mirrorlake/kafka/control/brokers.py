"""The brokers of one cluster: found from bootstrap servers, asked about metadata, connected to by id."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

from mirrorlake.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    MirrorlakeError,
    PermanentError,
    TransientError,
    UnsupportedError,
)
from mirrorlake.kafka.control.broker_connections import BrokerConnections
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.control_requests import ControlRequest, metadata_request
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.kafka.control.metadata import MetadataCache
from mirrorlake.kafka.control.repeated_offsets import RepeatedOffsets
from mirrorlake.kafka.wire.apis import Api, lacks
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.settings import ClusterSettings, format_server, parse_server
from mirrorlake.together import all_of

T = TypeVar("T")

CONTROL = "control"
"""The use of connections for short requests; a fetch that waits must never be in their way."""
REFRESH_SECONDS_MIN = 0.1
"""Time between two requests for metadata of a topic: all partitions of a dead broker ask at once, and ask again."""
REFRESHES_MAX = 4
"""How many requests for metadata, of other topics each, may be made within `REFRESH_SECONDS_MIN`."""
_DIAL_NEXT_SECONDS = 1.0
"""How long one bootstrap server may stay silent before the next one is dialled beside it."""


class Brokers:
    """Finds and connects to the brokers of a cluster, and knows its metadata.

    Args:
        settings: of the cluster.
        buffers: what its connections receive into.
    """

    def __init__(self, settings: ClusterSettings, buffers: BufferPool) -> None:
        self.settings = settings
        self.repeated_offsets = RepeatedOffsets()
        self._connections = BrokerConnections(settings, buffers)
        self._bootstrap: Connection | None = None
        self._cache = MetadataCache()
        self._is_stale = False
        self._refresh_lock = asyncio.Lock()
        self._wanted: dict[str, None] | None = {}
        # When metadata was asked for within the last moment, and of which topics; None for all.
        self._recent: list[tuple[float, frozenset[str] | None]] = []
        # Numbers, not times: a loop's clock may stand still between a request and a call that came after it.
        self._refreshes_begun = self._refresh_settled = 0
        self._refresh_failure: MirrorlakeError | None = None

    def close_if_silent(self, seconds: float) -> None:
        """Closes all connections where a request on one has waited for an answer for so long; the next call dials anew.

        All: what makes one silent may have happened to those that nobody has asked anything since.
        """
        connections = self._connections.open_ones()
        if self._bootstrap is not None:
            connections.append(self._bootstrap)
        if max([connection.silent_seconds for connection in connections], default=0.0) >= seconds:
            for connection in connections:
                connection.close("the broker, or another one of its cluster, was silent")

    def close(self) -> None:
        """Closes all connections. Idempotent."""
        self._connections.close()
        if self._bootstrap is not None:
            self._bootstrap.close("the client was closed")

    # -- metadata -------------------------------------------------------------------------------------------

    async def metadata(self, topics: Sequence[str] | None = None, *, refresh: bool = False) -> ClusterMetadata:
        """See `ClusterClient.metadata`."""
        begun_before = self._refreshes_begun
        if not refresh and not self._is_stale and (known := self._cache.cached(topics)) is not None:
            return known
        self._want(topics)
        async with self._refresh_lock:
            # Whoever waited for the lock takes what was asked for after its own call began, its topics among it.
            if self._refresh_settled <= begun_before:
                await self._refresh()
            elif self._refresh_failure is not None:
                raise copy(self._refresh_failure)
        return self._cache.narrow(topics)

    def _want(self, topics: Sequence[str] | None) -> None:
        """Makes topics part of the next request; None stands for all of them."""
        if topics is None:
            self._wanted = None
        elif self._wanted is not None:
            self._wanted |= dict.fromkeys(topics)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        pause_seconds = self._pause_seconds(loop.time())
        if self._cache.known.brokers:
            await asyncio.sleep(pause_seconds)
        self._refreshes_begun += 1
        topics = None if self._wanted is None else list(self._wanted)
        self._recent.append((loop.time(), None if topics is None else frozenset(topics)))
        self._wanted, self._refresh_failure = {}, None
        try:
            answer = await self.ask_any(metadata_request(topics))
        except MirrorlakeError as error:
            self._refresh_failure = copy(error)
            self._refresh_settled = self._refreshes_begun
            raise
        except asyncio.CancelledError:
            self._want(topics)  # others may be waiting for them
            raise
        self._refresh_settled = self._refreshes_begun
        self._cache.merge(answer, topics)
        self._is_stale = False

    def _pause_seconds(self, now: float) -> float:
        """Returns how long to wait before what is wanted is asked for: nothing for topics that just now were not."""
        self._recent = [each for each in self._recent if each[0] > now - REFRESH_SECONDS_MIN]
        wanted = self._wanted
        is_new = bool(wanted) and all(asked is not None and asked.isdisjoint(wanted or ()) for _, asked in self._recent)
        if not self._recent or (is_new and len(self._recent) < REFRESHES_MAX):
            return 0.0
        return self._recent[-1][0] + REFRESH_SECONDS_MIN - now

    def mark_stale(self) -> None:
        """Makes the next `metadata` ask again: a leader or a coordinator was not where it was said to be."""
        self._is_stale = True

    def forget_topic(self, name: str) -> None:
        """Forgets a topic that was deleted."""
        self._cache.forget(name)

    # -- connections ----------------------------------------------------------------------------------------

    @property
    def control_connections_made(self) -> int:
        """How many connections for short requests were opened to brokers that are known by their ids."""
        return self._connections.made(CONTROL)

    async def connection(self, broker_id: int, use: str) -> Connection:
        """See `ClusterClient.connection`."""
        address = self._cache.known.brokers.get(broker_id)
        if address is None:
            address = (await self.metadata((), refresh=True)).brokers.get(broker_id)
        if address is None:
            raise BrokerUnreachableError(
                f"cluster {self.settings.name!r} has no broker {broker_id} at the moment",
                cluster=self.settings.name,
                broker=broker_id,
            )
        try:
            return await self._connections.get(broker_id, use, *address)
        except BrokerUnreachableError as error:
            self.mark_stale()
            raise BrokerUnreachableError(
                f"broker {broker_id} of cluster {self.settings.name!r}: {error.message}",
                hint="it is down, or its advertised.listeners cannot be reached from here",
                cluster=self.settings.name,
                broker=broker_id,
                address=format_server(*address),
            ) from error
        except TransientError:
            self.mark_stale()
            raise

    async def ask(self, broker_id: int, request: ControlRequest[T]) -> T:
        """Asks one broker, with the cluster's request timeout."""
        connection = await self.connection(broker_id, CONTROL)
        return await request.ask(connection, timeout_seconds=self.settings.request_timeout_seconds)

    async def lacking(self, apis: Sequence[Api]) -> dict[Api, UnsupportedError]:
        """See `ClusterClient.lacking`."""
        broker_ids = (await self.metadata(())).brokers
        found = await all_of(map(self._connection_or_error, broker_ids))
        connections = [each for each in found if isinstance(each, Connection)]
        for each in found:
            if not connections and isinstance(each, MirrorlakeError):
                raise each
        return {
            api: connection.unsupported(api)
            for connection in connections
            for api in apis
            if lacks(connection.versions, api)
        }

    async def _connection_or_error(self, broker_id: int) -> Connection | MirrorlakeError:
        try:
            return await self.connection(broker_id, CONTROL)
        except MirrorlakeError as error:
            return error

    async def ask_any(self, request: ControlRequest[T]) -> T:
        """Asks whichever broker answers.

        Raises:
            MirrorlakeError: none did; of one kind where all failed alike, else BrokerUnreachableError, naming
                all.
        """
        timeout_seconds = self.settings.request_timeout_seconds
        connection = self._connections.find_open(CONTROL) or self._bootstrap
        if connection is not None and not connection.closed:
            try:
                return await request.ask(connection, timeout_seconds=timeout_seconds)
            except TransientError:
                connection.close("it did not answer")
        known = self._cache.known.brokers.values()
        servers = [*known, *map(parse_server, self.settings.bootstrap_servers)]
        opened = await self._open_first(list(dict.fromkeys(servers)))
        if self._bootstrap is not None and not self._bootstrap.closed:
            opened.close("another request had opened one meanwhile")  # nobody would close it later
        else:
            self._bootstrap = opened
        return await request.ask(self._bootstrap, timeout_seconds=timeout_seconds)

    async def ask_controller(self, request: ControlRequest[T]) -> T:
        """Asks the broker that takes requests for the controller."""
        controller_id = (await self.metadata(())).controller_id
        return await (self.ask(controller_id, request) if controller_id >= 0 else self.ask_any(request))

    async def _open_first(self, servers: Sequence[tuple[str, int]]) -> Connection:
        """Returns the first to answer; a silent one does not hold up the next."""
        failures: dict[str, MirrorlakeError] = {}

        async def attempt(host: str, port: int) -> Connection | None:
            try:
                return await self._connections.open_unnamed(host, port)
            except MirrorlakeError as error:
                failures[format_server(host, port)] = error
                return None

        connection = await first_result(
            [partial(attempt, host, port) for host, port in servers],
            next_after_seconds=_DIAL_NEXT_SECONDS,
            discard=lambda unused: unused.close("another server answered first"),
        )
        if connection is None:
            raise none_answered(self.settings.name, failures)
        return connection


def none_answered(cluster: str, failures: dict[str, MirrorlakeError]) -> MirrorlakeError:
    """Returns the error of a cluster of which no server could be used, from why each could not, by its address."""
    kinds = {type(error) for error in failures.values()}
    kind = kinds.pop() if len(kinds) == 1 else BrokerUnreachableError
    hints = {error.hint for error in failures.values()}
    reasons = "; ".join(dict.fromkeys(error.message for error in failures.values()))
    # Who says no has answered: a wrong password is not an address that is wrong. A file of ours asked nobody.
    says_no = any(isinstance(error, PermanentError | ConfigurationError) for error in failures.values())
    what = "can be used" if says_no else "answered"
    return kind(
        f"no server of cluster {cluster!r} {what}: {reasons}",
        hint=hints.pop() if len(hints) == 1 else "check bootstrap_servers, the network and the brokers",
        cluster=cluster,
        servers=", ".join(failures),
    )


async def first_result(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, T | None]]],
    *,
    next_after_seconds: float,
    discard: Callable[[T], None],
) -> T | None:
    """Starts attempts one by one, the next after a failure (None) or a pause, and returns the first result.

    All attempts have ended when this returns or is cancelled; results that came too late go to ``discard``.
    """
    running: set[asyncio.Task[T | None]] = set()
    found: T | None = None
    waiting = list(attempts)
    try:
        while found is None and (waiting or running):
            if waiting:
                running.add(asyncio.create_task(waiting.pop(0)()))
            done, running = await asyncio.wait(
                running,
                timeout=next_after_seconds if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for result in (task.result() for task in done):
                if found is None:
                    found = result
                elif result is not None:
                    discard(result)
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if late is not None and not isinstance(late, BaseException):
                discard(late)
    return found
