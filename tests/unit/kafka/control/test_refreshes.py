"""When metadata is asked for again: other topics at once, the same ones after a moment, and never often."""

import asyncio
from collections.abc import Sequence

import pytest

from mirrorlake.kafka.control.brokers import REFRESH_SECONDS_MIN, REFRESHES_MAX, Brokers
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.settings import ClusterSettings

TOLD = ClusterMetadata(cluster_id="c", controller_id=1, brokers={1: ("h", 1)}, topics={})


def waits(monkeypatch: pytest.MonkeyPatch, *asked: Sequence[str] | None) -> list[bool]:
    """Asks for metadata of these topics, one call after the other; returns which of them waited."""
    waited: list[bool] = []

    async def no_sleep(seconds: float) -> None:
        assert seconds <= REFRESH_SECONDS_MIN
        waited.append(seconds > 0)

    async def tell(_: object) -> ClusterMetadata:
        return TOLD

    async def scenario() -> None:
        brokers = Brokers(ClusterSettings(name="c", bootstrap_servers=("h:1",)), BufferPool(1 << 20, 1 << 16))
        # One moment for all of them, however slow the machine is.
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 100.0)
        monkeypatch.setattr(brokers, "ask_any", tell)
        await brokers.metadata(("first of all",), refresh=True)
        for topics in asked:
            await brokers.metadata(topics, refresh=True)

    monkeypatch.setattr(asyncio, "sleep", no_sleep)
    asyncio.run(scenario())
    return waited


def test_topics_that_were_not_asked_about_just_now_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits(monkeypatch, ("a",), ("b", "c")) == [False, False]


def test_a_topic_that_was_asked_about_just_now_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits(monkeypatch, ("a",), ("a", "b"), ("b",)) == [False, True, True]


def test_all_topics_and_the_brokers_alone_wait_and_all_make_the_next_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits(monkeypatch, (), None, ("a",)) == [True, True, True]


def test_so_many_requests_in_a_moment_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waits(monkeypatch, *((f"t{number}",) for number in range(10)))
    # The first of all counts, too.
    assert found == [False] * (REFRESHES_MAX - 1) + [True] * (11 - REFRESHES_MAX)
