"""SASL and TLS by Kafka's own property names: what they mean together, and every way in which they contradict."""

from pathlib import Path

import pytest

from mirrorlake.config.client_properties import SECURITY
from mirrorlake.secret import Secret
from mirrorlake.security import (
    ClientSecurity,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
    TokenSettings,
)
from unit.config.config_texts import kafka, load, messages

EAST = '"east:9092"'
CERTIFICATE = "-----BEGIN CERTIFICATE-----"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=u password=hunter2;"
SASL = "security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512"
LOGIN = "sasl.username: app, sasl.password: '${P}'"
BEARER = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER"
URL = "sasl.oauthbearer.token.endpoint.url: 'https://id.test/token'"
CLIENT = "sasl.oauthbearer.client.credentials.client.id: c, sasl.oauthbearer.client.credentials.client.secret: '${P}'"


def properties(text: str) -> str:
    return kafka().replace(EAST, f"{EAST}, properties: {{{text}}}")


def security(text: str) -> ClientSecurity:
    return load(properties(text), P="hunter2", J=SCRAM).clusters[0].settings.security


def test_nothing_set_is_plaintext() -> None:
    assert security("client.id: c") == ClientSecurity()
    assert security("security.protocol: plaintext") == ClientSecurity()


def test_tls_by_kafkas_names() -> None:
    assert security(
        "security.protocol: SSL, ssl.truststore.location: /tls/ca.pem, ssl.truststore.type: PEM, "
        "ssl.keystore.location: /tls/me.pem, ssl.keystore.type: pem, ssl.key.password: '${P}', "
        'ssl.endpoint.identification.algorithm: "", ssl.enabled.protocols: TLSv1.3'
    ) == ClientSecurity(
        protocol=SecurityProtocol.SSL,
        tls=TlsSettings(
            trusted_file=Path("/tls/ca.pem"),
            own_file=Path("/tls/me.pem"),
            own_key_password=Secret("hunter2"),
            checks_hostname=False,
            versions=("TLSv1.3",),
        ),
    )


def test_tls_from_text() -> None:
    tls = security(
        f"security.protocol: SSL, ssl.truststore.certificates: '{CERTIFICATE}', "
        f"ssl.keystore.certificate.chain: '{CERTIFICATE}', ssl.keystore.key: '${{P}}'"
    ).tls
    assert (tls.trusted_pem, tls.own_chain_pem, tls.own_key_pem) == (CERTIFICATE, CERTIFICATE, Secret("hunter2"))
    assert tls.checks_hostname
    assert tls.has_own_certificate


def test_tls_by_librdkafkas_names() -> None:
    tls = security(
        "security.protocol: ssl, ssl.ca.location: /ca.pem, ssl.certificate.location: /c.pem, ssl.key.location: /k.pem"
    ).tls
    assert (tls.trusted_file, tls.own_file, tls.own_key_file) == (Path("/ca.pem"), Path("/c.pem"), Path("/k.pem"))


def test_a_user_and_a_password() -> None:
    assert security(f"{SASL}, {LOGIN}") == ClientSecurity(
        protocol=SecurityProtocol.SASL_SSL,
        sasl=SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="app", password=Secret("hunter2")),
    )


def test_a_jaas_configuration() -> None:
    assert security(f"{SASL}, sasl.jaas.config: '${{J}}'").sasl == SaslSettings(
        mechanism=SaslMechanism.SCRAM_SHA_512, jaas=Secret(SCRAM)
    )


def test_a_jaas_configuration_in_a_file_is_not_read_before_it_is_needed() -> None:
    sasl = security(f"{SASL}, sasl.jaas.config: {{file: /none}}").sasl
    assert sasl is not None
    assert sasl.jaas == Secret(file=Path("/none"))


@pytest.mark.parametrize(
    "client",
    [CLIENT, "sasl.oauthbearer.client.id: c, sasl.oauthbearer.client.secret: '${P}'"],
    ids=["kafka", "librdkafka"],
)
def test_a_token_endpoint(client: str) -> None:
    sasl = security(f"{BEARER}, {URL}, {client}, sasl.oauthbearer.scope: s").sasl
    assert sasl == SaslSettings(
        mechanism=SaslMechanism.OAUTHBEARER,
        token=TokenSettings(
            endpoint_url="https://id.test/token", client_id="c", client_secret=Secret("hunter2"), scope="s"
        ),
    )


def test_a_token_in_a_file_needs_no_client() -> None:
    sasl = security(f"{BEARER}, sasl.oauthbearer.token.endpoint.url: 'file:///run/token'").sasl
    assert sasl is not None
    assert sasl.token == TokenSettings(endpoint_url="file:///run/token")


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("security.protocol: TLS", "security.protocol", "expected `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`"),
        (LOGIN.split(",")[0], "sasl.username", "has no effect with `security.protocol: PLAINTEXT` (use SASL_SSL or"),
        ("ssl.ca.location: /c", "ssl.ca.location", "has no effect with `security.protocol: PLAINTEXT` (use SSL or"),
        (
            f"security.protocol: SSL, {LOGIN.split(',')[0]}",
            "sasl.username",
            "has no effect with `security.protocol: SSL`",
        ),
        ("security.protocol: SASL_SSL", "sasl.mechanism", "is missing (one of PLAIN, SCRAM-SHA-256"),
        ("security.protocol: SASL_SSL, sasl.mechanism: GSSAPI", "sasl.mechanism", "expected `PLAIN`, `SCRAM-SHA-256`"),
        (f"{SASL}, sasl.username: u", "sasl.password", "is missing (set it, or `sasl.jaas.config`)"),
        (f"{SASL}, sasl.password: '${{P}}'", "sasl.username", "is missing (set it, or `sasl.jaas.config`)"),
        (
            f"{SASL}, sasl.jaas.config: '${{J}}', sasl.username: u",
            "sasl.username",
            "has no effect: `sasl.jaas.config` holds it",
        ),
        (f"{SASL}, sasl.jaas.config: '${{P}}'", "sasl.jaas.config", "sasl.jaas.config cannot be read"),
        (
            "security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: '${J}'",
            "sasl.jaas.config",
            "sasl.jaas.config names another login module than sasl.mechanism PLAIN needs",
        ),
        (f"{SASL}, {LOGIN}, sasl.oauthbearer.scope: s", "sasl.oauthbearer.scope", "has no effect: the mechanism is"),
        (f"{BEARER}, {CLIENT}", "sasl.oauthbearer.token.endpoint.url", "is missing"),
        (
            f"{BEARER}, {CLIENT}, sasl.oauthbearer.token.endpoint.url: 'ftp://x'",
            "sasl.oauthbearer.token.endpoint.url",
            "expected https://",
        ),
        (
            f"{BEARER}, {CLIENT}, sasl.oauthbearer.token.endpoint.url: 'https://u:hunter2@x/t'",
            "sasl.oauthbearer.token.endpoint.url",
            "a secret may not be in the address",
        ),
        (
            f"{BEARER}, {URL}, {CLIENT.split(', ')[0]}",
            "sasl.oauthbearer.client.credentials.client.secret",
            "is missing (set it, or `sasl.jaas.config` with clientId and clientSecret)",
        ),
        (
            f"{BEARER}, {URL}, {CLIENT}, sasl.username: u",
            "sasl.username",
            "has no effect: the mechanism is OAUTHBEARER",
        ),
        ("security.protocol: SSL, ssl.truststore.type: JKS", "ssl.truststore.type", "only `PEM` can be read (openssl"),
        ("security.protocol: SSL, ssl.keystore.type: PKCS12", "ssl.keystore.type", "only `PEM` can be read"),
        ("security.protocol: SSL, ssl.keystore.location: me.pem", "ssl.keystore.location", "expected an absolute path"),
        (
            f"security.protocol: SSL, ssl.truststore.location: /c, ssl.truststore.certificates: '{CERTIFICATE}'",
            "ssl.truststore.certificates",
            "cannot be used with `ssl.truststore.location`",
        ),
        (
            "security.protocol: SSL, ssl.truststore.certificates: x",
            "ssl.truststore.certificates",
            "expected certificat",
        ),
        (
            "security.protocol: SSL, ssl.keystore.key: '${P}'",
            "ssl.keystore.key",
            "needs `ssl.keystore.certificate.chai",
        ),
        (
            "security.protocol: SSL, ssl.certificate.location: /c",
            "ssl.certificate.location",
            "needs `ssl.key.location`",
        ),
        ("security.protocol: SSL, ssl.enabled.protocols: TLSv1", "ssl.enabled.protocols", "expected `TLSv1.2`, `TLSv"),
        (
            "security.protocol: SSL, ssl.endpoint.identification.algorithm: off",
            "ssl.endpoint.identification.algorithm",
            "expected `https`, or nothing",
        ),
        (
            "security.protocol: SSL, ssl.keystore.password: x",
            "ssl.keystore.password",
            "cannot be set (PEM files have n",
        ),
        ("security.protocol: SSL, ssl.cipher.suites: x", "ssl.cipher.suites", "`ssl.cipher.suites` is not available"),
    ],
)
def test_what_contradicts_or_is_missing_is_refused_by_name_and_alone(text: str, field: str, said: str) -> None:
    lines = messages(properties(text), P="hunter2", J=SCRAM)
    assert len(lines) == 1, lines
    assert lines[0].startswith(f'clusters.east.properties["{field}"]: {said}')
    assert "hunter2" not in lines[0]


def test_every_property_that_is_accepted_is_read() -> None:
    source = (Path(__file__).parents[3] / "src/mirrorlake/config/security_properties.py").read_text()
    assert [name for name in SECURITY if f'"{name}"' not in source and not name.endswith("store.type")] == []
