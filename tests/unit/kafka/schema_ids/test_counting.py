from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter, all_counts, joined_counts, side_counts
from mirrorlake.kafka.schema_ids.counts import (
    NAMES_MAX,
    SchemaIdCounts,
    Seen,
    SideCounts,
    common_sides,
    sides_of,
)
from mirrorlake.kafka.schema_ids.framing import SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.kafka.schema_ids.rewriting import counted_ids
from mirrorlake.kafka.schema_ids.search import SEEN_MAX
from unit.kafka.records.record_samples import Sample, columns_of, only_batch
from unit.kafka.schema_ids.test_finding import HEADERS, _samples, framed, framing_of, looked_at, name_in

BOTH = 0b11
GUID = UUID(int=(1 << 127) + 9)


def counted_by_hand(samples: list[Sample], side: int) -> SideCounts:
    """The rule in plain Python, as the compiled search's test has it."""
    nameless: dict[Framing, Seen] = {}
    names: dict[SchemaName, Seen] = {}
    for sample in samples:
        payload = looked_at(sample, side)
        framing, seen = framing_of(payload), Seen(1, sample.offset)
        if framing in (Framing.NULL, Framing.SHORT, Framing.NOT_FRAMED):
            nameless[framing] = seen.joined(nameless.get(framing))
        else:
            assert payload is not None
            names[name_in(payload)] = seen.joined(names.get(name_in(payload)))
    return SideCounts(nameless=nameless, names=names)


@given(_samples, st.integers(0, 3), st.integers(0, 3), st.randoms(use_true_random=False))
def test_every_record_is_counted_by_the_schema_it_names(
    samples: list[Sample], before: int, behind: int, random: Random
) -> None:
    placed = [replace(sample, offset=7 * index) for index, sample in enumerate(samples)]
    columns = columns_of(placed)
    start, stop = min(before, len(placed)), max(min(before, len(placed)), len(placed) - behind)
    order = list(range(len(placed)))
    random.shuffle(order)

    for side in HEADERS:
        assert side_counts(columns, side) == counted_by_hand(placed, side)
        assert side_counts(columns.slice(start, stop), side) == counted_by_hand(placed[start:stop], side)
        # A snapshot's records lie in the order of their keys.
        assert side_counts(columns_of([placed[row] for row in order]), side) == counted_by_hand(placed, side)


@given(_samples, st.integers(1, 5))
def test_parts_add_up_to_the_whole(samples: list[Sample], parts: int) -> None:
    placed = [replace(sample, offset=index) for index, sample in enumerate(samples)]
    columns, step = columns_of(placed), -(-len(placed) // parts)
    slices = [columns.slice(start, min(start + step, len(placed))) for start in range(0, len(placed), step)]
    counter = SchemaIdCounter(BOTH)
    for part in slices:
        counter.take(part)
    whole = all_counts(columns, BOTH)
    assert counter.counts == whole == joined_counts([all_counts(part, BOTH) for part in slices])
    assert {side.records for side in whole.values()} == {len(placed)}


@given(_samples, st.sampled_from(Codec), st.sampled_from([0b01, 0b10, 0b11]))
def test_the_search_of_a_batch_counts_the_same_records(samples: list[Sample], codec: Codec, sides: int) -> None:
    placed = [replace(sample, offset=100 + 3 * index) for index, sample in enumerate(samples)]
    batch = only_batch(encode_batch(columns_of(placed), codec=codec, base_offset=100))
    names = {name for side in HEADERS for name in counted_by_hand(placed, side).names}
    nobodys = {name for name in names if isinstance(name, int) and name < 0}
    ids = SchemaIdMap.of(
        {name: name for name in names if name not in nobodys},
        absent=nobodys,
        keys=bool(sides & 1),
        values=bool(sides & 2),
        passes_keys=True,
        passes_values=True,
    )
    expected = {SIDE_NAMES[side]: counted_by_hand(placed, side) for side in HEADERS if sides >> side & 1}
    assert counted_ids(batch, ids) == expected == all_counts(columns_of(placed), sides)


@pytest.mark.parametrize("count", [SEEN_MAX, SEEN_MAX + 1, 5 * SEEN_MAX])
def test_a_batch_that_names_many_schemas_is_counted_too(count: int) -> None:
    """Of more than there is room for in the search, the records are decoded."""
    samples = [Sample(each, key=framed(each // 2), value=framed(each % count)) for each in range(2 * count)]
    ids = SchemaIdMap.of(dict(zip(range(count), range(count), strict=True)))
    counts = counted_ids(only_batch(encode_batch(columns_of(samples), codec=Codec.LZ4)), ids)
    names: dict[SchemaName, Seen] = {each: Seen(2, each) for each in range(count)}
    assert counts == {"value": SideCounts(nameless={}, names=names)}


def test_a_batch_whose_schemas_are_not_all_known_is_not_counted() -> None:
    ids = SchemaIdMap.of({7: 7})
    samples = [Sample(5, value=framed(7)), Sample(6, value=framed(8)), Sample(7, value=b"{}")]
    with pytest.raises(SchemaUnknownError, match="8 from offset 6"):
        counted_ids(only_batch(encode_batch(columns_of(samples), codec=Codec.NONE, base_offset=5)), ids)
    del samples[1]
    with pytest.raises(SchemaUnreadableError, match="offset 7"):
        counted_ids(only_batch(encode_batch(columns_of(samples), codec=Codec.NONE, base_offset=5)), ids)


def test_one_record_of_each_is_counted_where_it_is() -> None:
    samples = [
        Sample(10, key=b"plain", value=framed(7)),
        Sample(12, key=None, value=framed(-3)),
        Sample(13, key=framed(1), value=b"\1" + GUID.bytes),
        Sample(15, key=b"", value=None),
        Sample(20, key=framed(1), value=b"{}", headers=((b"__value_schema_id", framed(7)),)),
        Sample(21, key=framed(2), value=b"\0\0"),
    ]
    assert all_counts(columns_of(samples), BOTH) == {
        "key": SideCounts(
            nameless={Framing.NOT_FRAMED: Seen(1, 10), Framing.NULL: Seen(1, 12), Framing.SHORT: Seen(1, 15)},
            names={1: Seen(2, 13), 2: Seen(1, 21)},
        ),
        "value": SideCounts(
            nameless={Framing.NULL: Seen(1, 15), Framing.SHORT: Seen(1, 21)},
            names={7: Seen(2, 10), -3: Seen(1, 12), GUID: Seen(1, 13)},
        ),
    }


def test_a_side_that_names_too_many_schemas_is_given_up_and_the_other_one_is_not() -> None:
    counter = SchemaIdCounter(BOTH)
    counter.take(columns_of([Sample(each, key=framed(1), value=framed(each)) for each in range(NAMES_MAX)]))
    assert counter.counts is not None
    assert set(counter.counts) == set(SIDE_NAMES)
    counter.take(columns_of([Sample(NAMES_MAX, key=framed(1), value=framed(NAMES_MAX))]))
    counter.take(columns_of([Sample(NAMES_MAX + 1, key=framed(1), value=framed(1))]))
    assert counter.counts == {"key": SideCounts(nameless={}, names={1: Seen(NAMES_MAX + 2, 0)})}


def test_what_nobody_asks_for_is_not_counted() -> None:
    counter = SchemaIdCounter(0)
    counter.take(columns_of([Sample(0)]))
    assert counter.counts is None
    values = SchemaIdCounter(0b10)
    assert (values.counts, sides_of(values.counts)) == ({"value": SideCounts(nameless={}, names={})}, 0b10)


def test_parts_together_tell_of_sides_that_were_counted_of_each_alone() -> None:
    one: SchemaIdCounts = all_counts(columns_of([Sample(0, key=framed(1), value=framed(7))]), BOTH)
    values = {"value": one["value"]}
    assert joined_counts([one, None]) is None
    assert joined_counts([]) is None
    assert joined_counts([values, {"key": one["key"]}]) is None
    assert joined_counts([one, values]) == {"value": SideCounts(nameless={}, names={7: Seen(2, 0)})}
    assert [common_sides(each) for each in ([one], [one, values], [one, None], [])] == [0b11, 0b10, 0, 0]


def test_parts_that_name_too_many_schemas_together_tell_nothing_of_that_side() -> None:
    parts: list[SchemaIdCounts] = [
        all_counts(columns_of([Sample(each, key=framed(1), value=framed(each)) for each in offsets]), BOTH)
        for offsets in (range(NAMES_MAX), range(NAMES_MAX, NAMES_MAX + 1))
    ]
    joined = joined_counts(parts)
    assert joined is not None
    assert set(joined) == {"key"}
