"""What keeps archives' schedules: one run of a destination at a time, moments that are not piled up, and an end."""

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from mirrorlake.clock import ManualClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import ChainBrokenError
from mirrorlake.pipeline.batch_jobs import BatchStoppedError
from mirrorlake.pipeline.lease_job import EngineDiedError
from mirrorlake.service.archive_keeper import RUNS_AT_ONCE, ArchiveKeeper
from mirrorlake.service.archives.scheduled import KeepingJob, KeepingOutcome, jobs_of
from mirrorlake.service.sight.keeping_board import KeepingBoard
from support.copies import wait_until

MERGED = KeepingOutcome(files=5, size_bytes=500, made=1, made_bytes=400)


def jobs(mirrors: int = 1, settings: str = "merge: {every: 10s}") -> list[KeepingJob]:
    text = 'clusters: {east: {bootstrap-servers: "east:9092"}}\nstores: {lake: {type: filesystem, root: /lake}}\n'
    text += "mirrors:\n"
    for number in range(mirrors):
        text += f"  - {{name: m{number}, source: {{cluster: east, topics: [t{number}]}}, "
        text += f"destinations: [{{type: archive, store: lake, {settings}}}]}}\n"
    return jobs_of(parse_configuration(text.encode(), file="mirror.yaml", environ={}))


class Scene:
    """A keeper that looks when it is told to, and what it has asked for."""

    def __init__(
        self,
        wanted: list[KeepingJob],
        do: Callable[[KeepingJob], KeepingOutcome] = lambda job: MERGED,
        *,
        is_ours: Callable[[str], bool] = lambda mirror: True,
    ) -> None:
        self.clock = ManualClock(1_700_000_000.0)  # a moment of a 10 s interval
        self.board, self.done, self.engine_deaths = KeepingBoard(), [], 0
        self._lock = threading.Lock()

        def counted(job: KeepingJob) -> KeepingOutcome:
            with self._lock:
                self.done.append(job.key)
            return do(job)

        self.keeper = ArchiveKeeper(
            wanted,
            do=counted,
            is_ours=is_ours,
            board=self.board,
            clock=self.clock,
            on_engine_dead=self._engine_died,
        )

    done: list[tuple[str, str, str]]

    def _engine_died(self) -> None:
        self.engine_deaths += 1

    def look(self, *, after: float = 0.0) -> None:
        self.clock.advance(after)
        self.keeper.look()

    def await_idle(self) -> None:
        wait_until(lambda: not any(thread.is_alive() for thread in self.keeper._running.values()), "runs to end")


def test_a_job_is_done_when_its_moment_has_come_and_not_before() -> None:
    scene = Scene(jobs())
    scene.look(after=9.9)
    assert scene.done == []
    scene.look(after=0.1)
    scene.look()
    scene.await_idle()
    assert scene.done == [("m0", "lake", "merge")]
    (row,) = scene.board.rows()
    assert (row["result"], row["files"], row["bytes"], row["next"]) == ("done", 5, 500, "2023-11-14T22:13:40Z")


def test_moments_that_pass_while_it_sleeps_or_works_are_one() -> None:
    scene = Scene(jobs())
    scene.look(after=3600.0)
    scene.await_idle()
    scene.look()
    scene.look(after=9.0)
    scene.await_idle()
    assert len(scene.done) == 1


def test_a_destination_that_is_busy_is_left_until_it_is_done_and_retention_goes_first() -> None:
    may_end = threading.Event()

    def slow(job: KeepingJob) -> KeepingOutcome:
        assert may_end.wait(60)
        return MERGED

    scene = Scene(jobs(settings="merge: {every: 10s}, retain: {every: 10s, max-age: 1d}"), slow)
    scene.look(after=10.0)
    scene.look(after=10.0)
    scene.look(after=10.0)
    wait_until(lambda: scene.done, "the first to begin")
    assert [each[2] for each in scene.done] == ["retain"]
    may_end.set()
    scene.await_idle()
    scene.look()
    scene.await_idle()
    assert [each[2] for each in scene.done] == ["retain", "merge"]


def test_a_few_destinations_are_kept_side_by_side_and_the_others_follow() -> None:
    may_end = threading.Event()

    def slow(job: KeepingJob) -> KeepingOutcome:
        assert may_end.wait(60)
        return MERGED

    scene = Scene(jobs(RUNS_AT_ONCE + 2), slow)
    scene.look(after=10.0)
    scene.look(after=1.0)
    wait_until(lambda: len(scene.done) == RUNS_AT_ONCE, "the first ones to begin")
    may_end.set()
    scene.await_idle()
    scene.look()
    scene.await_idle()
    assert sorted(each[0] for each in scene.done) == [f"m{number}" for number in range(RUNS_AT_ONCE + 2)]


def test_what_another_process_owns_is_left_to_it() -> None:
    ours: set[str] = set()
    scene = Scene(jobs(), is_ours=lambda mirror: mirror in ours)
    scene.look(after=10.0)
    assert scene.done == []
    ours.add("m0")
    scene.look()
    assert scene.done == [], "its moment has passed"
    scene.look(after=10.0)
    scene.await_idle()
    assert len(scene.done) == 1


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    scene = Scene(jobs())
    scene.clock._now -= 86400.0
    scene.look()
    scene.look(after=10.0)
    scene.await_idle()
    assert len(scene.done) == 1


@pytest.mark.parametrize("error", [ChainBrokenError("orders/0 is broken", hint="mend it"), RuntimeError("odd")])
def test_a_run_that_fails_is_said_counted_and_tried_again(error: Exception) -> None:
    outcomes: list[Exception | None] = [error, None]

    def do(job: KeepingJob) -> KeepingOutcome:
        if (found := outcomes.pop(0)) is not None:
            raise found
        return MERGED

    scene = Scene(jobs(), do)
    with capture_logs() as lines:
        scene.look(after=10.0)
        scene.await_idle()
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
        "merging failed, and is tried again next time"
    ]
    (row,) = scene.board.rows()
    assert (row["result"], row["failures"]) == ("failed", 1)
    assert str(error) in str(row["error"])
    scene.look(after=10.0)
    scene.await_idle()
    (row,) = scene.board.rows()
    assert row["result"] == "done"
    assert "error" not in row


def test_a_run_that_finds_nothing_to_do_is_no_line_in_the_log_and_one_that_does_is() -> None:
    for outcome, expected in ((KeepingOutcome(), []), (MERGED, ["segments merged"])):
        scene = Scene(jobs(), lambda job, outcome=outcome: outcome)  # type: ignore[misc]
        with capture_logs() as lines:
            scene.look(after=10.0)
            scene.await_idle()
        assert [line["event"] for line in lines if line["log_level"] == "info"] == expected


def test_an_engine_that_is_gone_is_told_to_who_starts_it_again() -> None:
    def die(job: KeepingJob) -> KeepingOutcome:
        raise EngineDiedError("gone")

    scene = Scene(jobs(), die)
    scene.look(after=10.0)
    scene.await_idle()
    assert scene.engine_deaths == 1


def test_a_stop_begins_nothing_more_waits_for_what_ends_and_leaves_what_does_not() -> None:
    hangs, stops = threading.Event(), threading.Event()

    def do(job: KeepingJob) -> KeepingOutcome:
        if job.mirror.name == "m0":
            wait_until(lambda: scene.keeper.is_stopping, "the stop")
            stops.set()
            raise BatchStoppedError("stopped")
        hangs.wait(30.0)
        return MERGED

    scene = Scene(jobs(2), do)
    with capture_logs() as lines, scene.keeper:
        scene.clock.advance(10.0)
        wait_until(lambda: len(scene.done) == 2, "both to begin")
        hangs.set()
    scene.await_idle()
    assert stops.is_set()
    assert not [line for line in lines if line["log_level"] == "warning"]
    rows = {row["name"]: row["result"] for row in scene.board.rows()}
    assert rows["m0"] == "stopped"
    scene.look(after=100.0)
    assert len(scene.done) == 2
