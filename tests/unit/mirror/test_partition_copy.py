"""Handing deliveries to sinks while sinks, or the source, fail."""

import asyncio

from mirrorlake.destinations.interface import Delivery, Progress
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError, OutcomeUnknownError, PositionMovedError
from mirrorlake.kafka.fetch import FetchedPartition
from mirrorlake.mirror.partition_copy import PartitionCopy
from mirrorlake.mirror.reader import PinnedAnswer
from mirrorlake.offsets import TopicPartition
from support.records import build_batch, simple_records

SOURCE = TopicPartition("orders", 0)


class Frame:
    """Counts how often its buffer was given back."""

    def __init__(self) -> None:
        self.releases = 0

    def release(self) -> None:
        self.releases += 1


class RacingSink:
    """A sink that lost a race: opened again, it stands at offset 20, or cannot be opened."""

    is_done = False
    is_endless = True
    has_room = True

    def __init__(self, *, open_error: MirrorlakeError | None = None) -> None:
        self.progress = Progress(claims=1)
        self.failure: MirrorlakeError | None = PositionMovedError("another writer was faster")
        self.next_offset = 0
        self.opening = asyncio.Event()
        self.may_open = asyncio.Event()
        self.delivered: list[int] = []
        self._open_error = open_error

    async def open(self) -> None:
        self.opening.set()
        await self.may_open.wait()
        if self._open_error is not None:
            raise self._open_error
        self.failure = None
        self.next_offset = 20

    async def deliver(self, delivery: Delivery) -> None:
        self.delivered.append(delivery.covered.start_offset)

    async def starts_at(self, log_start: int) -> bool:
        return False

    async def finish(self) -> None: ...

    def abandon(self) -> None: ...


async def never_out_of_range(position: int) -> MirrorlakeError:
    raise AssertionError(position)


def copy_to(sink: RacingSink) -> PartitionCopy:
    return PartitionCopy(SOURCE, [sink], end_offset=None, changed=lambda: None, explain_out_of_range=never_out_of_range)


def ten_records() -> FetchedPartition:
    """What the source answers for offset 0."""
    return FetchedPartition(
        topic=SOURCE.topic,
        partition=SOURCE.partition,
        error_code=0,
        high_watermark=10,
        last_stable_offset=10,
        log_start_offset=0,
        aborted=(),
        records=memoryview(bytearray(build_batch(simple_records(10)))),
    )


def test_an_answer_that_comes_while_a_sink_claims_again_is_dropped() -> None:
    async def body() -> None:
        sink, frame = RacingSink(), Frame()
        copy = copy_to(sink)
        assert copy.fetch_offset == 0
        running = asyncio.create_task(copy.run())
        await sink.opening.wait()
        answer = PinnedAnswer(frame)  # type: ignore[arg-type]
        copy.fetched(ten_records(), answer, is_quiet=False)
        answer.unpin()
        sink.may_open.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sink.delivered == []
        assert frame.releases == 1
        assert copy.fetch_offset == 20
        running.cancel()

    asyncio.run(body())


def test_a_source_and_a_destination_that_fail_at_the_same_time_end_the_sink_once() -> None:
    async def body() -> None:
        sink = RacingSink(open_error=OutcomeUnknownError("the destination is gone too"))
        copy = copy_to(sink)
        running = asyncio.create_task(copy.run())
        await sink.opening.wait()
        lost = BrokerUnreachableError("the source is gone")
        copy.fetch_failed(lost)
        sink.may_open.set()
        await running
        assert [error.message for error in copy.errors.values()] == [lost.message]

    asyncio.run(body())
