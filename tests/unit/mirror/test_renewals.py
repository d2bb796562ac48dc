"""A lease takes what its driver has allowed: where everything stands, in time, counted from when it was allowed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.mirror.lease_time import LeaseTime
from mirrorlake.mirror.renewal import Renewals, is_taken, read_renewal, write_renewal
from mirrorlake.moments import Moment
from unit.mirror.test_live_ends import plan

LIVE_SECONDS = 20.0


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def fails() -> bool:
    raise RuntimeError("a bug")


class Lease:
    """One that began at 0 of its clock."""

    def __init__(self, file: Path | None, stands: Callable[[], Awaitable[bool]] = yes) -> None:
        self.clock = ManualClock()
        began = self.clock.elapsed_seconds()
        self.time = LeaseTime(replace(plan(LIVE_SECONDS), live_seconds=LIVE_SECONDS), self.clock, began_seconds=began)
        self._ends = self.time.live_until, self.time.hard_until
        self.renewals = Renewals(
            str(file or ""), time=self.time, clock=self.clock, stands=stands, prolong=self.time.prolong
        )

    async def turn(self, *, is_whole: bool = True) -> tuple[float, float]:
        """Looks twice, so that what is asked is answered; returns by how much its ends have moved."""
        for _ in range(2):
            self.renewals.turn(is_whole=is_whole)
            await asyncio.sleep(0.01)
        return self.time.live_until - self._ends[0], self.time.hard_until - self._ends[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "renewal-1"


def test_all_ends_come_later_by_what_was_allowed_and_the_time_it_took_to_ask_is_no_part_of_it(file: Path) -> None:
    async def run() -> None:
        lease = Lease(file)
        assert await lease.turn() == (0.0, 0.0)
        lease.clock.advance(15.0)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
        lease.clock.advance(3.0)
        assert await lease.turn() == (15.0, 15.0)
        assert await lease.turn() == (15.0, 15.0), "once"
        lease.clock.advance(12.0)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
        assert await lease.turn() == (30.0, 30.0)

    asyncio.run(run())


@pytest.mark.parametrize("stands", [no, fails])
def test_a_lease_that_does_not_stand_or_cannot_tell_ends_when_it_would_have(
    file: Path, stands: Callable[[], Awaitable[bool]]
) -> None:
    async def run() -> None:
        lease = Lease(file, stands)
        lease.clock.advance(15.0)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
        assert await lease.turn() == (0.0, 0.0)
        assert await lease.turn() == (0.0, 0.0)

    asyncio.run(run())


def test_a_lease_with_a_partition_that_has_ended_does_not_go_on(file: Path) -> None:
    async def run() -> None:
        lease = Lease(file)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=2 * LIVE_SECONDS))
        assert await lease.turn(is_whole=False) == (0.0, 0.0)

    asyncio.run(run())


@pytest.mark.parametrize("stopped_seconds", [5.1, 100.0])
def test_a_lease_that_was_stopped_past_its_end_does_not_go_on_though_it_was_allowed(
    file: Path, stopped_seconds: float
) -> None:
    async def run() -> None:
        lease = Lease(file)
        lease.clock.advance(15.0)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
        lease.renewals.turn(is_whole=True)
        await asyncio.sleep(0.01)
        lease.clock.advance(stopped_seconds)
        assert await lease.turn() == (0.0, 0.0)

    asyncio.run(run())


def test_a_recalled_lease_does_not_go_on(file: Path) -> None:
    async def run() -> None:
        lease = Lease(file)
        lease.clock.advance(15.0)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
        lease.renewals.turn(is_whole=True)
        lease.time.end_live(lease.clock.elapsed_seconds())
        await lease.turn()
        assert lease.time.live_is_over

    asyncio.run(run())


class StoppedClock(ManualClock):
    """Its process is stopped for three seconds after each time it was looked at."""

    stops = False

    def elapsed_seconds(self) -> float:
        now = super().elapsed_seconds()
        if self.stops:
            self.advance(3.0)
        return now


def test_a_lease_that_is_stopped_while_it_counts_ends_no_later_than_it_was_allowed(file: Path) -> None:
    async def run() -> None:
        clock = StoppedClock()
        time = LeaseTime(replace(plan(LIVE_SECONDS), live_seconds=LIVE_SECONDS), clock, began_seconds=0.0)
        renewals = Renewals(str(file), time=time, clock=clock, stands=yes, prolong=time.prolong)
        clock.advance(5.0)
        write_renewal(str(file), Moment.of(clock, in_seconds=LIVE_SECONDS))
        renewals.turn(is_whole=True)
        await asyncio.sleep(0.01)
        clock.stops = True
        renewals.turn(is_whole=True)
        assert LIVE_SECONDS < time.live_until <= 5.0 + LIVE_SECONDS

    asyncio.run(run())


def test_what_was_taken_is_taken_away_and_what_was_not_stays(file: Path) -> None:
    async def run() -> None:
        for stands, taken in ((no, False), (yes, True)):
            lease = Lease(file, stands)
            lease.clock.advance(15.0)
            write_renewal(str(file), Moment.of(lease.clock, in_seconds=LIVE_SECONDS))
            await lease.turn()
            assert is_taken(str(file)) is taken

    asyncio.run(run())


def test_an_end_that_is_nearer_than_its_own_changes_nothing(file: Path) -> None:
    async def run() -> None:
        lease = Lease(file)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=5.0))
        assert await lease.turn() == (0.0, 0.0)

    asyncio.run(run())


def test_what_is_asked_is_given_up_with_the_lease(file: Path) -> None:
    async def hangs() -> bool:
        await asyncio.sleep(3600.0)
        return True

    async def run() -> None:
        lease = Lease(file, hangs)
        write_renewal(str(file), Moment.of(lease.clock, in_seconds=30.0))
        await lease.turn()
        await lease.renewals.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_file_that_cannot_be_written_or_read_allows_nothing(tmp_path: Path) -> None:
    write_renewal(str(tmp_path / "gone" / "renewal-1"), Moment.of(ManualClock()))
    assert read_renewal(str(tmp_path / "gone" / "renewal-1")) is None


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x05K\x01.", b"garbage", b"cnowhere\nthing\n."])
def test_a_file_with_anything_else_in_it_allows_nothing_and_costs_the_lease_nothing(file: Path, content: bytes) -> None:
    async def run() -> None:
        lease = Lease(file)
        file.write_bytes(content)
        assert await lease.turn() == (0.0, 0.0)

    asyncio.run(run())
