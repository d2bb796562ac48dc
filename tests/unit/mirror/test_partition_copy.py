"""Handing deliveries to sinks while sinks, or the source, fail."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.destinations.archive.cutting_sink import CuttingSink, Published
from mirrorlake.destinations.interface import ENDLESS, Delivery, PartitionSink, Progress, PublishedSegment
from mirrorlake.errors import (
    BrokerUnreachableError,
    CorruptBatchError,
    MirrorlakeError,
    OutcomeUnknownError,
    PositionMovedError,
    RemoteTierError,
    StoreUnusableError,
)
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.mirror.encoder_turn import EncoderTurn
from mirrorlake.mirror.partition_copy import PartitionCopy
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.kafka.partition_reader import KafkaPartitionReader
from mirrorlake.sources.kafka.read_partition import PinnedAnswer, ReadPartition
from support.records import build_batch, simple_records
from unit.kafka.records.old_messages import GZIP, Message, message, wrapper

SOURCE = TopicPartition("orders", 0)


class Frame:
    """Counts how often its buffer was given back."""

    def __init__(self) -> None:
        self.releases = 0

    def release(self) -> None:
        self.releases += 1


class RacingSink:
    """A sink that lost a race: opened again, it stands at offset 20, or cannot be opened."""

    is_done = False
    is_endless = True
    is_settled = True
    needs_encoder = False
    reads_alone = False
    wanted_end = ENDLESS
    has_room = True

    def __init__(self, *, open_error: MirrorlakeError | None = None) -> None:
        self.progress = Progress(claims=1)
        self.failure: MirrorlakeError | None = PositionMovedError("another writer was faster")
        self.next_offset = 0
        self.opening = asyncio.Event()
        self.may_open = asyncio.Event()
        self.delivered: list[int] = []
        self._open_error = open_error

    async def open(self) -> None:
        self.opening.set()
        await self.may_open.wait()
        if self._open_error is not None:
            raise self._open_error
        self.failure = None
        self.next_offset = 20

    async def deliver(self, delivery: Delivery) -> None:
        self.delivered.append(delivery.covered.start_offset)

    async def starts_at(self, log_start: int) -> bool:
        return False

    async def stands(self) -> bool:
        return False

    def drop_unsent(self) -> None: ...

    async def end_encoding(self) -> None: ...

    async def settle(self) -> None: ...

    async def finish(self) -> None: ...

    def abandon(self) -> None: ...


async def never_out_of_range(position: int) -> MirrorlakeError:
    raise AssertionError(position)


async def the_cleaner_did_it(offsets: OffsetRange) -> MirrorlakeError | None:
    return None


class Broker:
    """A connection that nobody reads from: the test gives the answers."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def add(self, partition: ReadPartition) -> None: ...

    def changed(self, partition: ReadPartition) -> None: ...


def reader_of(why_no_hole: Callable[[OffsetRange], Awaitable[MirrorlakeError | None]]) -> KafkaPartitionReader:
    """A reader that the test answers."""
    return KafkaPartitionReader(SOURCE, Broker(), explain_out_of_range=never_out_of_range, why_no_hole=why_no_hole)


def copying(
    reader: KafkaPartitionReader,
    sinks: Sequence[PartitionSink],
    *,
    end_offset: int | None,
    turn: EncoderTurn | None = None,
) -> PartitionCopy:
    """A copy whose reader has begun."""
    copy = PartitionCopy(SOURCE, reader, sinks, end_offset=end_offset, turn=turn)
    copy.begin()
    return copy


def read(copy: PartitionCopy) -> KafkaPartitionReader:
    """The reader of a copy, to be asked and answered as a broker's connection does."""
    assert isinstance(copy.reader, KafkaPartitionReader)
    return copy.reader


def copy_to(sink: RacingSink, *, refusal: MirrorlakeError | None = None) -> PartitionCopy:
    """A copy that is told ``refusal`` where it asks what empty answers mean; without one, that they are a hole."""

    async def why_no_hole(offsets: OffsetRange) -> MirrorlakeError | None:
        return refusal

    return copying(reader_of(why_no_hole), [sink], end_offset=None)


def ten_records() -> FetchedPartition:
    """What the source answers for offset 0."""
    return FetchedPartition(
        topic=SOURCE.topic,
        partition=SOURCE.partition,
        error_code=0,
        high_watermark=10,
        last_stable_offset=10,
        log_start_offset=0,
        aborted=(),
        records=memoryview(bytearray(build_batch(simple_records(10)))),
    )


def test_a_message_set_of_an_old_format_is_delivered_though_its_own_offset_is_past_the_end() -> None:
    # Offsets 0 to 9 in one compressed message, which goes by the last of them; wanted are those below 4.
    inside = [message(1, Message(offset, timestamp=5)) for offset in range(10)]
    after = message(1, Message(10))
    answer = ten_records()._replace(records=memoryview(bytearray(wrapper(1, GZIP, 9, inside) + after)))

    async def body() -> None:
        sink = RacingSink()
        sink.failure = None
        copy = copying(
            reader_of(the_cleaner_did_it),
            [sink],
            end_offset=4,
        )
        assert read(copy).fetch_offset == 0
        read(copy).fetched(answer, PinnedAnswer(Frame()), is_quiet=True)  # type: ignore[arg-type]
        await copy.run()
        assert sink.delivered == [0]
        assert copy.is_over

    asyncio.run(body())


@pytest.mark.parametrize("sinks", [1, 2])
def test_an_answer_may_be_changed_only_by_who_alone_takes_it(sinks: int) -> None:
    may_be_changed = []

    class Sink(RacingSink):
        async def deliver(self, delivery: Delivery) -> None:
            may_be_changed.append(delivery.may_be_changed)

    async def body() -> None:
        taking: list[PartitionSink] = [Sink() for _ in range(sinks)]
        for sink in taking:
            sink.failure = None
        copy = copying(reader_of(the_cleaner_did_it), taking, end_offset=10)
        assert read(copy).fetch_offset == 0
        read(copy).fetched(ten_records(), PinnedAnswer(Frame()), is_quiet=True)  # type: ignore[arg-type]
        await copy.run()

    asyncio.run(body())
    assert may_be_changed == [sinks == 1] * sinks


def many_batches(count: int) -> FetchedPartition:
    """What the source answers for offset 0, in batches of one record."""
    batches = []
    for offset in range(count):
        batch = bytearray(build_batch(simple_records(1)))
        batch[:8] = offset.to_bytes(8, "big")
        batches.append(bytes(batch))
    return ten_records()._replace(
        records=memoryview(bytearray(b"".join(batches))), high_watermark=count, last_stable_offset=count
    )


@pytest.mark.parametrize("fails_at", [None, 1024])
def test_an_answer_of_many_batches_is_handed_over_in_pieces_between_which_others_go_on(fails_at: int | None) -> None:
    seen: list[object] = []
    frame = Frame()

    class Sink(RacingSink):
        async def deliver(self, delivery: Delivery) -> None:
            if delivery.covered.start_offset == fails_at:
                raise CorruptBatchError("the second piece")
            seen.append((delivery.covered.start_offset, delivery.covered.end_offset))
            self.next_offset = delivery.covered.end_offset
            asyncio.get_running_loop().call_soon(seen.append, "another")

    async def body() -> None:
        sink = Sink()
        sink.failure = None
        copy = copying(reader_of(the_cleaner_did_it), [sink], end_offset=2500)
        assert read(copy).fetch_offset == 0
        answer = PinnedAnswer(frame)  # type: ignore[arg-type]
        read(copy).fetched(many_batches(2500), answer, is_quiet=True)
        answer.unpin()
        await copy.run()

    asyncio.run(body())
    pieces = [(0, 1024), (1024, 2048), (2048, 2500)]
    wanted = [each for piece in (pieces if fails_at is None else pieces[:1]) for each in (piece, "another")]
    assert seen[: len(wanted) - 1] == wanted[:-1]
    assert [each for each in seen if each != "another"] == wanted[::2]
    assert frame.releases == 1


def test_an_answer_that_comes_while_a_sink_claims_again_is_dropped() -> None:
    async def body() -> None:
        sink, frame = RacingSink(), Frame()
        copy = copy_to(sink)
        assert read(copy).fetch_offset == 0
        running = asyncio.create_task(copy.run())
        await sink.opening.wait()
        answer = PinnedAnswer(frame)  # type: ignore[arg-type]
        read(copy).fetched(ten_records(), answer, is_quiet=False)
        answer.unpin()
        sink.may_open.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sink.delivered == []
        assert frame.releases == 1
        assert read(copy).fetch_offset == 20
        running.cancel()

    asyncio.run(body())


def test_a_source_and_a_destination_that_fail_at_the_same_time_end_the_sink_once() -> None:
    async def body() -> None:
        sink = RacingSink(open_error=OutcomeUnknownError("the destination is gone too"))
        copy = copy_to(sink)
        running = asyncio.create_task(copy.run())
        await sink.opening.wait()
        lost = BrokerUnreachableError("the source is gone")
        read(copy).fetch_failed(lost)
        sink.may_open.set()
        await running
        assert [error.message for error in copy.errors.values()] == [lost.message]

    asyncio.run(body())


def nothing_up_to(end: int) -> FetchedPartition:
    """What the source answers for offset 0 where it has no batch below its end."""
    return ten_records()._replace(records=memoryview(b""), high_watermark=end, last_stable_offset=end)


SLOW = RemoteTierError("the remote tier is slow")


def deliveries_of(
    answers: list[tuple[FetchedPartition, bool]], *, refusal: MirrorlakeError | None = None
) -> tuple[list[tuple[int, int]], list[MirrorlakeError]]:
    """What a sink is handed for answers to offset 0, each with whether it is quiet; and what it waits for at the end.

    ``refusal`` is what the source says of empty answers.
    """
    handed: list[tuple[int, int]] = []

    class Sink(RacingSink):
        async def deliver(self, delivery: Delivery) -> None:
            handed.append((delivery.covered.start_offset, delivery.covered.end_offset))

    async def body() -> list[MirrorlakeError]:
        sink = Sink()
        sink.failure = None
        copy = copy_to(sink, refusal=refusal)
        running = asyncio.create_task(copy.run())
        for answer, is_quiet in answers:
            assert read(copy).fetch_offset == 0
            read(copy).fetched(answer, PinnedAnswer(Frame()), is_quiet=is_quiet)  # type: ignore[arg-type]
            for _ in range(5):
                await asyncio.sleep(0)
        running.cancel()
        return list(copy.errors.values())

    errors = asyncio.run(body())
    return handed, errors


def test_a_tail_without_a_batch_is_a_gap_once_two_answers_were_empty_and_the_cleaner_explains_it() -> None:
    assert deliveries_of([(nothing_up_to(7), True), (nothing_up_to(7), True)]) == ([(0, 7)], [])


def test_only_what_was_stable_when_the_first_empty_answer_came_is_believed_to_be_a_gap() -> None:
    assert deliveries_of([(nothing_up_to(7), True), (nothing_up_to(9), True)]) == ([(0, 7)], [])


def test_one_empty_answer_is_no_gap() -> None:
    assert deliveries_of([(nothing_up_to(7), True)]) == ([], [])


def test_an_answer_that_was_full_of_other_partitions_says_nothing_about_a_gap() -> None:
    assert deliveries_of([(nothing_up_to(7), False), (nothing_up_to(7), True), (nothing_up_to(7), False)]) == ([], [])


def test_however_many_answers_are_empty_nothing_is_a_gap_that_the_cleaner_does_not_explain() -> None:
    assert deliveries_of([(nothing_up_to(7), True)] * 5, refusal=SLOW) == ([], [SLOW])


def test_what_a_partition_waited_for_is_forgotten_when_its_records_come() -> None:
    answers = [(nothing_up_to(7), True), (nothing_up_to(7), True), (ten_records(), False)]
    assert deliveries_of(answers, refusal=SLOW) == ([(0, 10)], [])


def test_records_that_come_after_an_empty_answer_are_no_gap() -> None:
    assert deliveries_of([(nothing_up_to(7), True), (ten_records(), False)]) == ([(0, 10)], [])


def test_an_empty_log_is_no_gap() -> None:
    assert deliveries_of([(nothing_up_to(0), True), (nothing_up_to(0), True)]) == ([], [])


class FilingSink(CuttingSink):
    """An archive of offsets 0 to 9 that makes one file of a delivery; the given errors come of publishing it."""

    _written = "file"
    wanted_end = 10

    def __init__(self, executor: Executor, *errors: MirrorlakeError) -> None:
        super().__init__(executor=executor, may_begin=lambda: True, changed=lambda: None)
        self._errors = list(errors)
        self.on_its_way: Future[Published] = Future()

    async def open(self) -> None:
        self._next_offset, self._is_done, self.failure = 0, False, None
        self.progress.claims += 1

    async def starts_at(self, log_start: int) -> bool:
        return False

    def _take(self, delivery: Delivery) -> None:
        self._publishing = self.on_its_way = Future()
        self._next_offset, self._is_done = delivery.covered.end_offset, True

    def _drop(self) -> None: ...

    def _note_segment(self, published: PublishedSegment, footer: SegmentFooter | None) -> None: ...

    def publish(self) -> None:
        """The file's publication ends: badly as long as there are errors."""
        if self._errors:
            self.on_its_way.set_exception(self._errors.pop(0))
            return
        flush = PublishedSegment(
            key="0-9",
            offsets=OffsetRange(start_offset=0, end_offset=10),
            records=10,
            raw_bytes=10,
            file_bytes=10,
            trigger="explicit",
            elapsed_ms=1,
        )
        self.on_its_way.set_result((flush, None))  # type: ignore[arg-type]


class Turns:
    """Notes when the encoder was taken and given back."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.turn = EncoderTurn(self._take, lambda: self.story.append("given back"))

    async def _take(self) -> bool:
        self.story.append("taken")
        return True


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def hand_over_ten(copy: PartitionCopy, sink: FilingSink) -> None:
    """The source's answer comes, and what was made of it is on its way."""
    before = sink.on_its_way
    assert (read(copy).wants_fetch, read(copy).fetch_offset) == (True, 0)
    read(copy).fetched(ten_records(), PinnedAnswer(Frame()), is_quiet=True)  # type: ignore[arg-type]
    while sink.on_its_way is before:
        assert not read(copy).wants_fetch, "what lies past the end of what is due is nobody's"
        await asyncio.sleep(0.001)
    while not sink.is_done:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("lost_races", [0, 1, 2])
def test_the_encoder_is_given_back_while_a_file_is_on_its_way_and_taken_again_where_another_was_first(
    executor: ThreadPoolExecutor, lost_races: int
) -> None:
    async def body() -> None:
        sink = FilingSink(executor, *[PositionMovedError("another writer was faster")] * lost_races)
        turns = Turns()
        copy = copying(
            reader_of(the_cleaner_did_it),
            [sink],
            end_offset=None,
            turn=turns.turn,
        )
        await turns.turn.take()
        running = asyncio.create_task(copy.run())
        for number in range(lost_races + 1):
            await hand_over_ten(copy, sink)
            while turns.story[-1] != "given back":
                await asyncio.sleep(0.001)
            assert turns.story == ["taken", "given back"] * (number + 1)
            assert (copy.is_over, copy.has_archive) == (False, True)
            sink.publish()
            while number < lost_races and not read(copy).wants_fetch:
                await asyncio.sleep(0.001)
        await asyncio.wait_for(running, 10)
        assert (copy.is_over, copy.errors, sink.progress.position) == (True, {}, 10)

    asyncio.run(body())


def test_a_file_that_cannot_be_published_ends_its_sink_with_the_reason(executor: ThreadPoolExecutor) -> None:
    async def body() -> None:
        refusal = StoreUnusableError("the store is read-only")
        sink = FilingSink(executor, refusal)
        turns = Turns()
        copy = copying(
            reader_of(the_cleaner_did_it),
            [sink],
            end_offset=None,
            turn=turns.turn,
        )
        await turns.turn.take()
        running = asyncio.create_task(copy.run())
        await hand_over_ten(copy, sink)
        sink.publish()
        await asyncio.wait_for(running, 10)
        assert list(copy.errors.values()) == [refusal]
        assert sink.progress.position == 0
        turns.turn.give_back()
        assert turns.story.count("taken") == turns.story.count("given back")

    asyncio.run(body())


def three_batches(*, flipped: int | None = None, no_count: int | None = None, marker: int | None = None) -> bytearray:
    """Offsets 0 to 29 in three equally long batches; of those named a record, the count or the kind is wrong."""
    batches = []
    for number in range(3):
        batch = bytearray(build_batch(simple_records(10, start=10 + 10 * number)))
        struct.pack_into(">q", batch, 0, 10 * number)
        batch[-1] ^= number == flipped
        if number == no_count:
            struct.pack_into(">i", batch, 57, -5)
        if number == marker:
            batch[22] |= 0x20
        batches.append(batch)
    return bytearray().join(batches)


def handed_over(records: bytearray, *, end_offset: int | None = None) -> tuple[list[tuple[int, int]], list[str]]:
    """The ranges a sink is handed of an answer to offset 0, then of the rest of it; and what it ends with."""
    handed: list[tuple[int, int]] = []

    class Sink(RacingSink):
        async def deliver(self, delivery: Delivery) -> None:
            assert len(delivery.batches) * 10 == len(delivery.covered)
            handed.append((delivery.covered.start_offset, delivery.covered.end_offset))
            self.next_offset = delivery.covered.end_offset

    async def body() -> PartitionCopy:
        sink = Sink()
        sink.failure = None
        copy = copying(
            reader_of(the_cleaner_did_it),
            [sink],
            end_offset=end_offset,
        )
        running = asyncio.create_task(copy.run())
        for _ in range(2):
            if not read(copy).wants_fetch:
                break
            rest = memoryview(records)[len(records) // 3 * (read(copy).fetch_offset // 10) :]
            read(copy).fetched(ten_records()._replace(records=rest), PinnedAnswer(Frame()), is_quiet=False)  # type: ignore[arg-type]
            for _ in range(5):
                await asyncio.sleep(0)
        running.cancel()
        return copy

    copy = asyncio.run(body())
    for error in copy.errors.values():
        assert isinstance(error, CorruptBatchError)
    return handed, [f"{error.facts['offset']}: {error.message}" for error in copy.errors.values()]


@pytest.mark.parametrize(
    ("records", "handed", "offset", "why"),
    [
        pytest.param(three_batches(flipped=1), [(0, 10)], 10, "its checksum says", id="what is before it is delivered"),
        pytest.param(three_batches(flipped=0), [], 0, "its checksum says", id="nothing is before it"),
        pytest.param(three_batches(flipped=1, no_count=2), [(0, 10)], 10, "its checksum says", id="the first counts"),
        pytest.param(three_batches(flipped=2, no_count=1), [(0, 10)], 10, "records do not fit", id="of whatever kind"),
        pytest.param(three_batches(marker=1), [(0, 10)], 10, "its checksum says", id="checked before it is believed"),
    ],
)
def test_a_batch_that_is_not_right_stops_the_partition_where_it_begins(
    records: bytearray, handed: list[tuple[int, int]], offset: int, why: str
) -> None:
    delivered, (error,) = handed_over(records)
    assert delivered == handed
    assert error.startswith(f"{offset}: source orders-0: the record batch at offset {offset} is corrupt")
    assert why in error


@pytest.mark.parametrize("records", [three_batches(flipped=2), three_batches(flipped=2, marker=2)])
def test_what_lies_past_the_end_need_not_be_right(records: bytearray) -> None:
    assert handed_over(records, end_offset=20) == ([(0, 20)], [])


def test_batches_that_are_right_come_all_at_once() -> None:
    assert handed_over(three_batches()) == ([(0, 30)], [])
