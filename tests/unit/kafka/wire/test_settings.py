"""Settings of a cluster: what is refused, and that they cross process borders."""

import pickle

import pytest

from mirrorlake.errors import ConfigurationError, MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings, format_server, parse_server
from mirrorlake.secret import Secret
from mirrorlake.security import ClientSecurity, SaslMechanism, SaslSettings, SecurityProtocol, TlsSettings


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("kafka:9093", ("kafka", 9093)),
        ("kafka", ("kafka", 9092)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]", ("fe80::1%eth0", 9092)),
    ],
)
def test_an_address_is_read(text: str, server: tuple[str, int]) -> None:
    assert parse_server(text) == server


@pytest.mark.parametrize(
    "text", ["", ":9092", "kafka:0", "kafka:65536", "kafka:x", "::1", "[::1", "[]:1", "[::1]9", "a:²"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a server address"):
        parse_server(text)


@pytest.mark.parametrize("server", [("kafka", 9092), ("::1", 1)])
def test_an_address_is_written_so_that_it_can_be_read(server: tuple[str, int]) -> None:
    assert parse_server(format_server(*server)) == server


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"bootstrap_servers": ()}, ConfigurationError),
        ({"bootstrap_servers": ("kafka:x",)}, ConfigurationError),
        ({"client_id": "ä"}, ConfigurationError),
        ({"client_id": "x" * 250}, ConfigurationError),
        ({"request_timeout_seconds": 0.0}, ConfigurationError),
        ({"connect_timeout_seconds": -1.0}, ConfigurationError),
        ({"fetch_bytes_max": 0}, ConfigurationError),
        ({"fetch_partition_bytes_max": 2**31}, ConfigurationError),
        ({"fetch_bytes_min": -1}, ConfigurationError),
        ({"fetch_wait_seconds_max": -0.001}, ConfigurationError),
    ],
)
def test_what_cannot_be_used_is_refused(change: dict[str, object], kind: type[MirrorlakeError]) -> None:
    fine: dict[str, object] = {"name": "source", "bootstrap_servers": ("kafka:9092",)}

    with pytest.raises(kind):
        ClusterSettings(**(fine | change))  # type: ignore[arg-type]


def test_settings_cross_process_borders_with_their_secrets_and_never_show_them() -> None:
    sasl = SaslSettings(mechanism=SaslMechanism.PLAIN, username="app", password=Secret("hunter2"))
    security = ClientSecurity(
        protocol=SecurityProtocol.SASL_SSL, tls=TlsSettings(own_key_password=Secret("hunter2")), sasl=sasl
    )
    settings = ClusterSettings(name="source", bootstrap_servers=("a:1", "b:2"), security=security)

    arrived = pickle.loads(pickle.dumps(settings))

    assert arrived == settings
    assert arrived.security.sasl.password.reveal() == "hunter2"
    assert "hunter2" not in f"{arrived} {arrived!r}"


@pytest.mark.parametrize("protocol", list(SecurityProtocol))
def test_a_login_stands_exactly_where_the_protocol_has_one(protocol: SecurityProtocol) -> None:
    sasl = SaslSettings(mechanism=SaslMechanism.PLAIN)
    with pytest.raises(ValueError, match="contradict"):
        ClientSecurity(protocol=protocol, sasl=None if protocol.is_authenticated else sasl)
