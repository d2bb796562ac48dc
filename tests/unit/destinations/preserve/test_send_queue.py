"""What waits at a partition: joined where it can be, and not changed while it is in work."""

from mirrorlake.destinations.append_channel import Append
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.preserve.send_queue import Fill, SendQueue, WaitingLetters
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from unit.kafka.records.record_samples import Sample, columns_of, only_batch


def append(offset: int) -> Append:
    batch = only_batch(encode_batch(columns_of([Sample(offset, timestamp=777)]), codec=Codec.NONE, base_offset=offset))
    return Append(batch.header, batch.view, len(batch.view), offset, offset + 1, 1, "raw:dense", 777, None)


def fill(start: int, end: int, kind: GapKind = GapKind.DEAD_LETTERED) -> Fill:
    return Fill(Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=kind))


def letters(*offsets: int) -> Letters:
    records = columns_of([Sample(offset) for offset in offsets])
    return Letters(records=records, reasons=("value:short",) * len(offsets), codec=Codec.NONE)


def taken(queue: SendQueue) -> list[object]:
    """What comes out: offsets of batches, ranges of gaps, lists of letters' offsets."""
    found: list[object] = []
    while (head := queue.head) is not None:
        queue.take()
        if isinstance(head, Append):
            found.append(head.expected_offset)
            queue.let_go(head)
        elif isinstance(head, Fill):
            found.append(str(head.gap.offsets))
        else:
            found.append([int(each) for part in head.letters for each in part.records.offsets])
    return found


def test_letters_go_where_others_wait_already_and_their_gaps_are_joined() -> None:
    queue = SendQueue()
    queue.put(append(0))
    queue.put_letters(letters(1, 2))
    queue.put_fill(fill(1, 3))
    queue.put_letters(letters(3))
    queue.put_fill(fill(3, 4))
    queue.put(append(4))
    queue.put_letters(letters(5))
    queue.put_fill(fill(5, 6))
    assert queue.gaps == 2
    assert queue.letter_bytes == sum(each.size_bytes for each in (letters(1, 2), letters(3), letters(5)))
    assert taken(queue) == [0, [1, 2, 3, 5], "[1, 4)", 4, "[5, 6)"]
    assert (queue.held_bytes, queue.letter_bytes, queue.gaps) == (0, 0, 0)


def test_what_is_in_work_is_not_changed() -> None:
    queue = SendQueue()
    queue.put_letters(letters(0))
    queue.is_head_in_work = True
    queue.put_letters(letters(1))
    queue.put_fill(fill(0, 2))
    assert taken(queue) == [[0], [1], "[0, 2)"]
    queue.put_fill(fill(2, 3))
    queue.is_head_in_work = True
    queue.put_fill(fill(3, 4))
    queue.put_fill(fill(4, 5))
    assert taken(queue) == ["[2, 3)", "[3, 5)"]


def test_gaps_of_other_kinds_stay_apart_and_take_the_time_of_the_batch_behind_them() -> None:
    queue = SendQueue()
    queue.put_fill(fill(0, 1, GapKind.ABSENT))
    queue.put_fill(fill(1, 2))
    queue.put(append(2))
    first = queue.head
    assert isinstance(first, Fill)
    assert first.timestamp_ms is None
    queue.take()
    second = queue.head
    assert isinstance(second, Fill)
    assert second.timestamp_ms == 777


def test_only_what_is_in_work_is_kept_of_what_waits() -> None:
    queue = SendQueue()
    queue.put_letters(letters(0))
    queue.put_fill(fill(0, 1))
    queue.put(append(1))
    queue.is_head_in_work = True
    queue.drop(keeps_work=True)
    assert isinstance(queue.head, WaitingLetters)
    assert (len(queue), queue.held_bytes, queue.gaps) == (1, 0, 0)
    assert queue.letter_bytes == letters(0).size_bytes
    queue.drop()
    assert (len(queue), queue.letter_bytes, queue.is_head_in_work) == (0, 0, False)
