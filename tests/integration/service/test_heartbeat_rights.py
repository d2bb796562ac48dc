"""The rights that `docs/security.md` asks for are enough to write heartbeats, and each that is missing is named."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.service.heartbeats.writing import HeartbeatWriter
from mirrorlake.service.plan.heartbeats import heartbeat_warnings
from mirrorlake.service.sight.heartbeat_series import HeartbeatSeries
from support.acls import Right, grant_exactly
from support.copies import log_end
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, SecuredKafka

RIGHTS = ("CREATE", "WRITE")


def configuration(kafka: SecuredKafka, topic: str) -> Configuration:
    text = (
        f"clusters:\n  east:\n    bootstrap-servers: '{kafka.servers('CLEAR')}'\n    properties:\n"
        f"      security.protocol: SASL_PLAINTEXT\n      sasl.mechanism: PLAIN\n      sasl.username: {LIMITED}\n"
        f"      sasl.password: ${{PASSWORD}}\nstores: {{lake: {{type: filesystem, root: /lake}}}}\n"
        f"mirrors:\n  - name: m\n    source: {{cluster: east, topics: [t]}}\n    heartbeats: {{topic: {topic}}}\n"
        "    destinations: [{type: archive, store: lake}]\n"
    )
    return parse_configuration(text.encode(), file="test.yaml", environ={"PASSWORD": LIMITED_PASSWORD})


async def write_once(config: Configuration) -> int:
    """Writes one heartbeat, or fails to; returns how many were written."""
    clients, registry = WorkerCache(), CollectorRegistry()
    writer = HeartbeatWriter(
        HeartbeatSeries(registry),
        mirrors=lambda: config.enabled_mirrors,
        clients=clients,
        clock=SystemClock(),
    )

    def counted(name: str) -> int:
        return int(registry.get_sample_value(name, {"mirror": "m"}) or 0)

    try:
        writer.turn(is_wanted=lambda _: True, made=lambda: None)
        while not (counted("mirrorlake_heartbeats_total") or counted("mirrorlake_heartbeat_failures_total")):
            await asyncio.sleep(0.1)
        return counted("mirrorlake_heartbeats_total")
    finally:
        await clients.close()


async def warnings_of(config: Configuration) -> tuple[str, ...]:
    """What a plan says of the heartbeats."""
    clients = WorkerCache()
    try:
        return (await heartbeat_warnings(config.enabled_mirrors, clients))["m"]
    finally:
        await clients.close()


@pytest.fixture
def topic(secured_kafka: SecuredKafka, topic_name: str) -> Iterator[str]:
    yield topic_name
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])


def test_the_rights_to_write_heartbeats_are_enough(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [Right("TOPIC", topic, right) for right in RIGHTS])
    assert run_async(write_once(configuration(secured_kafka, topic))) == 1
    assert log_end(secured_kafka.bootstrap_servers, topic) == 1
    (remark,) = run_async(warnings_of(configuration(secured_kafka, topic)))
    assert remark.startswith("mirror m: `run` writes a heartbeat every 10 s")


@pytest.mark.parametrize("missing", RIGHTS)
def test_each_right_to_write_heartbeats_is_named_where_it_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rights = [Right("TOPIC", topic, right) for right in RIGHTS if right != missing]
    rights.append(Right("TOPIC", topic, "DESCRIBE"))  # which WRITE includes, and which would else be named first
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    config = configuration(secured_kafka, topic)
    assert run_async(write_once(config)) == 0
    said = capsys.readouterr().out
    assert "heartbeat could not be written" in said
    assert f"grant {missing} on topic {topic}" in said
    # With CREATE alone the topic is there by now, and with WRITE alone it is not.
    remark, against = run_async(warnings_of(config))
    assert remark.startswith("mirror m: `run` writes a heartbeat every 10 s")
    assert "no heartbeat can be written" in against
    assert f"grant {missing} on topic {topic}" in against
