"""The demo's two clusters: started side by side, gone with whoever started them."""

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
    """Two clusters on their way up. ``east`` is the source; addresses are known at once, served after ``wait``."""

    def __init__(self, east: EmbeddedKafka, west: EmbeddedKafka, starting: Sequence["Future[EmbeddedKafka]"]) -> None:
        self.east = east
        self.west = west
        self._starting = starting

    def wait(self) -> None:
        """Returns when both serve.

        Raises:
            ServerUnusableError: one of them cannot start.
        """
        for start in self._starting:
            start.result()

    @property
    def are_running(self) -> bool:
        """Whether both processes are there."""
        return self.east.is_running and self.west.is_running


@contextmanager
def two_clusters(folder: Path, *, libs: Path) -> Iterator[Clusters]:
    """Starts both in threads and yields at once; at the end, or at any trouble, both are killed.

    Nobody needs their data afterwards, so they are not asked to end in good order.
    """
    properties: Mapping[str, Mapping[str, str]] = {"east": _EAGER_CLEANER, "west": {}}
    servers = [
        EmbeddedKafka(folder / name, libs=libs, heap_mb=_HEAP_MB, properties=own) for name, own in properties.items()
    ]
    with ThreadPoolExecutor(len(servers), thread_name_prefix="demo-cluster") as pool:
        starting = [pool.submit(server.start) for server in servers]
        try:
            yield Clusters(servers[0], servers[1], starting)
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
