"""The demo's clusters: two started side by side, a third in place of a lost one; gone with whoever started them."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from mirrorlake.embedded.kafka_server import EmbeddedKafka

_HEAP_MB = 512
# By default the log cleaner looks every 15 s whether there is something to compact.
_EAGER_CLEANER = {"log.cleaner.backoff.ms": "250"}
_KILL_AGAIN_SECONDS = 0.1


class Clusters:
    """Clusters on their way up, at first two. ``east`` is the source; addresses are known at once, served after `wait`.

    Args:
        east: the source.
        west: the destination.
        spare: not started yet; takes the place of what is lost.
        starting: the starts of ``east`` and ``west``.
    """

    def __init__(
        self,
        east: EmbeddedKafka,
        west: EmbeddedKafka,
        spare: EmbeddedKafka,
        starting: Sequence["Future[EmbeddedKafka]"],
    ) -> None:
        self.east = east
        self.west = west
        self.north = spare
        self._starting = starting
        self._is_east_lost = False

    def wait(self) -> None:
        """Returns when both serve.

        Raises:
            ServerUnusableError: one of them cannot start.
        """
        for start in self._starting:
            start.result()

    def lose_east(self) -> None:
        """Kills the source and deletes its disk: nobody gets anything from there again."""
        self._is_east_lost = True
        self.east.kill()
        shutil.rmtree(self.east.folder)

    def start_north(self) -> None:
        """Starts a new, empty cluster; returns when it serves.

        Raises:
            ServerUnusableError: it cannot start.
        """
        self.north.start()

    @property
    def are_running(self) -> bool:
        """Whether the processes of all that were not lost are there."""
        return self.west.is_running and (self.north if self._is_east_lost else self.east).is_running


@contextmanager
def demo_clusters(folder: Path, *, libs: Path) -> Iterator[Clusters]:
    """Starts both in threads and yields at once; at the end, or at any trouble, all are killed.

    Nobody needs their data afterwards, so they are not asked to end in good order.
    """
    properties: Mapping[str, Mapping[str, str]] = {"east": _EAGER_CLEANER, "west": {}, "north": {}}
    servers = [
        EmbeddedKafka(folder / name, libs=libs, heap_mb=_HEAP_MB, properties=own) for name, own in properties.items()
    ]
    east, west, north = servers
    with ThreadPoolExecutor(2, thread_name_prefix="demo-cluster") as pool:
        starting = [pool.submit(server.start) for server in (east, west)]
        try:
            yield Clusters(east, west, north, starting)
        finally:
            for start in starting:
                start.cancel()
            _kill(servers, starting)


def _kill(servers: Sequence[EmbeddedKafka], starting: Sequence["Future[EmbeddedKafka]"]) -> None:
    """Kills until nobody starts any more: a start that is still formatting has no process yet to be killed."""
    while True:
        for server in servers:
            server.kill()
        if not wait(starting, timeout=0.0).not_done:
            break
        time.sleep(_KILL_AGAIN_SECONDS)
    for server in servers:
        server.kill()
