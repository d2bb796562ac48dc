"""Every Kafka version as destination: what can be written there, and what is refused before the first byte."""

from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import SupersededError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from support.command import without_spark as mirrorlake
from support.copies import assert_equal_in_kafka, create_topic
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.mirrors import write_config
from support.owner_states import state_written_by
from support.records import consume, settings_of, simple_records
from support.topics import append, make_topic, topics_of

pytestmark = pytest.mark.kafka

AGES_MS = "1000000000000"
NO_PRESERVE = (
    "cluster west cannot be a destination with `offsets: preserve`: DescribeTransactions version 0 is needed, and the "
    "broker at {address} does not know it. (use `offsets: map`, which does without; or upgrade the brokers: Apache "
    "Kafka 3.0 (KIP-664) or newer is needed)"
)


def configuration(folder: Path, east: EmbeddedKafka, west: EmbeddedKafka, topic: str) -> Path:
    return write_config(
        folder / "mirror.yaml", source=east.bootstrap_servers, destination=west.bootstrap_servers, topic=topic
    )


def plan_of(config: Path, run_async: RunAsync) -> list[PlanRow]:
    return run_async(read_plan(parse_configuration(config.read_bytes(), file=config.name, environ={})))


def test_kafka_3_9_takes_every_record_at_its_offset(
    source_kafka: EmbeddedKafka, kafka_3_9: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, kafka_3_9.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    where = TopicPartition(topic_name, 0)

    for end in (200, 400):  # the second lease goes on where the first ended
        append(east, topic_name, 0, simple_records(200, start=end - 200))
        (row,) = run_lease(lease_plan(east, [(where, [kafka_work(west, where)])], end=end)).values()
        assert (row.error, row.position) == (None, end)

    assert assert_equal_in_kafka(east, west, topic_name) == 400


@pytest.mark.slow
def test_kafka_2_8_and_3_9_take_every_record_in_order_with_mapped_offsets(
    source_kafka: EmbeddedKafka, kafka_2_8: EmbeddedKafka, kafka_3_9: EmbeddedKafka, topic_name: str
) -> None:
    east = source_kafka.bootstrap_servers
    create_topic(east, topic_name)
    where = TopicPartition(topic_name, 0)
    older = [server.bootstrap_servers for server in (kafka_2_8, kafka_3_9)]
    for west in older:
        create_topic(west, topic_name)

    for end in (200, 400):
        append(east, topic_name, 0, simple_records(200, start=end - 200))
        for west in older:
            (row,) = run_lease(lease_plan(east, [(where, [map_work(west, where)])], end=end)).values()
            assert (row.error, row.position) == (None, end)

    written = simple_records(400)
    assert [list(consume(west, topic_name, 0).values()) for west in older] == [written, written]


def test_plan_refuses_equal_offsets_on_kafka_2_8_and_names_the_mode_that_remains(
    source_kafka: EmbeddedKafka, kafka_2_8: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(10))

    (row,) = plan_of(configuration(tmp_path, source_kafka, kafka_2_8, topic_name), run_async)

    assert row.action is Action.REFUSE
    assert str(row.error) == NO_PRESERVE.format(address=kafka_2_8.bootstrap_servers)


def test_run_parks_equal_offsets_on_kafka_2_8_before_it_writes_anything_there(
    source_kafka: EmbeddedKafka, kafka_2_8: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(10))
    before = topics_of(kafka_2_8.bootstrap_servers)

    ended = mirrorlake("run", "--once", "-c", configuration(tmp_path, source_kafka, kafka_2_8, topic_name))

    assert ended.code == 3
    assert "DescribeTransactions" in ended.err
    assert "offsets: map" in ended.err
    assert topics_of(kafka_2_8.bootstrap_servers) == before


def test_plan_lets_kafka_3_9_have_equal_offsets(
    source_kafka: EmbeddedKafka, kafka_3_9: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(10))

    (row,) = plan_of(configuration(tmp_path, source_kafka, kafka_3_9, topic_name), run_async)

    assert (row.action, row.error) == (Action.CREATE_AND_COPY, None)


@pytest.mark.slow
def test_settings_the_destination_does_not_know_are_all_named_by_plan_and_by_run(
    source_kafka: EmbeddedKafka, kafka_2_8: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    east = source_kafka.bootstrap_servers
    # Both came with Kafka 3.6; retention.ms is known since ever.
    create_topic(
        east,
        topic_name,
        retention_ms=AGES_MS,
        message_timestamp_before_max_ms=AGES_MS,
        message_timestamp_after_max_ms=AGES_MS,
    )
    append(east, topic_name, 0, simple_records(10))
    config = configuration(tmp_path, source_kafka, kafka_2_8, topic_name)
    config.write_text(config.read_text().replace("cluster: west}", "cluster: west, offsets: map}"))

    (row,) = plan_of(config, run_async)
    ended = mirrorlake("run", "--once", "-c", config)

    named = (
        f"destination topic {topic_name} cannot be made like the source: the brokers of cluster west do not know "
        "message.timestamp.after.max.ms, message.timestamp.before.max.ms"
    )
    assert row.action is Action.REFUSE
    assert isinstance(row.error, UnsupportedError)
    assert row.error.message == named
    assert ended.code == 3
    assert named in ended.err
    assert topic_name not in topics_of(kafka_2_8.bootstrap_servers)

    # What the hint says.
    create_topic(kafka_2_8.bootstrap_servers, topic_name, retention_ms=AGES_MS)
    assert mirrorlake("run", "--once", "-c", config).code == 0
    assert list(consume(kafka_2_8.bootstrap_servers, topic_name, 0).values()) == simple_records(10)


def test_an_owner_on_kafka_2_8_finds_out_that_another_process_took_its_mirror(
    kafka_2_8: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    async def story() -> None:
        async with ClusterClient(settings_of(kafka_2_8.bootstrap_servers)) as client:
            first, second = (
                Ownership(client, mirror=topic_name, owner=name, clock=SystemClock()) for name in ("first", "second")
            )
            await read_states(client)  # makes the topic
            await first.take(OwnerState(mirror=topic_name))
            await first.prove()
            await first.update(OwnerState(mirror=topic_name, source_cluster_id="east"))
            await first.prove()
            await second.take(OwnerState(mirror=topic_name))

            with pytest.raises(SupersededError, match=topic_name):
                await first.prove()
            assert not first.is_held
            await second.prove()
            assert (await state_written_by(client, topic_name, "second")).mirror == topic_name

    run_async(story())
