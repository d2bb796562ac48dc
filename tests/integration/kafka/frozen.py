"""A broker that is certain not to answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from mirrorlake.embedded.kafka_server import EmbeddedKafka


@contextmanager
def frozen(server: EmbeddedKafka) -> Iterator[None]:
    """Pauses a broker, waits until it stands still, and lets it go on at the end.

    On a busy machine the signal takes effect a moment after it was sent, and requests are answered until then.
    """
    server.pause()
    try:
        while any(thread.status() != psutil.STATUS_STOPPED for thread in threads_of(server.pid)):
            time.sleep(0.01)
        yield
    finally:
        server.resume()


def threads_of(pid: int) -> list[psutil.Process]:
    return [psutil.Process(thread.id) for thread in psutil.Process(pid).threads()]
