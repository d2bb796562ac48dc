"""What of an archived partition is read."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.selection import ALL, ArchivedRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.settings import FilesystemSettings

WORK = ArchiveSourceWork(store_name="lake", store=FilesystemSettings(root=Path("/var/lake")), folder="east")


def test_all_of_a_partition_is_what_its_chain_holds() -> None:
    assert (ALL.start(5), ALL.end(40)) == (5, 40)


@pytest.mark.parametrize(
    ("chosen", "bounds"),
    [
        (ArchivedRange(start_offset=10, end_offset=20), (10, 20)),
        (ArchivedRange(start_offset=2, end_offset=99), (5, 40)),
        (ArchivedRange(start_offset=7), (7, 40)),
        (ArchivedRange(end_offset=5), (5, 5)),
    ],
)
def test_a_range_never_gives_what_the_chain_does_not_hold(chosen: ArchivedRange, bounds: tuple[int, int]) -> None:
    assert (chosen.start(5), chosen.end(40)) == bounds


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4)])
def test_what_is_no_range_is_refused(start: int, end: int | None) -> None:
    with pytest.raises(ValueError, match="not a range"):
        ArchivedRange(start_offset=start, end_offset=end)


def test_a_source_says_where_it_is_and_what_is_read_of_each_partition() -> None:
    one, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    work = replace(WORK, ranges={one: ArchivedRange(start_offset=3)})

    assert (work.name, work.label, work.place) == ("lake", "archive lake", "/var/lake/east")
    assert (work.range_of(one).start_offset, work.range_of(other)) == (3, ALL)
    assert replace(work, mirror="back").name == "lake/back"
    assert pickle.loads(pickle.dumps(work)) == work
    assert hash(work) == hash(WORK)
