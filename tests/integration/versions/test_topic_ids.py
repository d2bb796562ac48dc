"""A source that gives its topics no ids, as before Kafka 2.8, and the same one after its upgrade."""

from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target
from support.copies import assert_equal_in_kafka, create_topic
from support.leases import kafka_work, lease_plan, run_lease
from support.mirrors import write_config
from support.owner_states import state_written_by
from support.records import simple_records
from support.topics import append, make_topic
from support.zookeeper_kafka import ZooKeeperKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WITHOUT_TOPIC_IDS = {"inter.broker.protocol.version": "2.7"}
TOPIC_ID_LETTERS = 22


def test_a_source_without_topic_ids_is_copied_on_when_its_upgrade_brings_them(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    folder, libs, west = tmp_path / "kafka", jars.kafka_libs("2.8.2"), destination_kafka.bootstrap_servers
    create_topic(west, topic_name)
    with ZooKeeperKafka(folder, libs=libs, heap_mb=256, properties=WITHOUT_TOPIC_IDS) as old:
        east = old.bootstrap_servers
        make_topic(east, topic_name, simple_records(50))
        config = write_config(tmp_path / "mirror.yaml", source=east, topic=topic_name, destination=west)
        (row,) = run_async(read_plan(parse_configuration(config.read_bytes(), file="mirror.yaml", environ={})))
        target, state = run_async(take_over(config, owner="before"))
        copy(east, west, target, end=50)

    assert (row.action, row.start, row.end) == (Action.COPY, 0, 50)
    assert (target.topic_id, dict(state.topic_ids)) == ("", {})

    with ZooKeeperKafka(folder, libs=libs, heap_mb=256) as upgraded:
        assert upgraded.bootstrap_servers == east
        append(east, topic_name, 0, simple_records(50, start=50))
        target, state = run_async(take_over(config, owner="after"))
        copy(east, west, target, end=100)
        assert assert_equal_in_kafka(east, west, topic_name) == 100

    assert len(target.topic_id) == TOPIC_ID_LETTERS
    assert dict(state.topic_ids) == {topic_name: target.topic_id}


async def take_over(config: Path, *, owner: str) -> tuple[Target, OwnerState]:
    """The configuration's one target, owned by a new process, and what that process wrote down."""
    clients = WorkerCache()
    try:
        parsed = parse_configuration(config.read_bytes(), file=config.name, environ={})
        (target,) = await find_targets(parsed, clients)
        assert target.error is None
        assert await Owners(clients, owner=owner, clock=SystemClock()).take([target]) == {}
        assert isinstance(target.destination, KafkaDestination)
        client = clients.client(target.destination.cluster.settings)
        return target, await state_written_by(client, target.mirror.name, owner)
    finally:
        await clients.close()


def copy(east: str, west: str, target: Target, *, end: int) -> None:
    work = kafka_work(west, target.source, mirror=target.mirror.name)
    plan = lease_plan(east, [(target.source, [work])], end=end, topic_id=target.topic_id)
    (row,) = run_lease(plan).values()
    assert (row.error, row.position) == (None, end)
