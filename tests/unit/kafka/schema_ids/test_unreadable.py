from struct import pack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.schema_ids.finding import find_ids
from mirrorlake.kafka.schema_ids.framing import FRAMINGS, SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, unknown_ids
from mirrorlake.kafka.schema_ids.rewriting import with_ids
from mirrorlake.kafka.schema_ids.unreadable import REFUSED, dead_letters_of
from unit.kafka.records.record_samples import Sample, columns_of, only_batch

KNOWN_ID, ABSENT_ID, REFUSED_ID, UNKNOWN_ID = 1, 77, 88, 99
KNOWN_GUID, ABSENT_GUID, REFUSED_GUID, UNKNOWN_GUID, UNNAMED_GUID = (UUID(int=each << 63) for each in range(1, 6))


def by_guid(guid: UUID) -> bytes:
    return b"\1" + guid.bytes + b"body"


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"body"


def id_map(*, keys: bool = True, letters: str = "", passes: str = "") -> SchemaIdMap:
    return SchemaIdMap.of(
        {KNOWN_ID: 5, KNOWN_GUID: ABSENT_GUID},
        absent=[ABSENT_ID, ABSENT_GUID],
        unnamed=[UNNAMED_GUID],
        refused={REFUSED_ID: "another history", REFUSED_GUID: "another history"},
        keys=keys,
        passes_keys="key" in passes,
        passes_values="value" in passes,
        letters_of_keys="key" in letters,
        letters_of_values="value" in letters,
    )


def sample(offset: int, key: bytes | None, value: bytes | None, *headers: tuple[bytes, bytes | None]) -> Sample:
    return Sample(offset, key=key, value=value, headers=headers)


def found(samples: list[Sample], ids: SchemaIdMap) -> list[tuple[int, str, str]]:
    return [(each.row, each.side, each.reason) for each in dead_letters_of(columns_of(samples), ids)]


def test_each_reason_is_told_and_what_can_be_read_is_none() -> None:
    bad = {b"": "short", b"\0\0\0\1": "short", b"{}": "not-framed", by_guid(UNNAMED_GUID): "guid", b"\1x": "short"}
    bad |= {framed(ABSENT_ID): "absent", framed(REFUSED_ID): REFUSED}
    bad |= {by_guid(ABSENT_GUID): "absent", by_guid(REFUSED_GUID): REFUSED}
    values = [None, framed(KNOWN_ID), by_guid(KNOWN_GUID), *bad]
    samples = [sample(10 * n, framed(KNOWN_ID), value) for n, value in enumerate(values)]
    expected = [(n, "value", bad[value]) for n, value in enumerate(values) if value in bad]
    assert found(samples, id_map(letters="value")) == expected


def test_a_header_goes_before_the_payload_and_its_last_one_counts() -> None:
    name = b"__value_schema_id"
    samples = [
        sample(0, None, b"text", (name, framed(KNOWN_ID))),
        sample(1, None, b"text", (name, framed(KNOWN_ID)), (name, framed(ABSENT_ID))),
        sample(2, None, framed(KNOWN_ID), (name, None)),
        sample(3, None, None, (name, b"")),
    ]
    assert found(samples, id_map(letters="value")) == [(1, "value", "absent")]


def test_a_record_is_told_once_by_its_key_before_its_value() -> None:
    samples = [sample(0, b"x", b""), sample(1, framed(KNOWN_ID), b"")]
    assert found(samples, id_map(letters="key value")) == [(0, "key", "not-framed"), (1, "value", "short")]


def test_a_side_that_parks_goes_before_one_that_has_letters_and_one_that_passes_says_nothing() -> None:
    both = [sample(0, framed(KNOWN_ID), b""), sample(1, b"x", framed(KNOWN_ID))]
    assert found(both, id_map(letters="value", passes="key")) == [(0, "value", "short")]
    assert found(both, id_map(letters="value", keys=False)) == [(0, "value", "short")]
    with pytest.raises(SchemaUnreadableError) as raised:
        found(both, id_map(letters="value"))
    assert raised.value.facts == {"offset": 1, "side": "key", "framing": "not-framed"}
    # What the destination does not get parks a side that passes what cannot be read.
    with pytest.raises(SchemaUnreadableError, match="another history"):
        found([sample(7, framed(REFUSED_ID), b"")], id_map(letters="value", passes="key"))


def test_an_id_that_is_not_known_yet_is_waited_for_before_anything_is_concluded() -> None:
    samples = [sample(3, None, b""), sample(4, None, framed(UNKNOWN_ID)), sample(5, b"parks", framed(REFUSED_ID))]
    with pytest.raises(SchemaUnknownError) as raised:
        found(samples, id_map(letters="value"))
    assert unknown_ids(raised.value) == (UNKNOWN_ID,)
    assert raised.value.facts["offset"] == 4
    with pytest.raises(SchemaUnknownError) as raised:
        found([sample(3, None, b""), sample(4, None, by_guid(UNKNOWN_GUID))], id_map(letters="value"))
    assert unknown_ids(raised.value) == (UNKNOWN_GUID,)


@pytest.mark.parametrize("side", SIDE_NAMES)
@pytest.mark.parametrize("bad", [b"", b"text", framed(ABSENT_ID), by_guid(ABSENT_GUID), by_guid(UNNAMED_GUID)])
def test_what_parks_names_both_ways_on_for_its_side_whoever_finds_it(side: str, bad: bytes) -> None:
    other = "value" if side == "key" else "key"
    record = sample(0, bad, None) if side == "key" else sample(0, None, bad)
    for find in (lambda: found([record], id_map(letters=other)), lambda: compiled(record, id_map(passes=other))):
        with pytest.raises(SchemaUnreadableError) as raised:
            find()
        assert f"`schemas: {{on-unreadable: {{{side}: pass}}}}` copies such records as they are" in raised.value.hint
        dead_letter = f'{{on-unreadable: {{{side}: dead-letter}}, dead-letters: {{topic: "{{topic}}.dead-letters"}}}}'
        assert f"`schemas: {dead_letter}` writes them to that topic instead" in raised.value.hint


def test_what_the_destination_does_not_get_may_become_a_dead_letter_and_does_not_pass() -> None:
    with pytest.raises(SchemaUnreadableError) as raised:
        compiled(sample(0, None, framed(REFUSED_ID)), id_map(passes="key value"))
    assert "on-unreadable: dead-letter, dead-letters: {topic: " in raised.value.hint
    assert "pass" not in raised.value.hint


def compiled(record: Sample, ids: SchemaIdMap) -> None:
    """What the search that copies is made with says of a batch of one record."""
    with_ids(only_batch(encode_batch(columns_of([record]), codec=Codec.NONE)), ids)


_payloads = st.sampled_from(
    [
        *(None, b"", b"\0\0\0\1", b"\1abc", b"text", framed(KNOWN_ID), framed(ABSENT_ID)),
        *(by_guid(KNOWN_GUID), by_guid(ABSENT_GUID), by_guid(UNNAMED_GUID), by_guid(UNNAMED_GUID)[:16]),
    ]
)
_headers = st.lists(st.tuples(st.sampled_from([b"__key_schema_id", b"__value_schema_id", b"x"]), _payloads), max_size=3)


@given(st.lists(st.builds(Sample, st.just(0), key=_payloads, value=_payloads, headers=_headers.map(tuple)), min_size=1))
def test_it_says_of_each_record_what_the_compiled_search_says_of_a_batch_of_it(samples: list[Sample]) -> None:
    ids = id_map(letters="key value")
    expected = []
    for row, each in enumerate(samples):
        counts = find_ids(only_batch(encode_batch(columns_of([each]), codec=Codec.NONE)), ids).counts
        sides = [
            (row, name, FRAMINGS[kind].value)
            for side, name in enumerate(SIDE_NAMES)
            for kind in counts[side].nonzero()[0].tolist()
            if FRAMINGS[kind] not in (Framing.NULL, Framing.KNOWN)
        ]
        expected += sides[:1]
    placed = [Sample(n, key=each.key, value=each.value, headers=each.headers) for n, each in enumerate(samples)]
    assert found(placed, ids) == expected
    batch = only_batch(encode_batch(columns_of(placed), codec=Codec.ZSTD))
    if expected:
        with pytest.raises(SchemaUnreadableError):
            with_ids(batch, ids)
    else:
        with_ids(batch, ids)
