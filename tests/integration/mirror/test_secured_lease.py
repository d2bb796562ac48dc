"""Leases between secured clusters: the records arrive as they are, and sessions that end in between lose nothing."""

import asyncio
from dataclasses import replace

import pytest

from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from mirrorlake.security import ClientSecurity, SaslMechanism
from support.copies import assert_same_records, create_topic, source_end
from support.leases import kafka_work, lease_plan, run_lease
from support.load import Load
from support.records import CODECS, build_batch, consume, every_kind, produce
from support.secured_kafka import REAUTHENTICATE_MS, SecuredKafka
from support.sources import read_from
from support.topics import make_topic


def cluster(kafka: SecuredKafka, name: str, listener: str, security: ClientSecurity) -> ClusterSettings:
    return ClusterSettings(name=name, bootstrap_servers=(kafka.servers(listener),), security=security)


def secured_plan(
    topic: str, *, source: ClusterSettings, destination: ClusterSettings, end: int | None, seconds: float = 20.0
) -> LeasePlan:
    """From a topic to its copy on the same broker, by two ways in."""
    partition = TopicPartition(topic, 0)
    work = kafka_work(destination.bootstrap_servers[0], partition, topic=f"{topic}-copy", mirror=topic)
    works = [(partition, [replace(work, cluster=destination)])]
    plan = lease_plan(source.bootstrap_servers[0], works, end=end, seconds=seconds)
    return replace(plan, partitions=(read_from(plan.partitions[0], source),))


def test_a_lease_from_tls_to_sasl_over_tls_copies_record_by_record(
    secured_kafka: SecuredKafka, topic_name: str
) -> None:
    servers = secured_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    create_topic(servers, f"{topic_name}-copy")
    batches = [build_batch(every_kind(seed), codec) for seed, codec in enumerate(CODECS.values())]
    asyncio.run(produce(servers, topic_name, 0, batches))
    plan = secured_plan(
        topic_name,
        source=cluster(secured_kafka, "east", "TLS", secured_kafka.tls()),
        destination=cluster(secured_kafka, "west", "SASL", secured_kafka.sasl(SaslMechanism.SCRAM_SHA_512)),
        end=source_end(servers, topic_name),
    )

    (row,) = run_lease(plan).values()

    assert row.error is None
    expected = consume(servers, topic_name, 0)
    assert len(expected) == 5 * 36
    assert_same_records(expected, consume(servers, f"{topic_name}-copy", 0))


@pytest.mark.slow
def test_a_lease_under_load_outlives_the_sessions_of_both_sides(secured_kafka: SecuredKafka, topic_name: str) -> None:
    servers = secured_kafka.bootstrap_servers
    make_topic(servers, topic_name, [])
    create_topic(servers, f"{topic_name}-copy")
    security = secured_kafka.sasl(SaslMechanism.SCRAM_SHA_256)
    live = secured_plan(
        topic_name,
        source=cluster(secured_kafka, "east", "SHORT", security),
        destination=cluster(secured_kafka, "west", "SHORT", security),
        end=None,
        seconds=2 * REAUTHENTICATE_MS / 1000,
    )

    with Load(servers, topic_name):
        (row,) = run_lease(live).values()

    assert row.error is None
    assert row.records > 0
    end = source_end(servers, topic_name)
    rest = replace(live, live_seconds=20.0, send_seconds=20.5, hard_seconds=20.5)
    rest = replace(rest, partitions=(replace(rest.partitions[0], end_offset=end),))
    (row,) = run_lease(rest).values()
    assert (row.error, row.position) == (None, end)
    assert_same_records(consume(servers, topic_name, 0), consume(servers, f"{topic_name}-copy", 0))
