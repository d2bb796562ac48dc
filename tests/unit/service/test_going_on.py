"""Which leases are allowed to go on, until when, and what the driver counts of them; no Spark, no Kafka."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.destinations.letters.settings import LetterSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.errors import NotOwnerError, OutcomeUnknownError, SupersededError
from mirrorlake.mirror.renewal import read_renewal
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.lanes import Lease
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.service.balance import BEHIND_MIN
from mirrorlake.service.lease_plans import seconds_until_over
from mirrorlake.service.leases.running import GOES_ON_AFTER, LIVE_TIMES_MAX
from mirrorlake.service.owners.holding import Holding
from unit.service.test_supervisor import HELD_FOR_EVER, Bench, archive_state, found, kafka_state, row

LIVE_SECONDS = 20.0
WAITS_SECONDS = GOES_ON_AFTER * LIVE_SECONDS


class HeldBench(Bench):
    """One whose holding a test changes."""

    def __init__(self, tmp_path: Path, *, held: Holding = HELD_FOR_EVER, archive: bool = False) -> None:
        more = (archive_state(1),) if archive else ()
        super().__init__(kafka_state(0), *more, lanes=1, lease_files=LeaseFiles(tmp_path))
        self.held = held
        self.supervisor._orders._holding = lambda mirror, cluster, shard, destination: self.held

    def long_lease(self, *, position: int = 100) -> tuple[Lease, LeasePlan]:
        """The second lease, of a partition that has caught up."""
        self.observe(p0=position)
        lease, _ = found(self, 0)
        self.clock.advance(5.0)
        self.end(0, lease, row(self.states[0], position))
        lease, plan = found(self, 0)
        assert plan.live_seconds == LIVE_SECONDS
        return lease, plan

    def allowed(self, plan: LeasePlan, *, after: float = WAITS_SECONDS) -> float | None:
        """How many seconds from now the lease may be live, once so many have passed."""
        self.clock.advance(after)
        self.supervisor.let_go_on()
        until = read_renewal(plan.renewal_file) if plan.renewal_file else None
        return None if until is None else -until.seconds_since(self.clock)

    def take(self, plan: LeasePlan) -> None:
        """Does as a worker that goes on by what was allowed."""
        Path(plan.renewal_file).unlink(missing_ok=True)


@pytest.fixture
def bench(tmp_path: Path) -> HeldBench:
    return HeldBench(tmp_path)


def test_a_lease_goes_on_for_as_long_as_one_that_begins_now_and_not_before_its_time(bench: HeldBench) -> None:
    lease, plan = bench.long_lease()
    assert bench.allowed(plan, after=WAITS_SECONDS - 0.1) is None
    assert lease.prolonged.seconds == 0.0
    assert bench.allowed(plan, after=0.1) == LIVE_SECONDS
    assert lease.prolonged.seconds == WAITS_SECONDS
    assert bench.allowed(plan, after=1.0) == LIVE_SECONDS - 1.0, "once at a time"
    bench.take(plan)
    assert bench.allowed(plan) == LIVE_SECONDS


def test_a_worker_that_takes_nothing_is_waited_for_no_longer(bench: HeldBench) -> None:
    lease, plan = bench.long_lease()
    assert bench.allowed(plan) == LIVE_SECONDS
    for _ in range(10):
        left = bench.allowed(plan)
        assert left is not None
        assert left < LIVE_SECONDS
    assert lease.prolonged.seconds == WAITS_SECONDS
    assert bench.supervisor.lease_overdue_seconds > 100.0


def test_a_lease_ends_after_so_many_live_times_whatever_it_was_allowed(bench: HeldBench) -> None:
    _, plan = bench.long_lease()
    began, last = bench.clock.elapsed_seconds(), 0.0
    for _ in range(4 * LIVE_TIMES_MAX):
        bench.take(plan)
        if (left := bench.allowed(plan)) is not None:
            last = max(last, bench.clock.elapsed_seconds() + left)
    assert LIVE_SECONDS * (LIVE_TIMES_MAX - 1) < last - began <= LIVE_SECONDS * LIVE_TIMES_MAX


def test_a_lost_lease_that_went_on_is_unknown_until_it_can_send_no_more(bench: HeldBench) -> None:
    lease, plan = bench.long_lease()
    assert bench.allowed(plan) == LIVE_SECONDS
    now = bench.clock.elapsed_seconds()
    assert bench.supervisor.lease_overdue_seconds == 0.0
    bench.supervisor.lease_ended(0, lease, OutcomeUnknownError("killed"))
    assert bench.states[0].unknown_until_seconds == now + seconds_until_over(plan.send_seconds)


def test_what_may_be_sent_is_over_when_the_driver_counts_it_over_though_it_was_stopped_meanwhile(
    tmp_path: Path,
) -> None:
    class StoppedClock(ManualClock):
        """Its process is stopped for a minute whenever it was looked at."""

        def elapsed_seconds(self) -> float:
            now = super().elapsed_seconds()
            self.advance(60.0)
            return now

    bench = HeldBench(tmp_path)
    lease, plan = bench.long_lease()
    clock = StoppedClock()
    clock.advance(WAITS_SECONDS + bench.clock.elapsed_seconds() - ManualClock().elapsed_seconds())
    bench.supervisor._clock = clock
    bench.supervisor.let_go_on()
    until = read_renewal(plan.renewal_file)
    (running,) = bench.supervisor._running.values()
    assert until is not None
    assert until.elapsed_seconds + (plan.send_seconds - plan.live_seconds) <= running.sends_until
    assert lease.prolonged.seconds == running.since - running.began


def pause(bench: HeldBench) -> None:
    bench.states[0].is_paused = True


def lag(bench: HeldBench) -> None:
    bench.observe(p0=100 + BEHIND_MIN)


def another_limit(bench: HeldBench) -> None:
    bench.states[0].size_limit = SizeLimit.of(1000)


def another_work(bench: HeldBench) -> None:
    bench.states[0].work = replace(bench.states[0].work, destination="other")


def another_id(bench: HeldBench) -> None:
    bench.held = replace(bench.held, own_producer_ids=frozenset({7}))


def lost_to_another(bench: HeldBench) -> None:
    bench.held = Holding(refusal=NotOwnerError("another's"))


def restart_asked(bench: HeldBench) -> None:
    bench.states[0].is_restart_asked = True


def limited(bench: HeldBench) -> None:
    """By a reload that could recall nothing, as the disk was full."""
    bench.limits["m"] = 100


def parked(bench: HeldBench) -> None:
    bench.states[0].is_parked = True


@pytest.mark.parametrize(
    "change",
    [
        *(pause, lag, another_limit, another_work, another_id, lost_to_another, restart_asked, parked, limited),
        lambda bench: bench.supervisor.stop(),
        lambda bench: bench.table.retire(bench.states),
        lambda bench: bench.supervisor.superseded(SupersededError("another process")),
    ],
)
def test_a_lease_does_not_go_on_where_the_next_one_would_be_told_something_else_or_is_waited_for(
    bench: HeldBench, change: Callable[[HeldBench], object]
) -> None:
    _, plan = bench.long_lease()
    bench.clock.advance(WAITS_SECONDS)
    change(bench)
    assert bench.allowed(plan, after=0.0) is None


def test_a_limit_of_another_mirror_keeps_no_lease_from_going_on(bench: HeldBench) -> None:
    _, plan = bench.long_lease()
    bench.limits["other"] = 100
    assert bench.allowed(plan) == LIVE_SECONDS


def test_a_lease_does_not_go_on_while_something_is_due_for_its_lane(tmp_path: Path) -> None:
    bench = HeldBench(tmp_path, archive=True)
    _, plan = bench.long_lease()
    bench.observe(p1=1000)
    assert bench.allowed(plan) is None


@pytest.mark.parametrize(
    "held", [Holding(), Holding(fills_from_seconds=1e9), Holding(refusal=NotOwnerError("another's"))]
)
def test_a_lease_that_waits_for_its_owner_before_leaves_that_to_the_next(tmp_path: Path, held: Holding) -> None:
    bench = HeldBench(tmp_path, held=held)
    _, plan = bench.long_lease()
    assert plan.renewal_file == ""
    assert bench.allowed(plan) is None


def test_the_first_lease_of_a_partition_and_one_that_could_not_be_told_never_go_on(tmp_path: Path) -> None:
    first = HeldBench(tmp_path)
    first.observe(p0=100)
    assert found(first, 0)[1].renewal_file == ""
    unreached = Bench(kafka_state(0), lanes=1)
    unreached.observe(p0=100)
    lease, _ = found(unreached, 0)
    unreached.end(0, lease, row(unreached.states[0], 100))
    assert found(unreached, 0)[1].renewal_file == ""


def test_a_lease_that_compares_a_copy_as_after_a_pause_ends_as_groups_wait_for_that(bench: HeldBench) -> None:
    lease, plan = bench.long_lease()
    bench.end(0, lease, row(bench.states[0], 100))
    bench.states[0].needs_tail_check = True
    lease, plan = found(bench, 0)
    assert (plan.live_seconds, plan.renewal_file) == (LIVE_SECONDS, "")
    bench.end(0, lease, row(bench.states[0], 100))
    assert found(bench, 0)[1].renewal_file


@pytest.mark.parametrize(("template", "may"), [("", True), ("{topic}.dead", False)])
def test_a_copy_with_a_topic_for_dead_letters_reads_them_with_each_lease(template: str, may: bool) -> None:
    work = kafka_state(0).work
    assert isinstance(work, PreserveWork)
    source = TopicPartition("orders", 0)
    letters = LetterSettings(
        mirror="m", template=template, shard=0, shards=1, source=source, destination_topic="orders"
    )
    assert replace(work, settings=replace(work.settings, letters=letters)).may_go_on is may


def test_a_lease_leaves_no_file_behind(bench: HeldBench, tmp_path: Path) -> None:
    lease, plan = bench.long_lease()
    assert bench.allowed(plan) == LIVE_SECONDS
    assert [file.name for file in tmp_path.iterdir()] == [Path(plan.renewal_file).name]
    bench.end(0, lease, row(bench.states[0], 100))
    assert list(tmp_path.iterdir()) == []
