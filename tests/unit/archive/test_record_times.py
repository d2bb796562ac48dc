"""Times in a partition are found exactly, also where they are equal, go back, or are not there."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.record_times import SegmentTimes, count_until, first_at_or_past
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from unit.archive.sample_records import Record, columns_of

NONE = -1
Records = dict[int, int]
"""Times by offset."""


class Partition:
    """Segments of a few records, which count how often they are read."""

    def __init__(self, *segments: Records, says: str = "all") -> None:
        self.reads: list[OffsetRange] = []
        self._records = {offset: time for segment in segments for offset, time in segment.items()}
        ends = [max(segment) + 1 for segment in segments]
        starts = [0, *ends[:-1]]
        self.segments = [
            self._says(OffsetRange(start_offset=start, end_offset=end), list(segment.values()), says)
            for start, end, segment in zip(starts, ends, segments, strict=True)
        ]

    def _says(self, offsets: OffsetRange, times: list[int], says: str) -> SegmentTimes:
        if says == "nothing":
            return SegmentTimes(offsets=offsets)
        real = [time for time in times if time != NONE]
        return SegmentTimes(
            offsets=offsets,
            is_known=True,
            records=len(times),
            lowest_ms=min(real, default=None) if says == "all" else None,
            highest_ms=max(real, default=None),
        )

    def read(self, offsets: OffsetRange) -> Iterator[RecordColumns]:
        """Yields every record of a range, one at a time, and those beside it as a reader of batches does."""
        self.reads.append(offsets)
        near = [o for o in self._records if offsets.start_offset - 1 <= o <= offsets.end_offset]
        for offset in sorted(near):
            yield columns_of([Record(offset, timestamp_ms=self._records[offset])])


SAYS = ("all", "no lowest", "nothing")


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize(
    ("time_ms", "first"),
    [
        (0, 0),
        (100, 0),
        (101, 2),
        (102, 2),  # two of one time: the first of them
        (103, 7),  # and not one behind it that goes back
        (500, 8),
        (501, None),
    ],
)
def test_the_first_record_of_a_time_or_later_is_found(says: str, time_ms: int, first: int | None) -> None:
    partition = Partition({0: 100, 1: 99}, {2: 102, 3: 102, 5: 50}, {7: 103, 8: 500, 9: 103}, says=says)
    assert first_at_or_past(partition.segments, time_ms, partition.read) == first


def test_only_segments_that_may_hold_it_are_read() -> None:
    partition = Partition({0: 100}, {1: 300, 2: 200}, {3: 400})
    assert first_at_or_past(partition.segments, 200, partition.read) == 1
    assert partition.reads == [OffsetRange(start_offset=1, end_offset=3)]


@pytest.mark.parametrize("says", SAYS)
def test_records_without_a_time_are_neither_early_nor_late(says: str) -> None:
    partition = Partition({0: NONE, 1: NONE}, {2: NONE, 3: 7}, says=says)
    assert first_at_or_past(partition.segments, 0, partition.read) == 3
    assert count_until(partition.segments, 0, 7, partition.read) == 1


@pytest.mark.parametrize("says", SAYS)
def test_what_lies_behind_the_end_and_is_older_is_counted(says: str) -> None:
    partition = Partition({0: 1, 1: 9}, {2: 5, 3: 6}, {4: 7, 5: 5}, {6: 8}, says=says)
    end = first_at_or_past(partition.segments, 6, partition.read)
    assert end == 1
    assert count_until(partition.segments, end, 5, partition.read) == 2


def test_an_empty_partition_has_no_times() -> None:
    assert first_at_or_past([], 0, Partition({0: 0}).read) is None
    assert count_until([], 0, 10, Partition({0: 0}).read) == 0


TIMES = st.lists(st.integers(NONE, 12), min_size=1, max_size=12)


@given(times=TIMES, cuts=st.sets(st.integers(1, 11)), says=st.sampled_from(SAYS), time_ms=st.integers(0, 13))
def test_however_it_is_cut_the_answer_is_that_of_reading_everything(
    times: list[int], cuts: set[int], says: str, time_ms: int
) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(times)), len(times)]
    parts = [{o: times[o] for o in range(a, b)} for a, b in itertools.pairwise(bounds)]
    partition = Partition(*parts, says=says)
    late = [offset for offset, time in enumerate(times) if time >= time_ms]
    assert first_at_or_past(partition.segments, time_ms, partition.read) == (late[0] if late else None)
    for start in range(len(times) + 1):
        expected = sum(0 <= time <= time_ms for time in times[start:])
        assert count_until(partition.segments, start, time_ms, partition.read) == expected
