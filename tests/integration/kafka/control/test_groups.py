"""Consumer groups of a real cluster: listed, read and committed for; one with members is left to them."""

import asyncio
from collections.abc import Mapping

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, BrokerUnreachableError, MirrorlakeError, TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import EMPTY_GROUP_STATES, CommittedOffset
from mirrorlake.kafka.control.groups import GROUPS_PER_REQUEST, GroupOffsets
from mirrorlake.kafka.wire.error_codes import GROUP_HAS_MEMBERS
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.groups import join_as_kip_848, member, new_group, offsets_in_a_transaction
from support.kafka_nodes import KafkaNodes
from support.records import settings_of, simple_records
from support.topics import make_topic

pytestmark = pytest.mark.kafka


def offsets_of(answers: Mapping[str, GroupOffsets | MirrorlakeError], group: str) -> GroupOffsets:
    found = answers[group]
    assert not isinstance(found, MirrorlakeError), found
    return found


def test_what_is_committed_for_a_group_is_read_back_whole(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, group, where = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(5))
    committed = CommittedOffset(offset=3, leader_epoch=0, metadata="as far as – here")

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert offsets_of(await client.groups.offsets({group: None}), group) == {}
            assert await client.groups.commit(group, {where: committed}) == {where: None}
            found = offsets_of(await client.groups.offsets({group: None}), group)
            assert found == {where: committed}
            other = TopicPartition(topic_name, 7)
            named = offsets_of(await client.groups.offsets({group: [where, other]}), group)
            assert named == {where: committed, other: None}
            listed = (await client.groups.list()).groups[group]
            assert (listed.protocol_type, listed.state, listed.type) == ("", "Empty", "classic")

    run_async(asking())


def test_a_group_with_members_refuses_who_is_none_and_keeps_what_it_has(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, group, where = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(5))

    async def asking() -> None:
        async with (
            ClusterClient(settings_of(servers)) as client,
            member(servers, group, [topic_name], reset="earliest"),
        ):
            assert (await client.groups.list()).groups[group].state == "Stable"
            assert await client.groups.states([group]) == {group: "Stable"}
            with pytest.raises(BrokerNotReadyError, match="stop its consumers") as refused:
                await client.groups.commit(group, {where: CommittedOffset(offset=3)})
            assert refused.value.facts["code"] in GROUP_HAS_MEMBERS
            assert offsets_of(await client.groups.offsets({group: [where]}), group) == {where: None}

    run_async(asking())


def test_a_group_of_kip_848_with_a_member_is_told_by_the_list_and_refuses_too(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, group, where = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(5))

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.groups.offsets({group: None})  # the coordinator is there from then on
            assert await join_as_kip_848(servers, group, topic_name) == 0
            listed = (await client.groups.list()).groups[group]
            assert (listed.protocol_type, listed.type) == ("consumer", "consumer")
            assert listed.state not in EMPTY_GROUP_STATES
            assert await client.groups.states([group]) == {group: "Dead"}, "DescribeGroups knows classic groups only"
            with pytest.raises(BrokerNotReadyError, match="stop its consumers"):
                await client.groups.commit(group, {where: CommittedOffset(offset=3)})

    run_async(asking())


def test_a_group_that_is_not_there_is_dead_and_has_nothing(source_kafka: EmbeddedKafka, run_async: RunAsync) -> None:
    group = new_group()

    async def asking() -> None:
        async with ClusterClient(settings_of(source_kafka.bootstrap_servers)) as client:
            assert await client.groups.states([group]) == {group: "Dead"}
            assert offsets_of(await client.groups.offsets({group: None}), group) == {}
            assert group not in (await client.groups.list()).groups

    run_async(asking())


def test_a_partition_that_is_not_there_is_refused_alone(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, group = source_kafka.bootstrap_servers, new_group()
    where, other = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    make_topic(servers, topic_name, simple_records(5))

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            answers = await client.groups.commit(group, dict.fromkeys((where, other), CommittedOffset(offset=2)))
            assert answers[where] is None
            assert isinstance(answers[other], TopicMissingError)

    run_async(asking())


def test_an_offset_that_a_transaction_would_commit_is_settled_or_has_an_error_never_none(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, group = source_kafka.bootstrap_servers, new_group()
    inside, beside = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    make_topic(servers, topic_name, simple_records(5), simple_records(5))

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.groups.commit(group, {beside: CommittedOffset(offset=1)})
            async with offsets_in_a_transaction(servers, group, {inside: 4}) as transaction:
                found = offsets_of(await client.groups.offsets({group: [inside, beside]}, is_stable=True), group)
                unstable = found[inside]
                assert isinstance(unstable, BrokerNotReadyError)
                assert unstable.facts["code_name"] == "UNSTABLE_OFFSET_COMMIT"
                assert found[beside] == CommittedOffset(offset=1, leader_epoch=-1)
                before = offsets_of(await client.groups.offsets({group: [inside]}), group)
                assert before == {inside: None}
                later = asyncio.create_task(client.groups.offsets({group: [inside]}, is_stable=True))
                await asyncio.sleep(0.2)
                await transaction.commit_transaction()
                settled = offsets_of(await later, group)[inside]
            assert isinstance(settled, CommittedOffset)
            assert settled.offset == 4

    run_async(asking())


def test_groups_of_every_broker_are_listed_and_asked_of_their_coordinators(
    kafka_nodes: KafkaNodes, topic_name: str, run_async: RunAsync
) -> None:
    servers, where = kafka_nodes.bootstrap_servers, TopicPartition(topic_name, 0)
    create_topic(servers, topic_name)
    groups = [new_group() for _ in range(GROUPS_PER_REQUEST + 5)]

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            for group in groups:
                # Not every broker knows of a new topic at once.
                while await client.groups.commit(group, {where: CommittedOffset(offset=1)}) != {where: None}:
                    await asyncio.sleep(0.05)
            listing = await client.groups.list()
            assert listing.unread == {}
            assert listing.groups.keys() >= {*groups}
        async with ClusterClient(settings_of(servers)) as client:
            found = await client.groups.offsets(dict.fromkeys(groups))
            assert [offsets_of(found, group) for group in groups] == [{where: CommittedOffset(offset=1)}] * len(groups)

    run_async(asking())


def test_a_cluster_that_cannot_be_reached_says_so_of_every_group(run_async: RunAsync) -> None:
    async def asking() -> None:
        async with ClusterClient(settings_of("127.0.0.1:1")) as client:
            found = await client.groups.offsets({"a": None, "b": None})
            assert [type(each) for each in found.values()] == [BrokerUnreachableError] * 2

    run_async(asking())
