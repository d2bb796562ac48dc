"""Dead letters taken out of batches, and which of them a commit writes."""

from collections.abc import Sequence
from dataclasses import replace
from struct import pack, pack_into

import numpy as np
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.interface import ClassifiedBatch, Progress
from mirrorlake.destinations.letters.dead_letters import LetterOrigin, Letters, origin_of, parted, without_lettered
from mirrorlake.destinations.map.transaction_participants import MapAppend
from mirrorlake.errors import MirrorlakeError, RecordTooLargeError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches, encode_batch
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.kafka.schema_ids.unreadable import headers_of
from support.map_participants import new_participant
from unit.kafka.records.old_messages import GZIP
from unit.kafka.records.record_samples import Sample, columns_of, only_batch, samples_of

IDS = SchemaIdMap.of({1: 5}, letters_of_values=True)
GOOD, BAD = b"\0" + pack(">i", 1) + b"body", b"{}"
ORIGIN = LetterOrigin("cluster", "orders", "id", 3, 0, "m", "copy")


def item(samples: list[Sample], codec: Codec = Codec.ZSTD) -> ClassifiedBatch:
    base = samples[0].offset
    batch = only_batch(encode_batch(columns_of(samples), codec=codec, base_offset=base))
    return ClassifiedBatch(batch=batch, path="raw", reason="dense")


def letters_at(offsets: list[int], size: int = 2) -> Letters:
    samples = [Sample(offset, value=bytes(size)) for offset in offsets]
    return Letters(records=columns_of(samples), reasons=("value:short",) * len(offsets), codec=Codec.NONE)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.sampled_from(Codec), st.integers(0, 3))
def test_a_batch_is_parted_into_letters_and_the_rest_at_their_offsets(
    are_bad: list[bool], codec: Codec, gap: int
) -> None:
    samples = [
        Sample(100 + n * (gap + 1), key=b"%d" % n, value=BAD if is_bad else GOOD, headers=((b"h", None),))
        for n, is_bad in enumerate(are_bad)
    ]
    found = parted(item(samples, codec), IDS, ORIGIN)
    bad = [each for each, is_bad in zip(samples, are_bad, strict=True) if is_bad]
    kept = [each for each, is_bad in zip(samples, are_bad, strict=True) if not is_bad]
    if not bad:
        assert found is None
        return
    assert found is not None
    letters = samples_of(found.letters.records)
    assert [(each.offset, each.timestamp, each.key, each.value) for each in letters] == [
        (each.offset, each.timestamp, each.key, each.value) for each in bad
    ]
    assert [each.headers[:1] for each in letters] == [each.headers for each in bad]
    origins = [origin_of(headers) for headers in headers_of(found.letters.records)]
    assert origins == [ORIGIN._replace(offset=each.offset) for each in bad]
    assert found.letters.counts == {"value:not-framed": len(bad)}
    assert [offset for each in found.gaps for offset in range(each.offsets.start_offset, each.offsets.end_offset)] == [
        each.offset for each in bad
    ]
    if kept:
        assert samples_of(decode_batches([found.item.batch])) == kept
    assert found.item.path == ("records" if kept else "skip")


def test_headers_that_are_no_letters_say_nothing_and_a_letter_of_a_letter_speaks_for_itself() -> None:
    told = list(ORIGIN.headers("value", "short"))
    assert origin_of(told) == ORIGIN
    assert origin_of([]) is origin_of(told[1:]) is None
    assert origin_of([*told, (b"__mirrorlake.errors.offset", b"many")]) is None
    assert origin_of([*told, (b"__mirrorlake.errors.topic", b"\xff")]) is None
    later = ORIGIN._replace(topic="orders.dead-letters", offset=9)
    assert origin_of([*told, *later.headers("value", "short")]) == later


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=40), st.integers(5000, 20_000))
def test_parts_make_batches_that_the_topic_takes_and_nothing_is_left_out(sizes: list[int], limit: int) -> None:
    samples = [Sample(2 * n, value=bytes(size)) for n, size in enumerate(sizes)]
    letters = Letters(records=columns_of(samples), reasons=("value:short",) * len(sizes), codec=Codec.NONE)
    letters.check_sizes(limit, topic="dead")
    parts = list(letters.parts(limit))
    assert all(len(encode_batch(part, codec=Codec.NONE)) <= limit for part in parts)
    assert [part.offsets.tolist() for part in parts] == [list(range(len(part))) for part in parts]
    assert samples_of(RecordColumns.concat([part.renumbered(0) for part in parts])) == [
        replace(each, offset=offset)
        for each, offset in zip(samples, [n for part in parts for n in range(len(part))], strict=True)
    ]


def test_letters_of_batches_that_follow_one_another_are_written_as_few() -> None:
    zipped = replace(letters_at([30]), codec=Codec.ZSTD)
    found = Letters.merged([letters_at([1, 5]), letters_at([10]), zipped, letters_at([40])])
    assert [(each.records.offsets.tolist(), each.codec, len(each.reasons)) for each in found] == [
        ([1, 5, 10], Codec.NONE, 3),
        ([30], Codec.ZSTD, 1),
        ([40], Codec.NONE, 1),
    ]
    assert Letters.merged([]) == []


def test_a_letter_that_its_topic_would_refuse_is_named_and_one_that_compresses_enough_is_not() -> None:
    large = letters_at([7], size=9000)
    with pytest.raises(RecordTooLargeError) as raised:
        large.check_sizes(9000, topic="dead")
    assert (raised.value.facts["offset"], raised.value.facts["limit"]) == (7, 9000)
    replace(large, codec=Codec.ZSTD).check_sizes(9000, topic="dead")


class Told:
    """A sink that remembers which letters it was told of."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.offsets: list[int] = []

    def let_go(self, append: MapAppend) -> None:
        raise NotImplementedError

    def committed(self, position: int, appends: list[MapAppend], letters: Sequence[Letters]) -> None:
        del position, appends
        self.offsets += [offset for each in letters for offset in each.records.offsets.tolist()]

    def shard_failed(self, error: MirrorlakeError) -> None:
        raise error


@given(st.sets(st.integers(0, 30)), st.lists(st.integers(0, 31)))
def test_a_commit_writes_the_letters_below_its_position_whatever_batch_they_are_of(
    bad: set[int], positions: list[int]
) -> None:
    """A transaction may end in the middle of a source batch: its other letters wait for the next one."""
    told = Told()
    participant = new_participant(told)
    batches = [sorted(each for each in bad if first <= each < first + 10) for first in (0, 10, 20, 30)]
    participant.letters = [letters_at(batch) for batch in batches if batch]
    written: list[int] = []
    for position in sorted(positions):
        participant.taken_end = position
        progress, _ = participant.written()
        written += [n for each in participant.letters_below(progress.position) for n in each.records.offsets.tolist()]
        participant.took_commit(progress)
        assert written == told.offsets == [each for each in sorted(bad) if each < position]


@given(st.sets(st.integers(95, 115)), st.sampled_from(Codec))
def test_records_that_have_a_letter_are_left_out_whatever_they_hold(lettered: set[int], codec: Codec) -> None:
    samples = [Sample(100 + n, key=b"%d" % n, value=GOOD) for n in range(10)]
    whole = item(samples, codec)
    left, gaps = without_lettered(whole, np.array(sorted(lettered), np.int64))
    gone = {offset for gap in gaps for offset in range(gap.offsets.start_offset, gap.offsets.end_offset)}
    assert gone == lettered & set(range(100, 110))
    kept = [each for each in samples if each.offset not in lettered]
    if len(kept) == len(samples):
        assert left is whole
    elif kept:
        assert samples_of(decode_batches([left.batch])) == kept
    else:
        assert left.path == "skip"


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_parted_too(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, GZIP, 1 << 20)
    for offset, value in enumerate([GOOD, BAD, GOOD]):
        builder.append(offset, 5, b"k", value)
    data = bytearray(builder.build())
    pack_into(">q", data, 0, 2)  # a wrapper's offset is given by the broker
    whole = ClassifiedBatch(batch=only_batch(data), path="records", reason="old-format")
    found = parted(whole, IDS, ORIGIN)
    assert found is not None
    assert found.letters.records.offsets.tolist() == [1]
    left, gaps = without_lettered(whole, np.array([0, 2], np.int64))
    assert [decode_batches([each.batch]).offsets.tolist() for each in (found.item, left)] == [[0, 2], [1]]
    assert [str(gap.offsets) for gap in gaps] == ["[0, 1)", "[2, 3)"]
