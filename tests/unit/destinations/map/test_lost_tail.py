"""What becomes of progress and offset map where the destination has lost its newest records."""

from dataclasses import replace

from mirrorlake.destinations.map.lost_tail import Trim, cut_short, progress_at, trimmed
from mirrorlake.destinations.map.offset_map import RUNS_PER_PAGE_MAX, MappedRun, OpenPage, add_runs, decode_runs
from mirrorlake.destinations.map.progress import MapPage, MapProgress, PageKey, ProgressKey
from mirrorlake.offsets import OffsetRange, TopicPartition

KEY = ProgressKey(destination_topic="copy", source=TopicPartition("orders", 3))
COUNT = 2 * RUNS_PER_PAGE_MAX + 40
LENGTH = 5


def run_at(number: int) -> MappedRun:
    """Ten offsets each on both sides, of which five hold records; the destination is 1000 further."""
    return MappedRun(start_offset=10 * number, length=LENGTH, destination_offset=1000 + 10 * number)


FULL, OPEN = add_runs(OpenPage.at(0), [run_at(number) for number in range(COUNT)])
PAGES = [
    (
        PageKey(progress=KEY, source_topic_id="id", start_offset=page.offsets.start_offset),
        MapPage(page=page, destination_partition=1),
    )
    for page in FULL
]
PROGRESS = MapProgress(
    source_cluster_id="east",
    source_topic_id="id",
    destination_topic_id="there",
    leader_epoch=4,
    offsets=OffsetRange(start_offset=0, end_offset=10 * COUNT),
    destination_partition=1,
    destination_offset=1000,
    destination_end=1000 + 10 * (COUNT - 1) + LENGTH,
    page=OPEN,
    start_offset=0,
)


def cut(number: int, into: int = 0) -> Trim:
    return trimmed(KEY, PROGRESS, PAGES, 1000 + 10 * number + into)


def test_a_cut_in_the_open_page_takes_the_position_back_to_the_first_lost_record() -> None:
    trim = cut(COUNT - 3, into=2)
    assert trim.progress.position == 10 * (COUNT - 3) + 2
    assert trim.progress.destination_end == 1000 + 10 * (COUNT - 3) + 2
    assert (trim.pages, trim.forgotten) == ((), ())
    assert trim.progress.page.start_offset == OPEN.start_offset
    *whole, last = decode_runs(OPEN.start_offset, trim.progress.page.encoded)
    assert whole == [run_at(number) for number in range(2 * RUNS_PER_PAGE_MAX, COUNT - 3)]
    assert last == MappedRun(start_offset=10 * (COUNT - 3), length=2, destination_offset=1000 + 10 * (COUNT - 3))


def test_a_cut_in_a_full_page_opens_it_again_and_forgets_those_behind() -> None:
    trim = cut(RUNS_PER_PAGE_MAX + 7)
    assert trim.progress.position == 10 * (RUNS_PER_PAGE_MAX + 7)
    assert trim.progress.page.start_offset == PAGES[1][0].start_offset
    assert trim.progress.page.runs == 7
    assert trim.forgotten == (PAGES[1][0],)
    assert trim.pages == ()


def test_a_cut_before_everything_leaves_an_empty_map_from_where_the_copy_began() -> None:
    trim = trimmed(KEY, PROGRESS, PAGES, 10)
    assert (trim.progress.position, trim.progress.destination_end, trim.progress.page) == (0, 0, OpenPage.at(0))
    assert trim.forgotten == tuple(key for key, _ in PAGES)


def test_a_cut_within_the_last_run_of_a_full_page_writes_that_page_again() -> None:
    trim = cut(RUNS_PER_PAGE_MAX - 1, into=3)
    ((key, page),) = trim.pages
    assert key == PAGES[0][0]
    *_, last = decode_runs(0, page.page.encoded)
    assert last.length == 3
    assert trim.progress.page == OpenPage.at(trim.progress.position)
    assert trim.forgotten == (PAGES[1][0],)


def test_a_log_that_reaches_the_last_record_is_not_cut_short() -> None:
    assert cut_short(KEY, PROGRESS, PROGRESS.destination_end) is None
    error = cut_short(KEY, PROGRESS, PROGRESS.destination_end - 1)
    assert error is not None
    assert error.facts["destination_end"] == PROGRESS.destination_end


def test_progress_of_another_topic_of_that_name_says_nothing_of_this_one() -> None:
    known = {KEY: PROGRESS}
    assert progress_at(known, TopicPartition("copy", 1), "there") == known
    assert progress_at(known, TopicPartition("copy", 1), "recreated") == {}
    assert progress_at(known, TopicPartition("copy", 0), "there") == {}


def test_a_position_that_was_moved_back_stays_there_when_the_tail_behind_it_is_lost() -> None:
    moved_back = replace(PROGRESS, offsets=OffsetRange(start_offset=15, end_offset=15))
    trim = trimmed(KEY, moved_back, PAGES, 1000 + 10 * (COUNT - 3) + 2)
    assert trim.progress.position == 15
    assert trim.progress.page == cut(COUNT - 3, into=2).progress.page
