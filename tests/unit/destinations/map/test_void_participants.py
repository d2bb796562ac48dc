"""A shard's transaction is given up by another source's batch while a sink that has joined it is still opening."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.destinations.map.moves import begun_at
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import MapSettings
from mirrorlake.destinations.map.shard_transaction import ShardTransaction
from mirrorlake.destinations.map.sink import MapSink
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant
from mirrorlake.destinations.orders import NO_ORDERS
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ClusterMetadata, TopicMetadata
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.records import Record
from support.sinks import delivery_of, dense_batch

SOURCE = TopicPartition("orders", 0)
PROGRESS = begun_at(
    3, source_cluster_id="east", source_topic_id="id", destination_topic_id="there", destination_partition=0
)
SETTINGS = MapSettings(
    source=SOURCE,
    destination=TopicPartition("copy", 0),
    topics=ProgressTopics(mirror="m", shards=1),
    shard=0,
    transactional_id="mirrorlake.m.0.map",
    source_cluster_id="east",
    source_topic_id="id",
    batch_bytes_max=1 << 20,
)


class Shard:
    """Admits, and gives up as `OwnedShard.fail` does: every participant is void and told so, once."""

    def __init__(self) -> None:
        self.participants: list[Participant] = []
        self.taken: list[Participant] = []
        self.known: dict[ProgressKey, MapProgress] = {}

    async def progress_of(self, _: ProgressKey, __: object) -> MapProgress:
        return PROGRESS

    async def join(
        self, _: ProgressKey, *, make_participant: Callable[[MapProgress | None], Participant], **__: Any
    ) -> Participant:
        participant = make_participant(PROGRESS)
        self.participants.append(participant)
        return participant

    async def await_commit(self, _: Participant) -> None:
        return

    def coalesced_bytes(self, *_: object, **__: object) -> int:
        return 0

    def is_void(self, participant: Participant) -> bool:
        return participant not in self.participants

    def take(self, participant: Participant, _: MapAppend) -> None:
        assert participant in self.participants, "its batches would be committed without its progress"
        self.taken.append(participant)

    def give_up(self, error: OutcomeUnknownError) -> None:
        participants, self.participants = self.participants, []
        for participant in participants:
            participant.member.shard_failed(error)


class Client:
    async def metadata(self, *_: object, **__: object) -> ClusterMetadata:
        topic = TopicMetadata(name="copy", topic_id="there", is_internal=False, partitions={})
        return ClusterMetadata(cluster_id="west", controller_id=1, brokers={}, topics={"copy": topic})


def sink_of(shard: Shard, check_tail: Callable[[ProgressKey, MapProgress], Awaitable[None]]) -> MapSink:
    async def find_start() -> int:
        raise AssertionError("it has progress")

    return MapSink(
        SETTINGS,
        NO_ORDERS,
        shard=cast(ShardTransaction, shard),
        client=cast(ClusterClient, Client()),
        find_start=find_start,
        check_tail=check_tail,
        clock=ManualClock(),
        changed=lambda: None,
    )


def failure_of(sink: MapSink) -> str:
    return sink.failure.message if sink.failure is not None else ""


async def deliver(sink: MapSink) -> None:
    records = [Record(timestamp=1, key=None, value=b"v%d" % n) for n in range(2)]
    batch = dense_batch(records, 3)
    await sink.deliver(delivery_of([batch], OffsetRange(start_offset=3, end_offset=5), end_offset=5))


@pytest.mark.parametrize("failed_before", [False, True], ids=["first open", "opens again"])
def test_a_sink_whose_shard_is_given_up_while_its_tail_is_compared_hands_nothing_over_before_it_joins_again(
    *, failed_before: bool
) -> None:
    shard = Shard()
    given_up: list[OutcomeUnknownError] = []

    async def check_tail(_: ProgressKey, __: MapProgress) -> None:
        if given_up:
            shard.give_up(given_up.pop())

    async def run() -> None:
        sink = sink_of(shard, check_tail)
        if failed_before:
            await sink.open()
            shard.give_up(OutcomeUnknownError("the first"))
        given_up.append(OutcomeUnknownError("the newest"))

        await sink.open()

        assert failure_of(sink) == "the newest"
        with pytest.raises(OutcomeUnknownError, match="the newest"):
            await deliver(sink)
        assert not shard.taken

        await sink.open()

        assert failure_of(sink) == ""
        await deliver(sink)
        assert shard.taken == shard.participants

    asyncio.run(run())


def test_a_sink_that_was_not_told_that_its_shard_is_given_up_hands_nothing_over() -> None:
    shard = Shard()

    async def check_tail(_: ProgressKey, __: MapProgress) -> None:
        return

    async def run() -> None:
        sink = sink_of(shard, check_tail)
        await sink.open()
        shard.participants.clear()

        with pytest.raises(OutcomeUnknownError, match="has not joined its shard again"):
            await deliver(sink)
        assert not shard.taken

        await sink.open()
        await deliver(sink)
        assert shard.taken == shard.participants

    asyncio.run(run())
