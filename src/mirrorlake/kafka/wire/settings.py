"""How to reach one Kafka cluster, as a value that can cross process borders."""

from dataclasses import dataclass, field

from mirrorlake.errors import ConfigurationError
from mirrorlake.security import ClientSecurity

DEFAULT_PORT = 9092
"""Where Kafka listens when a bootstrap server names no port (the Java client demands one; we do not)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How to reach one cluster. Picklable; holds no connection.

    Attributes:
        name: what the configuration calls the cluster; used in messages only.
        bootstrap_servers: ``host:port`` each, IPv6 addresses as ``[address]:port``; at least one.
        client_id: what brokers see in their logs and quotas; at most 249 characters of ASCII.
        request_timeout_seconds: how long a request may stay unanswered, where the caller names no other time.
        connect_timeout_seconds: how long name look-up, TCP connect and handshake with one broker may take
            together.
        fetch_bytes_max: bytes of one answer to a fetch; this and the next three None where the reader decides.
        fetch_partition_bytes_max: bytes of one partition in one answer.
        fetch_bytes_min: bytes a broker waits for before it answers.
        fetch_wait_seconds_max: how long it waits for them; zero is not to wait.
        security: TLS and SASL; none by default.

    Raises:
        ConfigurationError: a value cannot be used.
    """

    name: str
    bootstrap_servers: tuple[str, ...]
    client_id: str = "mirrorlake"
    request_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    fetch_bytes_max: int | None = None
    fetch_partition_bytes_max: int | None = None
    fetch_bytes_min: int | None = None
    fetch_wait_seconds_max: float | None = None
    security: ClientSecurity = field(default_factory=ClientSecurity)

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ConfigurationError(f"cluster {self.name!r} has no bootstrap servers", cluster=self.name)
        for server in self.bootstrap_servers:
            parse_server(server)
        if not (self.client_id.isascii() and len(self.client_id) <= 249):
            raise ConfigurationError(f"client id {self.client_id!r} is not ASCII or longer than 249 characters")
        if self.request_timeout_seconds <= 0 or self.connect_timeout_seconds <= 0:
            raise ConfigurationError(f"timeouts of cluster {self.name!r} must be above zero", cluster=self.name)
        sizes = (self.fetch_bytes_max, self.fetch_partition_bytes_max, self.fetch_bytes_min)
        if any(size is not None and not 0 < size < 2**31 for size in sizes):
            raise ConfigurationError(f"fetch sizes of cluster {self.name!r} must be from 1 to 2³¹-1", cluster=self.name)
        if self.fetch_wait_seconds_max is not None and self.fetch_wait_seconds_max < 0:
            raise ConfigurationError(f"fetch wait of cluster {self.name!r} is below zero", cluster=self.name)


def parse_server(server: str) -> tuple[str, int]:
    """Returns host and port of ``host:port``, ``[IPv6]:port`` or a bare host (port 9092).

    Raises:
        ConfigurationError: no host, or a port outside 1–65535.
    """
    bracketed = server.startswith("[")
    host, separator, port = server[1:].partition("]") if bracketed else server.partition(":")
    if bracketed and (port or not separator):
        port = port[1:] if port.startswith(":") else "?"
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ConfigurationError(
            f"not a server address: {server!r}",
            hint="write host:port, or [address]:port for IPv6",
            server=server,
        )
    return host, int(port) if port else DEFAULT_PORT


def format_server(host: str, port: int) -> str:
    """Returns ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
