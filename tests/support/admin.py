"""kafka-python's admin client, for what only it can ask a cluster."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from kafka.admin import KafkaAdminClient

REQUEST_TIMEOUT_MS = 15_000


@contextmanager
def admin_client(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    """A client for one use. Sockets of connections that failed it leaves to the collector; here they end at once."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","), request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        yield admin
    finally:
        admin.close()
        del admin
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
