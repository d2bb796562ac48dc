"""How often a source is asked for its ends."""

from mirrorlake.offsets import TopicPartition
from mirrorlake.service.observer import QUIET_LOOKS_APART_SECONDS, QUIET_SECONDS, SourceLooks
from mirrorlake.sources.client import Bounds

ONE = TopicPartition("orders", 0)


def looked(looks: SourceLooks, *, until: float, ends: list[tuple[float, int]]) -> list[float]:
    """Returns when it was looked, half a second at a time, while the end of one partition moves at these times."""
    times = []
    now = 0.0
    while now <= until:
        if looks.is_due(now):
            times.append(now)
            end = max(offset for since, offset in ends if since <= now)
            looks.saw({ONE: Bounds(0, end)}, now)
        now += 0.5
    return times


def test_a_source_that_moves_is_asked_at_every_turn() -> None:
    moving = [(float(second), second) for second in range(10)]
    assert looked(SourceLooks(0.0), until=9.0, ends=moving) == [n / 2 for n in range(19)]


def test_a_source_at_rest_is_asked_half_as_often_until_it_moves() -> None:
    times = looked(SourceLooks(0.0), until=12.0, ends=[(0.0, 5), (8.5, 6)])
    assert times[:11] == [n / 2 for n in range(11)]
    assert times[11:] == [6.0, 7.0, 8.0, 9.0, 10.0, 10.5, 11.0, 11.5, 12.0]
    assert (QUIET_SECONDS, QUIET_LOOKS_APART_SECONDS) == (5.0, 1.0)


def test_a_source_that_wants_more_time_gets_it() -> None:
    assert looked(SourceLooks(3.0), until=9.0, ends=[(0.0, 5)]) == [0.0, 3.0, 6.0, 9.0]
