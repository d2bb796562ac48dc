"""Which topics of a cluster a read takes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, PartitionMetadata, TopicMetadata
from mirrorlake.offsets import TopicPartition
from mirrorlake.spark_source.kafka_plan import find_live


class Client:
    """Answers with what is given."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    async def metadata(self, _topics: Sequence[str] | None, *, refresh: bool) -> ClusterMetadata:
        assert refresh
        return self._metadata


def test_a_topic_that_cannot_be_read_at_the_moment_is_none_that_an_expression_leaves_out() -> None:
    partition = PartitionMetadata(partition=0, leader=1, leader_epoch=1, replicas=(1,), isr=(1,), error_code=0)
    orders = TopicMetadata(name="orders", topic_id="a", is_internal=False, partitions={0: partition})
    metadata = ClusterMetadata(
        cluster_id="c",
        controller_id=1,
        brokers={1: ("east", 9092)},
        topics={"orders": orders},
        errors={"orders-2": BrokerNotReadyError("not yet")},
    )
    client: Any = Client(metadata)

    assert asyncio.run(find_live(client, (), ("orders",))) == ({"orders": "a"}, [TopicPartition("orders", 0)])
    with pytest.raises(BrokerNotReadyError):
        asyncio.run(find_live(client, (), ("orders.*",)))
