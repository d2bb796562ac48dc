"""A full window of Produce requests: the answers gather before they are read, and wait for no slow one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.destinations import round_trips
from mirrorlake.destinations.append_channel import GATHER_SECONDS_MAX, Append, AppendChannel
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.records.batch_header import read_header
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.produce import ProducedPartition
from mirrorlake.kafka.wire.settings import ClusterSettings
from support.copies import create_topic, log_end
from support.proxy import PRODUCE, Held, Proxy
from support.records import build_batch, simple_records

pytestmark = pytest.mark.kafka

BATCHES = 100


def one_record(number: int) -> Append:
    data = memoryview(build_batch(simple_records(1, start=number)))
    return Append(read_header(data, 0, len(data)), data, len(data), number, number + 1, 1, "raw", 0, None)


@dataclass
class Appender:
    """What a channel sees of a sink that has `BATCHES` to send, as many at once as it may."""

    topic: str
    partition: int = 0
    waiting: deque[Append] = field(default_factory=lambda: deque(map(one_record, range(BATCHES))))
    base_offsets: list[int] = field(default_factory=list)
    lost: list[MirrorlakeError] = field(default_factory=list)

    def next_append(self) -> Append | None:
        return self.waiting.popleft() if self.waiting else None

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        assert (answer.error_code, answer.base_offset) == (0, append.expected_offset)
        self.base_offsets.append(answer.base_offset)

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        self.lost.append(error)


async def opened(proxy: Proxy) -> AppendChannel:
    settings = ClusterSettings(name="west", bootstrap_servers=(proxy.address,))
    connection = await Connection.open("127.0.0.1", proxy.port, settings=settings, buffers=BufferPool(1 << 20, 1 << 20))
    return AppendChannel(connection, clock=SystemClock(), send_until_seconds=float("inf"), timeout_seconds=30.0)


async def all_sent_while_one_is_held(
    proxy: Proxy, appender: Appender, *, answered: int, while_held: Callable[[Held], Awaitable[None]]
) -> None:
    """Sends all; the request after so many is held at the broker once those before it are answered."""
    channel = await opened(proxy)
    held = proxy.hold(PRODUCE, after_requests=answered + 1)
    channel.notify(appender)
    await until_answered(appender, answered)  # though a full window waits for more
    await while_held(held)
    held.release()
    await until_answered(appender, BATCHES)
    channel.close()


async def until_answered(appender: Appender, count: int) -> None:
    async with asyncio.timeout(20):
        while len(appender.base_offsets) < count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("answered", "under_way"), [(0, 5), (4, 9), (15, 20), (40, 20)])
def test_five_requests_are_under_way_at_first_and_twenty_after_some_answers(
    proxy: Proxy,
    topic_name: str,
    run_async: RunAsync,
    monkeypatch: pytest.MonkeyPatch,
    answered: int,
    under_way: int,
) -> None:
    monkeypatch.setattr(round_trips, "SLOW_ANSWER_SECONDS", float("inf"))  # the machine may be busy
    create_topic(proxy.address, topic_name)
    appender = Appender(topic_name)

    async def while_held(held: Held) -> None:
        await asyncio.to_thread(held.await_arrival, 20.0)
        await asyncio.sleep(2 * GATHER_SECONDS_MAX)
        assert len(appender.waiting) == BATCHES - answered - under_way

    run_async(all_sent_while_one_is_held(proxy, appender, answered=answered, while_held=while_held))
    assert appender.base_offsets == list(range(BATCHES))
    assert log_end(proxy.address, topic_name) == BATCHES


@pytest.mark.parametrize("answered", [1, 5, 11, 12, 13, 19])
def test_a_batch_that_the_broker_is_slow_with_keeps_no_answer_of_those_before_it(
    proxy: Proxy, topic_name: str, run_async: RunAsync, answered: int
) -> None:
    create_topic(proxy.address, topic_name)
    appender = Appender(topic_name)

    async def while_held(_held: Held) -> None:
        assert len(appender.base_offsets) == answered

    run_async(all_sent_while_one_is_held(proxy, appender, answered=answered, while_held=while_held))
    assert appender.base_offsets == list(range(BATCHES))


def test_answers_that_were_gathering_when_the_connection_broke_are_each_lost_or_taken_once(
    proxy: Proxy, topic_name: str, run_async: RunAsync
) -> None:
    create_topic(proxy.address, topic_name)
    appender = Appender(topic_name)
    proxy.cut_before_answer(PRODUCE, after_requests=8)

    async def scenario() -> None:
        channel = await opened(proxy)
        channel.notify(appender)
        async with asyncio.timeout(20):
            while not channel.is_closed or len(appender.base_offsets) + len(appender.lost) < (
                BATCHES - len(appender.waiting)
            ):
                await asyncio.sleep(0.01)
        await asyncio.sleep(2 * GATHER_SECONDS_MAX)

    run_async(scenario())
    assert appender.base_offsets == list(range(7)), "their answers were there before the connection broke"
    assert len(appender.base_offsets) + len(appender.lost) == BATCHES - len(appender.waiting)
    assert {type(error) for error in appender.lost} == {OutcomeUnknownError}
