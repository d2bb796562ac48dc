"""One lane serves all copies while none is behind, and all lanes again when that is not enough; no Spark, no Kafka."""

from pathlib import Path

import pytest

from mirrorlake.errors import BrokerUnreachableError, OutcomeUnknownError
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.service.balance import BEHIND_MIN, GATHER_AFTER_SECONDS
from unit.service.test_supervisor import Bench, archive_state, found, kafka_state, row

PARTITIONS = range(4)
END = 50


class GatheringBench(Bench):
    """Four copies at their sources' ends, in two lanes; what both leases did has been taken."""

    def __init__(self, *, once: bool = False, archives: int = 0, lease_files: LeaseFiles | None = None) -> None:
        copies, kept = [kafka_state(n) for n in PARTITIONS], [archive_state(n) for n in range(archives)]
        super().__init__(*copies, *kept, once=once, gathers=True, lease_files=lease_files)
        self.copies = copies
        self.look()

    def look(self, *, end: int = END) -> None:
        self.observe(**{f"p{n}": end for n in PARTITIONS})

    def run(self, lane: int, *, position: int = END) -> list[int]:
        """Runs a lease; returns the partitions it copied."""
        if (leased := self.next(lane)) is None:
            return []
        lease, plan = leased
        numbers = [work.source.partition for work in plan.partitions]
        self.end(lane, lease, *(row(self.copies[n], position) for n in numbers))
        return sorted(numbers)

    def is_gathered_after(self, seconds: float = GATHER_AFTER_SECONDS) -> bool:
        self.clock.advance(seconds)
        self.look()
        return (self.run(0), self.run(1)) == ([0, 1, 2, 3], [])


def test_one_lane_serves_everything_once_nothing_was_behind_for_a_while() -> None:
    bench = GatheringBench()
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])
    assert not bench.is_gathered_after(GATHER_AFTER_SECONDS - 1)
    assert bench.is_gathered_after(2.0)


def test_leases_that_run_are_recalled_and_no_partition_is_in_two(tmp_path: Path) -> None:
    bench = GatheringBench(lease_files=LeaseFiles(tmp_path))
    bench.run(0), bench.run(1)
    (first, first_plan), (second, second_plan) = found(bench, 0), found(bench, 1)
    bench.clock.advance(GATHER_AFTER_SECONDS)
    bench.look()
    bench.supervisor.recall_waited_for()
    assert Path(second_plan.recall_file).exists()
    bench.end(0, first, *(row(bench.copies[n], END) for n in (0, 2)))
    assert bench.run(0) == [0, 2], "the others are in the lease of the other lane"
    bench.end(1, second, *(row(bench.copies[n], END) for n in (1, 3)))
    assert (bench.run(1), bench.run(0)) == ([], [0, 1, 2, 3])
    assert not Path(first_plan.recall_file).exists()


def test_all_lanes_serve_again_when_a_backlog_is_seen() -> None:
    bench = GatheringBench()
    bench.run(0), bench.run(1)
    assert bench.is_gathered_after()
    bench.clock.advance(2.0)
    bench.look(end=END + BEHIND_MIN // 2)
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])


@pytest.mark.parametrize("error", [OutcomeUnknownError("the worker died"), BrokerUnreachableError("no executor")])
def test_all_lanes_serve_again_when_a_lease_brought_nothing_back(error: OutcomeUnknownError) -> None:
    bench = GatheringBench()
    bench.run(0), bench.run(1)
    assert bench.is_gathered_after()
    lease, _ = found(bench, 0)
    bench.supervisor.lease_ended(0, lease, error)
    bench.clock.advance(60.0)
    bench.look()
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])
    assert not bench.is_gathered_after(500.0), "what kills a worker may do so again"
    assert bench.is_gathered_after(100.0)


def test_nothing_is_gathered_where_a_lag_is_not_known() -> None:
    bench = GatheringBench()
    assert bench.run(0) == [0, 2], "the positions of the others are not known"
    bench.clock.advance(GATHER_AFTER_SECONDS)
    bench.look()
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])


def test_a_mirror_with_a_limit_keeps_its_lanes_each_of_which_has_its_share() -> None:
    bench = GatheringBench()
    bench.limits = {"m": 1 << 20}
    bench.run(0), bench.run(1)
    assert not bench.is_gathered_after()
    bench.limits = {}
    assert bench.is_gathered_after()
    bench.limits = {"m": 1 << 20}
    bench.clock.advance(2.0)
    bench.look()
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])


def test_a_bounded_run_and_one_that_stops_gather_nothing() -> None:
    bench = GatheringBench(once=True)
    bench.clock.advance(GATHER_AFTER_SECONDS)
    bench.look()
    assert (bench.run(0), bench.run(1)) == ([0, 2], [1, 3])


def test_segments_are_cut_by_the_lane_that_copies_nothing() -> None:
    bench = GatheringBench(archives=2)
    bench.run(0), bench.run(1)
    assert bench.is_gathered_after()
    bench.clock.advance(61.0)
    bench.observe(p0=END + 5, p1=END + 5)
    _, plan = found(bench, 1)
    assert [(work.source.partition, [d.destination for d in work.destinations]) for work in plan.partitions] == [
        (0, ["lake"])
    ]
