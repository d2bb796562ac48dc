"""Rounds in a thread: at once, again and again, and none after the end."""

import threading

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
