import pytest

from mirrorlake.demo.watch import Interval, Leg, Sight, archive_sight, seconds_under_way

SEGMENT = "00000000000000000000-00000000000000000099.parquet"
NEXT_SEGMENT = "00000000000000000100-00000000000000000149.parquet"


def leg() -> Leg:
    return Leg("orders", "lake", starts={0: 100, 1: 0}, targets={0: 150, 1: 30}, now=10.0)


def test_time_counts_from_the_last_look_at_an_untouched_partition_to_the_first_at_a_complete_one() -> None:
    copied = leg()

    copied.saw(Sight(positions={0: 100, 1: 0}, begun=frozenset()), 11.0)
    copied.saw(Sight(positions={0: 120, 1: 0}, begun=frozenset({0})), 12.0)
    assert (copied.offsets_done, copied.seconds) == (20, 0.0)
    copied.saw(Sight(positions={0: 150, 1: 10}, begun=frozenset({0, 1})), 13.0)
    copied.saw(Sight(positions={0: 150, 1: 30}, begun=frozenset({1})), 15.0)
    copied.saw(Sight(positions={0: 150, 1: 30}, begun=frozenset()), 19.0)

    assert (copied.offsets, copied.offsets_done) == (80, 80)
    # Partition 0 from 11 to 13, partition 1 from 12 to 15.
    assert copied.seconds == 4.0


def test_time_in_which_no_partition_is_under_way_does_not_count() -> None:
    copied = leg()

    copied.saw(Sight(positions={0: 150, 1: 0}, begun=frozenset({0})), 11.0)
    copied.saw(Sight(positions={0: 150, 1: 0}, begun=frozenset({0})), 50.0)
    copied.saw(Sight(positions={0: 150, 1: 30}, begun=frozenset({0, 1})), 52.0)

    assert copied.seconds == (11.0 - 10.0) + (52.0 - 50.0)


def test_a_partition_that_cannot_be_seen_is_not_complete() -> None:
    copied = Leg("orders", "west", starts={0: 0}, targets={0: 0}, now=1.0)

    copied.saw(Sight(positions={}, begun=frozenset()), 2.0)
    assert copied.intervals[0].ended_at is None
    copied.saw(Sight(positions={0: 0}, begun=frozenset()), 3.0)
    assert copied.intervals[0].ended_at == 3.0


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [
        ([], 0.0),
        ([(1.0, 3.0)], 2.0),
        ([(1.0, 3.0), (2.0, 2.5)], 2.0),
        ([(1.0, 3.0), (2.0, 4.0), (10.0, 11.0)], 4.0),
        ([(1.0, 3.0), (2.0, None)], 0.0),
    ],
)
def test_overlapping_times_count_once(intervals: list[tuple[float, float | None]], seconds: float) -> None:
    assert seconds_under_way([Interval(idle_until=begin, ended_at=end) for begin, end in intervals]) == seconds


def test_the_names_of_an_archives_files_say_where_it_stands() -> None:
    known = frozenset({f"0/{SEGMENT}"})

    nothing_new = archive_sight(leg(), known, known)
    staged = archive_sight(leg(), known | {"1/_1.x.tmp.1"}, known)
    published = archive_sight(leg(), known | {f"0/{NEXT_SEGMENT}", "0/_claim-00000000000000000150"}, known)

    assert (nothing_new.positions, nothing_new.begun) == ({0: 100, 1: 0}, frozenset())
    assert (staged.positions, staged.begun) == ({0: 100, 1: 0}, frozenset({1}))
    assert (published.positions, published.begun) == ({0: 150, 1: 0}, frozenset({0}))
