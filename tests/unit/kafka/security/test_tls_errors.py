"""What OpenSSL says becomes an error with cluster, address and remedy."""

import ssl

import pytest

from mirrorlake.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    MirrorlakeError,
    NotKafkaError,
    UnsupportedError,
)
from mirrorlake.kafka.security.tls_errors import tls_error


def ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("reason", "kind", "remedy"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", AuthenticationFailedError, "ssl.keystore.location"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", AuthenticationFailedError, "ssl.keystore.location"),
        ("TLSV1_ALERT_UNKNOWN_CA", AuthenticationFailedError, "ssl.keystore.location"),
        ("WRONG_VERSION_NUMBER", NotKafkaError, "security.protocol"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", UnsupportedError, "ssl.enabled.protocols"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", UnsupportedError, "ssl.cipher.suites"),
        ("TLSV1_ALERT_INTERNAL_ERROR", BrokerUnreachableError, ""),
    ],
)
def test_an_alert_names_cluster_address_and_remedy(reason: str, kind: type[MirrorlakeError], remedy: str) -> None:
    error = tls_error(ssl_error(reason), cluster="east", address="kafka:9093")

    assert type(error) is kind
    assert "kafka:9093 of cluster 'east'" in error.message
    assert reason.lower().replace("_", " ") in error.message
    assert remedy in error.hint
    assert error.facts["cluster"] == "east"
