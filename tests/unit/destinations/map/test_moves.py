"""Positions moved by hand: what their progress becomes, and that no group is ever led past a record."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.interface import Progress
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.map.moves import begun_at, moved
from mirrorlake.destinations.map.offset_map import (
    MappedRun,
    OffsetMap,
    OpenPage,
    add_runs,
    decode_runs,
    first_copies,
    runs_from,
)
from mirrorlake.destinations.map.progress import (
    MapPage,
    MapProgress,
    PageKey,
    ProgressKey,
    decode_page_key,
    decode_progress,
    encode_page_key,
    encode_progress,
)
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant
from mirrorlake.errors import MirrorlakeError
from mirrorlake.groups.translation import Placed, Unknown, translate_mapped
from mirrorlake.offsets import OffsetRange, TopicPartition

SOURCE = TopicPartition("orders", 0)
KEY = ProgressKey(destination_topic="copy", source=SOURCE)


def begun(offset: int) -> MapProgress:
    return begun_at(
        offset, source_cluster_id="east", source_topic_id="id", destination_topic_id="there", destination_partition=0
    )


def copied(position: int, runs: list[MappedRun], *, start: int = 0) -> MapProgress:
    _, page = add_runs(OpenPage.at(start), runs)
    return MapProgress(
        source_cluster_id="east",
        source_topic_id="id",
        destination_topic_id="there",
        leader_epoch=7,
        offsets=OffsetRange(start_offset=position - 5, end_offset=position),
        destination_partition=0,
        destination_offset=105,
        destination_end=runs[-1].destination_end,
        page=page,
        start_offset=start,
    )


TEN = copied(10, [MappedRun(start_offset=0, length=10, destination_offset=100)])


def test_a_position_moved_back_keeps_the_map_and_what_was_written_last() -> None:
    after = moved(TEN, 4)
    assert (after.position, after.start_offset, after.destination_end, after.page) == (4, 0, 110, TEN.page)
    assert (after.offsets, after.leader_epoch, after.destination_offset) == (
        OffsetRange(start_offset=4, end_offset=4),
        -1,
        None,
    )
    assert after.mapped == OffsetRange(start_offset=0, end_offset=10)
    assert decode_progress(encode_progress(after)) == after


def test_a_position_moved_forward_covers_what_it_skips() -> None:
    after = moved(TEN, 25)
    assert (after.offsets, after.page, after.destination_end) == (
        OffsetRange(start_offset=10, end_offset=25),
        TEN.page,
        110,
    )
    assert decode_progress(encode_progress(after)) == after


def test_a_copy_that_has_no_record_yet_begins_where_it_is_moved_to() -> None:
    for offset in (3, 50):
        assert moved(begun(20), offset).page == OpenPage.at(offset)
        assert moved(begun(20), offset).start_offset == offset


def test_a_copy_moved_to_before_its_beginning_speaks_of_what_it_named_before() -> None:
    after = moved(copied(60, [MappedRun(start_offset=50, length=10, destination_offset=0)], start=50), 20)
    assert after.mapped == OffsetRange(start_offset=50, end_offset=60)
    assert decode_progress(encode_progress(after)) == after


def test_runs_from_an_offset_leave_out_what_lies_before_it() -> None:
    runs = [
        MappedRun(start_offset=0, length=10, destination_offset=100),
        MappedRun(start_offset=20, length=5, destination_offset=200),
    ]
    assert runs_from(runs, 0) == runs
    assert runs_from(runs, 4)[0] == MappedRun(start_offset=4, length=6, destination_offset=104)
    assert runs_from(runs, 10) == runs_from(runs, 20) == runs[1:]
    assert runs_from(runs, 25) == []


@dataclass
class Sink:
    """What a participant tells; nothing of it is asked here."""

    progress: Progress = field(default_factory=Progress)

    def let_go(self, append: MapAppend) -> None:
        del append

    def committed(self, position: int, appends: list[MapAppend], letters: Sequence[Letters]) -> None:
        del position, appends, letters

    def shard_failed(self, error: MirrorlakeError) -> None:
        raise error


@dataclass
class Copy:
    """A destination partition: the source offset of each of its records, None for a marker; and what is written down.

    Every third source offset holds no record.
    """

    progress: MapProgress
    log: list[int | None] = field(default_factory=list)
    pages: list[tuple[PageKey, MapPage]] = field(default_factory=list)

    def move(self, offset: int) -> None:
        self.progress = moved(self.progress, offset)

    def copy(self, count: int) -> None:
        position = self.progress.position
        participant = Participant(
            key=KEY,
            member=Sink(),
            source_cluster_id="east",
            source_topic_id="id",
            destination_topic_id="there",
            destination=TopicPartition("copy", 0),
            progress=self.progress,
            page=self.progress.page,
            taken_end=position + count,
            committed_end=position,
            empty_from=position,
        )
        for offset in range(position, position + count):
            if offset % 3 != 2:
                participant.runs.append(MappedRun(start_offset=offset, length=1, destination_offset=len(self.log)))
                self.log.append(offset)
        self.log.append(None)
        self.progress, pages = participant.written()
        self.pages += pages
        self.progress = decode_progress(encode_progress(self.progress))

    @property
    def map(self) -> OffsetMap:
        pages = [(decode_page_key(encode_page_key(key)), page) for key, page in self.pages]
        runs = [run for key, page in pages if key.later_at is None for run in page.runs]
        runs += decode_runs(self.progress.page.start_offset, self.progress.page.encoded)
        later = [page.runs for key, page in pages if key.later_at is not None]
        return OffsetMap(self.progress.mapped, first_copies(runs, later))


STEPS = st.lists(
    st.tuples(st.just("copy"), st.integers(1, 40)) | st.tuples(st.just("move"), st.integers(0, 80)), max_size=12
)


@given(start=st.integers(0, 30), steps=STEPS)
def test_however_often_a_position_is_moved_no_group_is_led_past_a_record(
    start: int, steps: list[tuple[str, int]]
) -> None:
    copy = Copy(begun(start))
    for what, number in steps:
        copy.copy(number) if what == "copy" else copy.move(number)
        held = OffsetRange(start_offset=0, end_offset=len(copy.log))
        last = max((at for at, offset in enumerate(copy.log) if offset is not None), default=-1)
        assert copy.progress.destination_end == last + 1
        found = copy.map
        for offset in range(130):
            assert found.destination_of(offset) == (copy.log.index(offset) if offset in copy.log else None)
            place = translate_mapped(offset, found, held)
            if isinstance(place, Unknown):
                assert not found.runs
                continue
            assert isinstance(place, Placed)
            later = {each for each in copy.log if each is not None and each >= offset}
            still_read = {each for each in copy.log[place.offset :] if each is not None}
            assert later <= still_read, f"a group at {offset} is placed at {place}"


@given(moves=st.lists(st.integers(0, 700), min_size=1, max_size=4))
def test_pages_that_are_full_follow_one_another_after_moves(moves: list[int]) -> None:
    copy = Copy(begun(0))
    copy.copy(900)  # 600 records in 300 runs: more than a page
    assert copy.pages
    for offset in moves:
        copy.move(offset)
        copy.copy(400)
    at = 0
    for key, page in copy.pages:
        if key.later_at is not None:
            continue
        assert key.start_offset == at
        at = page.page.offsets.end_offset
    assert copy.progress.page.start_offset == at
