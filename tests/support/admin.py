"""kafka-python's admin client, for what only it can ask a cluster."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

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


def alter_topic(bootstrap_servers: str, topic: str, **configs: str) -> None:
    """Changes settings of a topic, as ``kafka-configs.sh --alter`` does; underscores stand for dots."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with admin_client(bootstrap_servers) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)])
