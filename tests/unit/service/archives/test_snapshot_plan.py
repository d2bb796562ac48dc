"""How the reading of a partition is parted, and partitions are put into jobs."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_plan import FILE_COST_BYTES, PART_BYTES_MAX, PlannedSnapshot, grouped
from mirrorlake.service.archives.snapshotting import JOB_BYTES_MAX, jobs_of
from mirrorlake.stores.settings import FilesystemSettings

SIZES = st.lists(st.integers(1, 3 * PART_BYTES_MAX), min_size=1, max_size=30)


def segments(sizes: list[int]) -> list[Segment]:
    return [
        Segment(name=SegmentName(from_offset=n, to_offset=n, extension="parquet"), size_bytes=size)
        for n, size in enumerate(sizes)
    ]


@given(SIZES, st.integers(1, 16))
def test_parts_hold_every_segment_once_in_order_and_no_more_than_their_bound(sizes: list[int], slots: int) -> None:
    given_segments = segments(sizes)
    parts = grouped(given_segments, slots=slots)
    assert [segment for part in parts for segment in part] == given_segments
    for part in parts:
        cost = sum(segment.size_bytes + FILE_COST_BYTES for segment in part)
        assert len(part) == 1 or cost <= PART_BYTES_MAX


def planned(sizes: list[int]) -> PlannedSnapshot:
    place = ArchivePlace(store=FilesystemSettings(root="/x"), name="orders", partition=0)  # type: ignore[arg-type]
    return PlannedSnapshot(place=place, segments=tuple(segments(sizes)))


@given(st.lists(st.integers(1, JOB_BYTES_MAX), max_size=12))
def test_jobs_hold_every_partition_once_in_order_and_no_more_than_their_bound(sizes: list[int]) -> None:
    plans = [planned([size]) for size in sizes]
    jobs = list(jobs_of(plans))
    assert [id(each) for job in jobs for each in job] == [id(each) for each in plans]
    for job in jobs:
        assert job
        assert len(job) == 1 or sum(each.size_bytes for each in job) <= JOB_BYTES_MAX
