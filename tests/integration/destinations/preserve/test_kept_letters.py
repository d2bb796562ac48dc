"""Dead letters of a copy with equal offsets: where they may stand in batches, and what a later lease makes of them."""

import time
from dataclasses import dataclass, replace
from typing import Any

import pytest

from conftest import RunAsync
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.letters.settings import letter_progress_topic
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    DestinationForeignError,
    MisalignedError,
    NotOwnerError,
    RecordTooLargeError,
    SourceGapError,
    TopicMissingError,
)
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import Gap, GapFill, GapKind, OffsetRange, TopicPartition
from support.copies import create_topic, log_end
from support.gaps import unseen_offsets
from support.kept_letters import (
    ABSENT_ID,
    HERE,
    SHORT,
    THERE,
    assert_copy_or_letter,
    create_letter_topics,
    known_letters,
    letter_settings,
    lettered_offsets,
    lettering,
    letters_topic,
)
from support.leases import lease_plan, run_lease
from support.records import Record, in_batches, produce
from support.schema_site import framed
from support.sinks import delivery_of, dense_batch, with_sink
from support.topics import delete_before, delete_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@dataclass
class Copy:
    """A source topic of one partition, its copy, and topics for dead letters and what is known of them."""

    source: str
    destination: str
    topic: str
    run_async: RunAsync

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def create(self, **configs: str) -> None:
        create_topic(self.source, self.topic)
        create_topic(self.destination, self.topic, 1, **configs)
        create_letter_topics(self.destination, self.topic)

    def write(self, values: list[bytes], *, per_batch: int = 10) -> None:
        now_ms = int(time.time() * 1000)
        records = [Record(now_ms, b"%d" % n, value) for n, value in enumerate(values)]
        self.run_async(produce(self.source, self.topic, 0, list(in_batches(records, per_batch))))

    def lease(
        self, gap_fill: GapFill = GapFill.MARKERS, *, end: int | None = None, seconds: float = 8.0, **more: Any
    ) -> LeaseRow:
        work = lettering(self.destination, self.where, gap_fill=gap_fill, **more)
        stop = log_end(self.source, self.topic) if end is None else end
        return run_lease(lease_plan(self.source, [(self.where, [work])], end=stop, seconds=seconds))[0, "west"]


@pytest.fixture
def copy(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Copy:
    return Copy(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, run_async)


def good(n: int) -> bytes:
    return framed(HERE, b"body %d" % n)


def bad(n: int) -> bytes:
    return SHORT if n % 2 else framed(ABSENT_ID, b"body %d" % n)


def values(count: int, lettered: set[int]) -> list[bytes]:
    return [bad(n) if n in lettered else good(n) for n in range(count)]


PLACES = {
    "none": set[int](),
    "first": {0, 10, 20, 30},
    "middle": {5, 15, 25, 26, 27, 35},
    "last": {9, 19, 29, 39},
    "a whole batch": set(range(10, 20)),
    "batches in a row": set(range(10, 30)),
    "all": set(range(40)),
    "every second": set(range(0, 40, 2)),
}


@pytest.mark.quick
@pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])
@pytest.mark.parametrize("place", PLACES)
def test_letters_may_stand_anywhere_in_batches(place: str, gap_fill: GapFill, copy: Copy) -> None:
    lettered = PLACES[place]
    copy.create()
    copy.write(values(40, lettered))
    row = copy.lease(gap_fill)
    assert (row.error, row.position, row.records) == (None, 40, 40 - len(lettered))
    counts = {"value:short": sum(n % 2 for n in lettered), "value:absent": sum(n % 2 == 0 for n in lettered)}
    assert row.dead_letters == {name: count for name, count in counts.items() if count}
    assert row.gap_offsets == ({"dead-lettered": len(lettered)} if lettered else {})
    assert_copy_or_letter(copy.source, copy.destination, copy.where, lettered)
    again = copy.lease(gap_fill)
    assert (again.error, again.position, again.records, dict(again.dead_letters)) == (None, 40, 0, {})


def test_letters_in_compressed_and_single_batches_of_a_compacted_copy_with_a_clock_of_its_own(copy: Copy) -> None:
    lettered = set(range(1, 30, 3))
    copy.create(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    copy.write(values(15, lettered), per_batch=1)
    copy.write([bad(n) if n in lettered else good(n) for n in range(15, 30)], per_batch=15)
    row = copy.lease(GapFill.FILLER, destination_is_compacted=True, keeps_log_append_time=False)
    assert (row.error, row.position) == (None, 30)
    assert lettered_offsets(copy.destination, copy.where) == sorted(lettered)
    again = copy.lease(GapFill.FILLER, destination_is_compacted=True, keeps_log_append_time=False)
    assert (again.error, again.position) == (None, 30)


def test_a_letter_too_large_for_its_topic_parks_before_its_record(copy: Copy) -> None:
    copy.create()
    delete_topic(copy.destination, letters_topic(copy.topic))
    create_topic(copy.destination, letters_topic(copy.topic), 1, max_message_bytes="2000")
    copy.write([good(0), framed(ABSENT_ID, bytes(range(256)) * 8), good(2)], per_batch=1)
    row = copy.lease()
    assert isinstance(row.error, RecordTooLargeError)
    assert letters_topic(copy.topic) in row.error.message
    assert lettered_offsets(copy.destination, copy.where) == []
    assert row.position in (0, 1), "what came before it may be there"


def test_a_copy_that_begins_late_has_letters_too(copy: Copy) -> None:
    copy.create()
    copy.write(values(40, {31, 35}))
    delete_before(copy.source, copy.topic, 30)
    row = copy.lease()
    assert (row.error, row.position, row.records) == (None, 40, 8)
    assert row.gap_offsets == {"truncated": 30, "dead-lettered": 2}
    assert_copy_or_letter(copy.source, copy.destination, copy.where, {31, 35})


def test_what_is_known_of_letters_reaches_back_as_far_as_the_tail_check_and_no_further(copy: Copy) -> None:
    copy.create()
    lettered = set(range(0, 300, 10))
    copy.write(values(300, lettered))
    for end in (100, 200, 300):
        assert copy.lease(end=end).error is None
    (known,) = known_letters(copy.destination, copy.topic).values()
    assert known == [n for n in sorted(lettered) if n >= 200 - 64], "the last were written at position 200"
    assert copy.lease().error is None
    assert_copy_or_letter(copy.source, copy.destination, copy.where, lettered)


def test_a_copy_goes_on_behind_its_letters_where_no_more_are_wanted(copy: Copy) -> None:
    """`on-unreadable` was another one when it was begun: where records are missing is still known."""
    copy.create()
    copy.write(values(40, {15, 35}))
    assert copy.lease().error is None
    copy.write(values(10, {5}))
    work = lettering(copy.destination, copy.where, ids=SchemaIdMap.of({HERE: THERE}, passes_values=True))
    letters = replace(letter_settings(copy.where), template="")
    ids = SchemaIdMap.of({}, passes_values=True)
    work = replace(work, settings=replace(work.settings, letters=letters, schema_ids=ids))
    row = run_lease(lease_plan(copy.source, [(copy.where, [work])], end=50, seconds=8.0))[0, "west"]
    assert (row.error, row.position, row.records) == (None, 50, 10)
    assert lettered_offsets(copy.destination, copy.where) == [15, 35]


def test_a_copy_that_lacks_a_record_which_nobody_knows_a_letter_of_is_parked(copy: Copy) -> None:
    """With its letter progress gone a letter's offset looks like a lost record: nothing is concluded."""
    copy.create()
    copy.write(values(40, {15, 35}))
    assert copy.lease().error is None
    delete_topic(copy.destination, letter_progress_topic(copy.topic))
    create_topic(copy.destination, letter_progress_topic(copy.topic), cleanup_policy="compact")
    error = copy.lease().error
    assert isinstance(error, MisalignedError), "a marker where the source has a record"
    assert error.facts["differing_offset"] == 15
    assert lettered_offsets(copy.destination, copy.where) == [15, 35]


def test_a_filler_at_the_offset_of_a_record_without_a_letter_is_foreign(copy: Copy) -> None:
    copy.create()
    copy.write(values(40, {15, 16, 17}))
    assert copy.lease(GapFill.FILLER).error is None
    assert sorted(unseen_offsets(copy.destination, copy.topic)) == [15, 16, 17]
    delete_topic(copy.destination, letter_progress_topic(copy.topic))
    create_topic(copy.destination, letter_progress_topic(copy.topic), cleanup_policy="compact")
    error = copy.lease(GapFill.FILLER).error
    assert isinstance(error, DestinationForeignError)
    assert error.facts["differing_offset"] == 15


def test_a_copy_begun_anew_writes_its_letters_anew(copy: Copy) -> None:
    copy.create()
    copy.write(values(20, {3, 19}))
    assert copy.lease().error is None
    delete_topic(copy.destination, copy.topic)
    create_topic(copy.destination, copy.topic)
    row = copy.lease()
    assert (row.error, row.position, row.records) == (None, 20, 18)
    assert lettered_offsets(copy.destination, copy.where) == [3, 19, 3, 19]
    assert sorted(known_letters(copy.destination, copy.topic).values()) == [[3, 19], [3, 19]]


def test_a_letter_goes_nowhere_and_nothing_is_passed_where_a_topic_is_missing(copy: Copy) -> None:
    create_topic(copy.source, copy.topic)
    create_topic(copy.destination, copy.topic)
    copy.write(values(20, {3}))
    create_topic(copy.destination, letters_topic(copy.topic))
    assert copy.lease().error is not None, "without letter progress"
    create_topic(copy.destination, letter_progress_topic(copy.topic), cleanup_policy="compact")
    delete_topic(copy.destination, letters_topic(copy.topic))
    assert isinstance(copy.lease().error, TopicMissingError)
    assert log_end(copy.destination, copy.topic) == 0
    create_topic(copy.destination, letters_topic(copy.topic))
    assert copy.lease().error is None
    assert_copy_or_letter(copy.source, copy.destination, copy.where, {3})


def test_who_does_not_own_the_mirror_copies_nothing_that_may_have_a_letter(copy: Copy) -> None:
    copy.create()
    copy.write(values(20, {3}))
    error = copy.lease(not_owner_because="another process has it").error
    assert isinstance(error, NotOwnerError)
    assert "which may become dead letters" in error.message
    late = copy.lease(fill_wait_seconds=100.0)
    assert (late.error, late.position, late.records) == (None, 0, 0), "not in this lease"
    waits = copy.lease(fill_wait_seconds=1.5)
    assert (waits.error, waits.position) == (None, 20)
    assert_copy_or_letter(copy.source, copy.destination, copy.where, {3})


def test_who_does_not_own_the_mirror_fences_nobody_and_knows_the_letters(copy: Copy) -> None:
    copy.create()
    copy.write(values(20, {3, 15}))
    owner = copy.lease()
    assert owner.hand_off is not None
    assert copy.lease(not_owner_because="another process has it").error is None, "nothing to copy, and nothing is wrong"
    copy.write(values(10, {5}))
    row = copy.lease(needs_tail_check=False, last_position=20, hand_off=owner.hand_off)
    assert (row.error, row.position, row.hand_off) == (None, 30, owner.hand_off), "its identity still holds"


def test_leases_too_short_for_their_letters_come_to_the_end_all_the_same(copy: Copy) -> None:
    copy.create()
    copy.write(values(600, set(range(0, 600, 2))), per_batch=1)
    position = 0
    while position < 600:
        row = copy.lease(GapFill.FILLER, seconds=1.5)
        assert row.error is None
        assert row.position is not None
        assert row.position > position, "each lease comes some way"
        position = row.position
    assert_copy_or_letter(copy.source, copy.destination, copy.where, set(range(0, 600, 2)))


def test_no_letter_is_written_behind_a_gap_that_may_not_be_filled(copy: Copy) -> None:
    copy.create()
    work = lettering(copy.destination, copy.where, gap_fill_offsets_max=9)
    missing = Gap(offsets=OffsetRange(start_offset=0, end_offset=10), kind=GapKind.MISSING)
    batch = dense_batch([Record(1, b"%d" % n, bad(n)) for n in range(10)], 10)
    lettered = delivery_of([batch], OffsetRange(start_offset=0, end_offset=20), end_offset=20, gaps=[missing])

    async def deliver(sink: PartitionSink, _: LeaseConnections) -> None:
        await sink.open()
        with pytest.raises(SourceGapError):
            await sink.deliver(lettered)
        await sink.settle()
        assert sink.is_settled

    copy.run_async(with_sink(work, copy.where, copy.source, deliver))
    assert lettered_offsets(copy.destination, copy.where) == []
    assert log_end(copy.destination, copy.topic) == 0


def test_partitions_of_a_shard_take_turns(source_kafka: EmbeddedKafka, copy: Copy) -> None:
    create_topic(copy.source, copy.topic, 4)
    create_topic(copy.destination, copy.topic, 4)
    create_letter_topics(copy.destination, copy.topic, letter_partitions=3)
    now_ms = int(time.time() * 1000)
    wheres = [TopicPartition(copy.topic, number) for number in range(4)]
    for where in wheres:
        records = [Record(now_ms, b"%d" % n, value) for n, value in enumerate(values(40, {where.partition, 20}))]
        copy.run_async(produce(copy.source, copy.topic, where.partition, list(in_batches(records, 10))))
    plan = lease_plan(
        copy.source, [(where, [lettering(copy.destination, where)]) for where in wheres], end=40, seconds=8.0
    )
    rows = run_lease(plan)
    assert [(row.error, row.position, row.records) for row in rows.values()] == [(None, 40, 38)] * 4
    assert {key.partition: each for key, each in known_letters(copy.destination, copy.topic).items()} == {
        number: [number, 20] for number in range(4)
    }
    hand_offs = [row.hand_off for row in rows.values()]
    assert None not in hand_offs
    works = [
        replace(work, orders=replace(work.orders, hand_off=hand_off, needs_tail_check=False, last_position=40))
        for where, hand_off in zip(wheres, hand_offs, strict=True)
        for work in [lettering(copy.destination, where)]
    ]
    plan = lease_plan(
        copy.source, [(where, [work]) for where, work in zip(wheres, works, strict=True)], end=40, seconds=4.0
    )
    assert [row.hand_off for row in run_lease(plan).values()] == hand_offs, "an identity that holds is not taken anew"
