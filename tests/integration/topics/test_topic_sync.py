"""Acts on destination topics against real brokers: at the same time as others, and after the world has changed."""

import asyncio

import pytest

from conftest import RunAsync
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.sync.applying import apply_topics
from mirrorlake.topics.sync.differences import Act
from mirrorlake.topics.sync.plan import TopicPlan, plan_topics
from mirrorlake.topics.topic_creation import with_new_topics
from support.copies import create_topic
from support.records import settings_of

pytestmark = pytest.mark.kafka


def configuration(east: str, west: str, topic: str) -> Configuration:
    text = (
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
        f"mirrors:\n  - name: m\n    source: {{cluster: east, topics: ['/{topic}-.*/']}}\n"
        '    destinations: [{type: kafka, cluster: west, topic: "{topic}-copy", sync: {configs: apply}}]\n'
    )
    return parse_configuration(text.encode(), file="test.yaml", environ={})


async def planned(config: Configuration) -> TopicPlan:
    clients = WorkerCache()
    try:
        return await plan_topics(config, clients)
    finally:
        await clients.close()


async def applied(config: Configuration, plan: TopicPlan) -> TopicPlan:
    clients = WorkerCache()
    try:
        return await apply_topics(config, clients, plan)
    finally:
        await clients.close()


def test_two_that_do_the_same_plan_at_once_both_find_it_done(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for number in range(6):
        create_topic(east, f"{topic_name}-{number}", 3, retention_ms="7200000")
        if number % 2:
            create_topic(west, f"{topic_name}-{number}-copy", 1, retention_ms="1000")
    config = configuration(east, west, topic_name)

    async def both() -> tuple[list[TopicPlan], TopicPlan]:
        plan = await planned(config)
        return await asyncio.gather(*(applied(config, plan) for _ in range(3))), await planned(config)

    done, after = run_async(both())

    for each in done:
        assert [(row.key, str(row.difference.error)) for row in each.undone] == []
        assert len(each.acts) == 9
    assert (list(after.rows), after.topics) == ([], 6)


def test_a_topic_deleted_since_the_plan_fails_by_name_and_keeps_no_other_act_from_being_done(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    gone, stays = f"{topic_name}-a", f"{topic_name}-b"
    for name in (gone, stays):
        create_topic(east, name, 1, retention_ms="7200000")
        create_topic(west, f"{name}-copy", 1, retention_ms="1000")
    config = configuration(east, west, topic_name)

    async def scene() -> tuple[TopicPlan, TopicPlan]:
        plan = await planned(config)
        async with ClusterClient(settings_of(west)) as client:
            await client.topics.delete(f"{gone}-copy")
            while f"{gone}-copy" in (await client.metadata([f"{gone}-copy"], refresh=True)).topics:
                await asyncio.sleep(0.1)
        done = await applied(config, plan)
        return done, await applied(config, await planned(config))

    first, second = run_async(scene())

    results = {(row.facts.name, row.difference.act): row.result for row in first.acts}
    assert results[f"{gone}-copy", Act.SET] == "failed"
    assert results[f"{stays}-copy", Act.SET] == "done"
    assert results[f"{gone}-copy", Act.CREATE] == "", "found when all was read again, and not done unseen"
    assert [(row.facts.name, row.difference.act, row.result) for row in second.acts] == [
        (f"{gone}-copy", Act.CREATE, "done")
    ]


def test_a_topic_that_another_process_made_since_it_was_found_missing_is_taken_as_it_is_and_not_refused(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, f"{topic_name}-a", 1, retention_ms="7200000")
    config = configuration(east, west, topic_name)

    async def scene() -> list[tuple[bool, str]]:
        clients = WorkerCache()
        try:
            missing = await find_targets(config, clients)
            async with ClusterClient(settings_of(west)) as other:
                await other.topics.create(f"{topic_name}-a-copy", partitions=1, replication_factor=1)
            asked = await with_new_topics(missing, clients)
            return [(each.creation is not None, str(each.error)) for each in asked]
        finally:
            await clients.close()

    assert run_async(scene()) == [(True, "None")]
