"""TLS and SASL against a real broker: every way in, every refusal with its remedy, and sessions that end."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    ConfigurationError,
    MirrorlakeError,
    NotKafkaError,
    TokenUnavailableError,
    UnsupportedError,
    UntrustedBrokerError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.wire.apis import FETCH_VERSION, PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.fetch import FetchPartition, decode_fetch, encode_fetch
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.kafka.wire.settings import ClusterSettings, parse_server
from mirrorlake.secret import Secret
from mirrorlake.security import ClientSecurity, SaslMechanism, SaslSettings, SecurityProtocol, TlsSettings
from support.records import Record, build_batch, simple_records
from support.secured_kafka import PASSWORD, PLAIN_USER, REAUTHENTICATE_MS, USER, SecuredKafka
from support.token_endpoint import AUDIENCE, CLIENT, CLIENT_SECRET, SCOPE

MIB = 1 << 20
SHA_256, SHA_512 = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512
PLAIN = SaslMechanism.PLAIN
CLEAR = SecurityProtocol.SASL_PLAINTEXT


def settings(servers: str, security: ClientSecurity) -> ClusterSettings:
    return ClusterSettings(name="east", bootstrap_servers=(servers,), security=security)


async def ask(servers: str, security: ClientSecurity) -> None:
    async with ClusterClient(settings(servers, security)) as client:
        assert (await client.metadata(())).brokers


def way_in(kafka: SecuredKafka, name: str, folder: Path) -> tuple[str, ClientSecurity]:
    """Bootstrap servers and security by a short name."""
    own = kafka.client_certificate
    locked = folder / "locked.pem"
    locked.write_text(own.key_pem("key word") + own.certificate_pem)
    key, chain = folder / "key.pem", folder / "chain.pem"
    key.write_text(own.key_pem())
    chain.write_text(own.certificate_pem)
    trust = kafka.trust
    tls = {
        "TLS": trust,
        "TLS from text": TlsSettings(trusted_pem=kafka.authority.pem),
        "TLS that pins the certificate": TlsSettings(trusted_pem=kafka.broker_certificate.certificate_pem),
        "TLS 1.2": replace(trust, versions=("TLSv1.2",)),
        "MUTUAL": replace(trust, own_file=own.bundle),
        "MUTUAL with a password": replace(trust, own_file=locked, own_key_password=Secret("key word")),
        "MUTUAL from two files": replace(trust, own_file=chain, own_key_file=key),
        "MUTUAL from text": replace(trust, own_chain_pem=own.certificate_pem, own_key_pem=Secret(own.key_pem())),
    }
    if name in tls:
        listener = "MUTUAL" if name.startswith("MUTUAL") else "TLS"
        return kafka.servers(listener), ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls[name])
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";'
    written = Secret(jaas % (USER, PASSWORD.replace("\\", "\\\\")))
    return kafka.servers("CLEAR" if "CLEAR" in name else "SASL"), {
        "PLAIN": kafka.sasl(PLAIN, user=PLAIN_USER),
        "PLAIN CLEAR": kafka.sasl(PLAIN, user=PLAIN_USER, protocol=CLEAR),
        "SCRAM-SHA-256": kafka.sasl(SHA_256),
        "SCRAM-SHA-512 CLEAR": kafka.sasl(SHA_512, protocol=CLEAR),
        "SCRAM-SHA-512 from JAAS": replace(kafka.sasl(SHA_512), sasl=SaslSettings(mechanism=SHA_512, jaas=written)),
        "OAUTHBEARER": kafka.bearer(),
        "OAUTHBEARER from JAAS": _bearer_from_jaas(kafka),
        "OAUTHBEARER from a file": _bearer_from_file(kafka, folder),
    }[name]


def _bearer_from_jaas(kafka: SecuredKafka) -> ClientSecurity:
    security = kafka.bearer()
    assert security.sasl is not None
    assert security.sasl.token is not None
    jaas = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f"clientId='{CLIENT}' clientSecret='{CLIENT_SECRET}' scope={SCOPE} extension_trace='on';"
    )
    token = replace(security.sasl.token, client_id=None, client_secret=None, scope="")
    return replace(security, sasl=replace(security.sasl, token=token, jaas=Secret(jaas)))


def _bearer_from_file(kafka: SecuredKafka, folder: Path) -> ClientSecurity:
    file = folder / "token.jwt"
    file.write_text(kafka.tokens.token() + "\n")
    return kafka.bearer(endpoint=file.as_uri())


@pytest.mark.parametrize(
    "name",
    [
        "TLS",
        "TLS from text",
        "TLS that pins the certificate",
        "TLS 1.2",
        "MUTUAL",
        "MUTUAL with a password",
        "MUTUAL from two files",
        "MUTUAL from text",
        "PLAIN",
        "PLAIN CLEAR",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512 CLEAR",
        "SCRAM-SHA-512 from JAAS",
        "OAUTHBEARER",
        "OAUTHBEARER from JAAS",
        "OAUTHBEARER from a file",
    ],
)
def test_every_way_in_leads_in(secured_kafka: SecuredKafka, tmp_path: Path, run_async: RunAsync, name: str) -> None:
    run_async(ask(*way_in(secured_kafka, name, tmp_path)))


def test_a_host_name_that_is_not_in_the_certificate_may_be_allowed(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    servers = secured_kafka.servers("TLS").replace("127.0.0.1", "localhost")
    security = secured_kafka.tls()
    run_async(ask(servers, replace(security, tls=replace(security.tls, checks_hostname=False))))


# -- refusals ----------------------------------------------------------------------------------------------------


def refused(kafka: SecuredKafka, run_async: RunAsync, servers: str, security: ClientSecurity) -> MirrorlakeError:
    with pytest.raises(MirrorlakeError) as caught:
        run_async(ask(servers, security))
    error = caught.value
    assert "'east'" in error.message
    assert PASSWORD not in repr(error) + str(error)
    assert CLIENT_SECRET not in repr(error) + str(error)
    return error


def test_a_certificate_of_an_unknown_authority_is_refused(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    tls = TlsSettings(trusted_file=secured_kafka.other_authority.file)
    for security in (
        ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls),
        ClientSecurity(protocol=SecurityProtocol.SSL),
    ):
        error = refused(secured_kafka, run_async, secured_kafka.servers("TLS"), security)
        assert isinstance(error, UntrustedBrokerError)
        assert secured_kafka.servers("TLS") in error.message
        assert "ssl.truststore.location" in error.hint


def test_a_certificate_for_another_host_is_refused(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    servers = secured_kafka.servers("TLS").replace("127.0.0.1", "localhost")
    error = refused(secured_kafka, run_async, servers, secured_kafka.tls())
    assert isinstance(error, UntrustedBrokerError)
    assert servers in error.message
    assert "not valid for 'localhost'" in error.message
    assert "advertised.listeners" in error.hint


def test_a_certificate_that_has_expired_is_refused(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    error = refused(secured_kafka, run_async, secured_kafka.servers("EXPIRED"), secured_kafka.tls())
    assert isinstance(error, UntrustedBrokerError)
    assert "has expired" in error.message
    assert "renew" in error.hint


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("shows", ["nothing", "another authority's certificate"])
def test_a_broker_that_wants_our_certificate_and_gets_another_says_so(
    secured_kafka: SecuredKafka, run_async: RunAsync, version: str, shows: str
) -> None:
    own = None if shows == "nothing" else secured_kafka.foreign_certificate.bundle
    tls = replace(secured_kafka.trust, own_file=own, versions=(version,))
    security = ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls)
    error = refused(secured_kafka, run_async, secured_kafka.servers("MUTUAL"), security)
    assert isinstance(error, AuthenticationFailedError)
    assert secured_kafka.servers("MUTUAL") in error.message
    assert "ssl.keystore.location" in error.hint


def test_tls_to_a_listener_without_it_is_explained(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    error = refused(secured_kafka, run_async, secured_kafka.bootstrap_servers, secured_kafka.tls())
    assert isinstance(error, BrokerUnreachableError)
    assert "a listener without TLS" in error.message
    assert "PLAINTEXT" in error.hint


def test_no_tls_to_a_listener_with_it_is_explained(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    error = refused(secured_kafka, run_async, secured_kafka.servers("TLS"), ClientSecurity())
    assert isinstance(error, NotKafkaError)
    assert "a TLS record came" in error.message
    assert "SSL or SASL_SSL" in error.hint


@pytest.mark.parametrize(("listener", "has_tls"), [("CLEAR", False), ("SASL", True)])
def test_no_login_at_a_listener_that_wants_one_is_explained(
    secured_kafka: SecuredKafka, run_async: RunAsync, listener: str, has_tls: bool
) -> None:
    security = secured_kafka.tls() if has_tls else ClientSecurity()
    error = refused(secured_kafka, run_async, secured_kafka.servers(listener), security)
    assert isinstance(error, BrokerUnreachableError)
    assert "a listener that requires SASL" in error.message
    assert "sasl.mechanism" in error.hint


@pytest.mark.parametrize(("has_tls", "remedy"), [(True, "SSL"), (False, "PLAINTEXT")])
def test_a_login_at_a_listener_that_wants_none_is_explained(
    secured_kafka: SecuredKafka, run_async: RunAsync, has_tls: bool, remedy: str
) -> None:
    protocol = SecurityProtocol.SASL_SSL if has_tls else CLEAR
    servers = secured_kafka.servers("TLS") if has_tls else secured_kafka.bootstrap_servers
    error = refused(secured_kafka, run_async, servers, secured_kafka.sasl(SHA_256, protocol=protocol))
    assert isinstance(error, UnsupportedError)
    assert f"use security.protocol {remedy}," in error.hint


def test_a_mechanism_that_is_not_enabled_is_named_with_those_that_are(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    security = secured_kafka.sasl(PLAIN, user=PLAIN_USER, protocol=CLEAR)
    error = refused(secured_kafka, run_async, secured_kafka.servers("SCRAM"), security)
    assert isinstance(error, AuthenticationFailedError)
    assert "does not take SASL mechanism PLAIN; enabled are: SCRAM-SHA-256" in error.message


@pytest.mark.parametrize("mechanism", [PLAIN, SHA_256, SHA_512])
def test_a_wrong_password_is_refused(
    secured_kafka: SecuredKafka, run_async: RunAsync, mechanism: SaslMechanism
) -> None:
    user = PLAIN_USER if mechanism is PLAIN else USER
    security = secured_kafka.sasl(mechanism, user=user, password="not-this-one")
    error = refused(secured_kafka, run_async, secured_kafka.servers("SASL"), security)
    assert isinstance(error, AuthenticationFailedError)
    assert f"{secured_kafka.servers('SASL')} of cluster 'east' refuses the {mechanism} login" in error.message
    assert "not-this-one" not in str(error)
    assert "answered" not in error.message, "who refuses has answered"
    assert "check username and password" in error.hint


def test_a_wrong_client_secret_is_refused_by_the_token_endpoint(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    security = secured_kafka.bearer(secret="not-this-one")
    error = refused(secured_kafka, run_async, secured_kafka.servers("SASL"), security)
    assert isinstance(error, AuthenticationFailedError)
    assert f"token endpoint {secured_kafka.tokens.url} of cluster 'east' answered 401 (invalid_client)" in error.message
    assert "client secret" in error.hint


@pytest.mark.parametrize(("status", "said"), [(503, "answered 503"), (302, "answered 302")])
def test_a_token_endpoint_without_a_token_is_named(
    secured_kafka: SecuredKafka, run_async: RunAsync, status: int, said: str
) -> None:
    secured_kafka.tokens.answer_status = status
    try:
        security = secured_kafka.bearer(endpoint=f"{secured_kafka.tokens.url}?status={status}")
        error = refused(secured_kafka, run_async, secured_kafka.servers("SASL"), security)
    finally:
        secured_kafka.tokens.answer_status = None
    assert isinstance(error, TokenUnavailableError if status == 503 else AuthenticationFailedError)
    assert said in error.message
    assert "token.endpoint.url" in error.hint


def test_a_token_endpoint_that_is_not_there_is_waited_for(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    security = secured_kafka.bearer(endpoint="http://127.0.0.1:1/token")
    error = refused(secured_kafka, run_async, secured_kafka.servers("SASL"), security)
    assert isinstance(error, TokenUnavailableError)
    assert "Connection refused" in error.message


@pytest.mark.parametrize("flaw", ["of another audience", "that has expired"])
def test_a_token_the_broker_does_not_take_is_refused(
    secured_kafka: SecuredKafka, run_async: RunAsync, tmp_path: Path, flaw: str
) -> None:
    file = tmp_path / "token"
    secured_kafka.tokens.audience = "another" if flaw == "of another audience" else AUDIENCE
    try:
        file.write_text(secured_kafka.tokens.token(life_seconds=-120 if flaw == "that has expired" else 60))
    finally:
        secured_kafka.tokens.audience = AUDIENCE
    error = refused(
        secured_kafka, run_async, secured_kafka.servers("SASL"), secured_kafka.bearer(endpoint=file.as_uri())
    )
    assert isinstance(error, AuthenticationFailedError)
    assert "refuses the OAUTHBEARER login" in error.message
    assert "expiry" in error.hint


def test_files_that_are_not_pem_are_refused_with_the_command_that_makes_them(
    secured_kafka: SecuredKafka, run_async: RunAsync, tmp_path: Path
) -> None:
    store = tmp_path / "store.p12"
    store.write_bytes(secured_kafka.client_certificate.pkcs12("changeit"))
    security = ClientSecurity(protocol=SecurityProtocol.SSL, tls=replace(secured_kafka.trust, own_file=store))
    error = refused(secured_kafka, run_async, secured_kafka.servers("MUTUAL"), security)
    assert isinstance(error, ConfigurationError)
    assert "is a PKCS12 file" in error.message
    assert f"openssl pkcs12 -in {store} -out store.pem" in error.hint


def test_a_key_that_needs_a_password_is_refused_without_asking_at_the_terminal(
    secured_kafka: SecuredKafka, run_async: RunAsync, tmp_path: Path
) -> None:
    own = secured_kafka.client_certificate
    file = tmp_path / "locked.pem"
    file.write_text(own.key_pem("key word") + own.certificate_pem)
    for password in (None, Secret("wrong word")):
        tls = replace(secured_kafka.trust, own_file=file, own_key_password=password)
        security = ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls)
        error = refused(secured_kafka, run_async, secured_kafka.servers("MUTUAL"), security)
        assert isinstance(error, ConfigurationError)
        assert str(file) in error.message
        assert "ssl.key.password" in error.hint


def test_a_renewed_certificate_file_is_read_again(
    secured_kafka: SecuredKafka, run_async: RunAsync, tmp_path: Path
) -> None:
    file = tmp_path / "own.pem"
    file.write_text(secured_kafka.foreign_certificate.bundle.read_text())
    tls = replace(secured_kafka.trust, own_file=file)
    security = ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls)
    refused(secured_kafka, run_async, secured_kafka.servers("MUTUAL"), security)
    file.write_text(secured_kafka.client_certificate.bundle.read_text())
    run_async(ask(secured_kafka.servers("MUTUAL"), security))


# -- the hot path ------------------------------------------------------------------------------------------------


def send_batches(connection: Connection, topic: str, batches: list[bytes]) -> "asyncio.Future[Frame]":
    body = encode_produce([(topic, n, memoryview(batch)) for n, batch in enumerate(batches)], timeout_ms=20_000)
    return connection.send(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=30)


def send_fetch(connection: Connection, topic: str, partition: int, offset: int = 0) -> "asyncio.Future[Frame]":
    asked = FetchPartition(topic=topic, partition=partition, fetch_offset=offset, partition_bytes_max=32 * MIB)
    body = encode_fetch([asked], max_wait_ms=0, min_bytes=1, max_bytes=32 * MIB)
    return connection.send(Api.FETCH, FETCH_VERSION, (body,), timeout_seconds=30)


def produced_offsets(frame: Frame) -> list[int]:
    with frame:
        answers = decode_produce(frame.view)
        assert {answer.error_code for answer in answers} == {0}
        return [answer.base_offset for answer in sorted(answers, key=lambda each: each.partition)]


async def open_connection(kafka: SecuredKafka, listener: str, security: ClientSecurity, pool: BufferPool) -> Connection:
    servers = kafka.servers(listener)
    return await Connection.open(*parse_server(servers), settings=settings(servers, security), buffers=pool)


async def create_topic(kafka: SecuredKafka, name: str, partitions: int) -> None:
    async with ClusterClient(settings(kafka.servers("TLS"), kafka.tls())) as client:
        assert await client.topics.create(name, partitions=partitions, replication_factor=1)


def test_large_requests_and_answers_pass_through_tls_unchanged(
    secured_kafka: SecuredKafka, topic_name: str, run_async: RunAsync
) -> None:
    partitions = 24
    sizes = [1, 3, 40, 16_300, 16_384, 16_385, 70_000, 262_100, 262_144, 300_000, 900_000] + [200_000] * 13
    batches = [build_batch([Record(1_700_000_000_000 + n, None, bytes([n]) * size)]) for n, size in enumerate(sizes)]

    async def scenario() -> None:
        await create_topic(secured_kafka, topic_name, partitions)
        pool = BufferPool(4 * MIB, 2 * MIB)
        connection = await open_connection(secured_kafka, "TLS", secured_kafka.tls(), pool)
        answers = [send_batches(connection, topic_name, batches) for _ in range(3)]
        assert [produced_offsets(await answer) for answer in answers] == [[n] * partitions for n in range(3)]
        # All asked for at once: the answers are far more than the pool holds, so reading stops and goes on.
        fetches = [send_fetch(connection, topic_name, partition) for partition in range(partitions)]
        for fetch, batch in zip(fetches, batches, strict=True):
            with await fetch as frame:
                (fetched,) = decode_fetch(frame.view)
                assert len(fetched.records) == 3 * len(batch)
                assert bytes(fetched.records[2 * len(batch) + 21 :]) == batch[21:]  # without what the leader stamps
                del fetched
        connection.close("done")
        assert (pool.in_use_bytes, pool.lost_buffers) == (0, 0)

    run_async(scenario())


@pytest.mark.parametrize("mechanism", list(SaslMechanism))
def test_sessions_are_renewed_under_load_and_no_request_is_lost(
    secured_kafka: SecuredKafka, topic_name: str, run_async: RunAsync, mechanism: SaslMechanism
) -> None:
    if mechanism is SaslMechanism.OAUTHBEARER:
        security = secured_kafka.bearer(endpoint=f"{secured_kafka.tokens.url}?{topic_name}")
    else:
        security = secured_kafka.sasl(mechanism, user=PLAIN_USER if mechanism is PLAIN else USER)
    batch = build_batch(simple_records(1, size=20_000))

    async def scenario() -> None:
        await create_topic(secured_kafka, topic_name, 1)
        pool = BufferPool(64 * MIB, 4 * MIB)
        connection = await open_connection(secured_kafka, "SHORT", security, pool)
        loop = asyncio.get_running_loop()
        in_flight: list[asyncio.Future[Frame]] = []
        expected = logins = 0
        # Until the third login: the session has been renewed twice with requests on their way and behind it.
        while connection.login.count < 3 or not is_token_renewed():
            if logins < connection.login.count:
                logins = connection.login.count
                assert connection.login.due - loop.time() <= 0.85 * REAUTHENTICATE_MS / 1000
                # Brought forward: the broker may be slow with what is on its way, and the session must not end before.
                connection.login.due = loop.time() + 1.2
            while len(in_flight) < 5:
                in_flight.append(send_batches(connection, topic_name, [batch]))
            assert produced_offsets(await in_flight.pop(0)) == [expected]
            expected += 1
        for answer in in_flight:
            assert produced_offsets(await answer) == [expected]
            expected += 1
        assert expected > 20
        connection.close("done")

    issued = secured_kafka.tokens.issued

    def is_token_renewed() -> bool:
        return mechanism is not SaslMechanism.OAUTHBEARER or secured_kafka.tokens.issued > issued + 1

    secured_kafka.tokens.life_seconds = 20.0  # refreshed after 15 to 16 s, with 4 s left
    try:
        run_async(scenario())  # with tokens: until another was had while connected
    finally:
        secured_kafka.tokens.life_seconds = 60.0


@pytest.mark.slow
def test_a_session_that_ended_while_nothing_was_sent_is_renewed_by_the_next_request(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        connection = await open_connection(secured_kafka, "SHORT", secured_kafka.sasl(SHA_256), BufferPool(MIB, MIB))
        await asyncio.sleep(REAUTHENTICATE_MS / 1000 + 0.5)
        with await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=10) as frame:
            assert frame.view
        assert connection.login.count == 2
        connection.close("done")

    run_async(scenario())


@pytest.mark.slow
def test_a_request_that_the_broker_reads_after_the_end_of_the_session_is_lost_with_the_reason(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        connection = await open_connection(secured_kafka, "SHORT", secured_kafka.sasl(SHA_256), BufferPool(MIB, MIB))
        connection.login.due = float("inf")  # as if the request had been sent in time, to a broker that stands still
        await asyncio.sleep(REAUTHENTICATE_MS / 1000 + 0.5)
        with pytest.raises(BrokerUnreachableError, match="after the end of the session") as caught:
            await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=30)
        assert "connections.max.reauth.ms" in caught.value.hint

    run_async(scenario())


@pytest.mark.slow
def test_credentials_that_stop_being_valid_end_the_connection_with_the_reason(
    secured_kafka: SecuredKafka, run_async: RunAsync, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    sasl = SaslSettings(mechanism=SHA_512, username=USER, password=Secret(file=file))
    security = replace(secured_kafka.sasl(SHA_512), sasl=sasl)

    async def scenario() -> None:
        connection = await open_connection(secured_kafka, "SHORT", security, BufferPool(MIB, MIB))
        file.write_text("changed")
        await asyncio.sleep(connection.login.due - asyncio.get_running_loop().time())
        with pytest.raises(AuthenticationFailedError, match="refuses the SCRAM-SHA-512 login"):
            await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=10)
        assert connection.closed

    run_async(scenario())


@pytest.mark.slow
def test_a_token_endpoint_that_fails_for_a_while_does_not_end_a_session_that_lives(
    secured_kafka: SecuredKafka, run_async: RunAsync
) -> None:
    security = secured_kafka.bearer(endpoint=f"{secured_kafka.tokens.url}?outage")

    async def scenario() -> None:
        secured_kafka.tokens.life_seconds = 20.0  # of which 2.8 s are left when the login is due
        connection = await open_connection(secured_kafka, "SASL", security, BufferPool(MIB, MIB))
        secured_kafka.tokens.answer_status = 503
        await asyncio.sleep(connection.login.due - asyncio.get_running_loop().time())
        for status in (503, None):
            secured_kafka.tokens.answer_status = status
            with await connection.request(Api.API_VERSIONS, 0, (), timeout_seconds=10) as frame:
                assert frame.view
        connection.close("done")

    try:
        run_async(scenario())
    finally:
        secured_kafka.tokens.answer_status = None
        secured_kafka.tokens.life_seconds = 60.0
