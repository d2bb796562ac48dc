"""Rounds in a thread: at once, again and again, and none after the end."""

import threading
import time

import pytest
import structlog.testing

from mirrorlake.repeated import RepeatedInThread


class Rounds(RepeatedInThread):
    def __init__(self, *, seconds: float) -> None:
        super().__init__("rounds", seconds=seconds)
        self.done = 0
        self.was_third = threading.Event()

    def _round(self) -> None:
        self.done += 1
        if self.done == 3:
            self.was_third.set()


def test_rounds_go_on_until_the_block_ends_and_no_longer() -> None:
    with Rounds(seconds=0.001) as rounds:
        assert rounds.was_third.wait(60)
    done = rounds.done
    assert not any(thread.name == "rounds" for thread in threading.enumerate())
    assert rounds.done == done >= 3


def test_the_end_does_not_wait_for_the_next_round() -> None:
    with Rounds(seconds=3600.0) as rounds:
        pass
    assert rounds.done == 1
    assert not any(thread.name == "rounds" for thread in threading.enumerate())


def test_a_look_that_is_asked_for_begins_at_once() -> None:
    with Rounds(seconds=3600.0) as rounds:
        for done in (2, 3):
            rounds.look_now()
            give_up_at = time.monotonic() + 60
            while rounds.done < done and time.monotonic() < give_up_at:
                time.sleep(0.01)
            assert rounds.done == done


def test_another_time_between_rounds_holds_from_the_next_wait_on() -> None:
    with Rounds(seconds=3600.0) as rounds:
        rounds.every(0.001)
        rounds.look_now()
        assert rounds.was_third.wait(60)


@pytest.mark.parametrize("fails", [(1,), (1, 2), (2, 3, 4)])
def test_a_round_that_fails_is_logged_once_and_the_rounds_continue(fails: tuple[int, ...]) -> None:
    class Failing(Rounds):
        def _round(self) -> None:
            super()._round()
            if self.done in fails:
                raise RuntimeError("a bug")

    with structlog.testing.capture_logs() as said, Failing(seconds=0.001) as rounds:
        give_up_at = time.monotonic() + 60
        while rounds.done < 6 and time.monotonic() < give_up_at:
            time.sleep(0.01)
    assert rounds.done >= 6
    (line,) = said
    assert line["event"] == "unexpected error in the background; it is tried again"
    assert (line["thread"], line["log_level"]) == ("rounds", "error")
