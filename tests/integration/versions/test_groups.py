"""Consumer groups on older brokers: the same answers in the versions they know."""

import pytest

from conftest import RunAsync
from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition
from support.groups import member, new_group
from support.records import settings_of, simple_records
from support.topics import make_topic

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", ["kafka_2_8", "kafka_3_9"])
def test_groups_are_listed_read_and_committed_for_and_those_with_members_refuse(
    version: str, request: pytest.FixtureRequest, topic_name: str, run_async: RunAsync
) -> None:
    servers, where = request.getfixturevalue(version).bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(5))
    groups, live = [new_group(), new_group()], new_group()
    committed = CommittedOffset(offset=3, leader_epoch=0, metadata="m")

    async def asking() -> None:
        async with ClusterClient(settings_of(servers)) as client, member(servers, live, [topic_name], reset="earliest"):
            for group in groups:
                assert await client.groups.commit(group, {where: committed}) == {where: None}
            listed = (await client.groups.list()).groups
            assert [listed[each].state for each in (*groups, live)] == ["Empty", "Empty", "Stable"]
            assert await client.groups.states([*groups, live]) == dict(
                zip((*groups, live), ("Empty", "Empty", "Stable"), strict=True)
            )
            assert await client.groups.offsets(dict.fromkeys(groups)) == {each: {where: committed} for each in groups}
            with pytest.raises(BrokerNotReadyError, match="stop its consumers"):
                await client.groups.commit(live, {where: committed})

    run_async(asking())
