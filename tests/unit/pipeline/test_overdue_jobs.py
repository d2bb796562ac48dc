"""Jobs that have not ended long after their workers must have: each is given up, and no other."""

import pytest

from mirrorlake.pipeline import overdue
from mirrorlake.pipeline.lanes import OVERDUE_LOOKS, OVERDUE_SECONDS
from mirrorlake.pipeline.overdue import GRACE_SECONDS, LOOKS, OverdueJobs, Watched
from mirrorlake.service.lifecycle.loop import TURN_SECONDS
from support.copies import wait_until


class Ended(list[str]):
    """The tags of jobs whose end was asked for; ``may_end`` says whether it is ordered then."""

    may_end = True

    def end(self, job: Watched) -> bool:
        self.append(job.tag)
        return self.may_end


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.setattr(overdue, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(overdue, "LOOK_SECONDS", 0.002)
    return Ended()


def test_a_job_that_is_overdue_is_ended_again_and_again_and_told_so_until_it_has_ended(ended: Ended) -> None:
    with OverdueJobs(ended.end) as jobs:
        with jobs.watched(3600.0) as patient, jobs.watched(0.0) as late:
            assert patient.tag != late.tag
            wait_until(lambda: len(ended) > 2, "the end of the job to be ordered")
            assert late.is_given_up
            assert not patient.is_given_up
        assert set(ended) == {late.tag}
        with jobs.watched(3600.0) as later:
            assert later.tag not in {patient.tag, late.tag}
        orders = len(ended)
        jobs._round()
        assert len(ended) == orders


def test_a_job_that_has_its_time_yet_is_asked_about_again_and_not_said_to_be_given_up(ended: Ended) -> None:
    ended.may_end = False
    with OverdueJobs(ended.end) as jobs, jobs.watched(0.0) as waiting:
        assert waiting.patience_seconds == 0.1
        wait_until(lambda: len(ended) > 1, "the end of the job to be asked for")
        assert not waiting.is_given_up
        ended.may_end = True
        wait_until(lambda: waiting.is_given_up, "its end")


def test_jobs_that_end_in_time_are_left_alone(ended: Ended) -> None:
    with OverdueJobs(ended.end) as jobs:
        for _ in range(100):
            with jobs.watched(0.0):
                pass
    assert ended == []


def test_a_driver_that_was_frozen_takes_no_job_for_overdue_at_its_first_look(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue, "GRACE_SECONDS", 0.0)
    jobs = OverdueJobs(ended.end)
    with jobs.watched(-3600.0) as job:
        for _ in range(LOOKS - 1):
            jobs._round()
        assert ended == []
        jobs._round()
        assert ended == [job.tag]


def test_lanes_give_an_engine_up_that_loses_every_lease_before_their_jobs_are_ended_one_by_one() -> None:
    assert OVERDUE_SECONDS + OVERDUE_LOOKS * TURN_SECONDS < GRACE_SECONDS


def test_a_job_that_was_prolonged_is_given_up_so_much_later(ended: Ended) -> None:
    more = [3600.0]
    with OverdueJobs(ended.end) as jobs, jobs.watched(0.0, seconds_more=lambda: more[0]) as job:
        for _ in range(LOOKS):
            jobs._round()
        assert not job.looks
        more[0] = -1.0
        wait_until(lambda: job.is_given_up, "its end")
