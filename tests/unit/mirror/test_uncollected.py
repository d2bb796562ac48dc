"""A lease of many partitions begins without Python's collector, and never goes on for long without it."""

import asyncio
import gc

import pytest

from mirrorlake.mirror import lease_worker
from mirrorlake.mirror.lease_worker import UNCOLLECTED_PARTITIONS_MIN, _uncollected

MANY = UNCOLLECTED_PARTITIONS_MIN


async def collected_in(partitions: int, *, after_seconds: float = 0.0) -> bool:
    with _uncollected(partitions):
        await asyncio.sleep(after_seconds)
        return gc.isenabled()


def test_the_collector_is_away_at_the_beginning_of_a_large_lease_alone() -> None:
    assert not asyncio.run(collected_in(MANY))
    assert asyncio.run(collected_in(MANY - 1))
    assert gc.isenabled()


def test_it_is_back_after_a_while_though_the_lease_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_worker, "UNCOLLECTED_SECONDS", 0.01)
    assert asyncio.run(collected_in(MANY, after_seconds=0.2))
    assert gc.isenabled()


def test_it_is_back_after_a_lease_that_failed() -> None:
    async def fail() -> None:
        with _uncollected(MANY):
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(fail())
    assert gc.isenabled()


def test_who_goes_without_it_anyway_still_does_afterwards() -> None:
    gc.disable()
    try:
        assert not asyncio.run(collected_in(MANY))
        assert not gc.isenabled()
    finally:
        gc.enable()
