from collections import Counter
from dataclasses import replace
from struct import pack, unpack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batches import HEADER_BYTES, Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.schema_ids.finding import FoundIds, find_ids
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.kafka.schema_ids.id_map import UNKNOWN_IDS_MAX, SchemaIdMap, SchemaName
from unit.kafka.records.record_samples import Sample, columns_of, only_batch

KNOWN_IDS, ABSENT_ID, UNASKED_IDS = (1, 300, 2**31 - 1), 77, (900, -5)
HEADERS = {0: b"__key_schema_id", 1: b"__value_schema_id"}
# Close to each other in their first and in their last bytes, and on both sides of where a signed number turns.
KNOWN_GUIDS = (UUID(int=0), UUID(int=1), UUID(int=1 << 127), UUID(int=(1 << 128) - 1), UUID(int=(1 << 64) + 5))
ABSENT_GUID, UNNAMED_GUID = UUID(int=2), UUID(int=(1 << 127) + 1)
UNASKED_GUIDS = (UUID(int=3), UUID(int=(1 << 64) + 4), UUID(int=(1 << 128) - 2))
GUID = b"\1" + bytes(16)


def framed(schema_id: int, body: bytes = b"body") -> bytes:
    return b"\0" + pack(">i", schema_id) + body


def asked(*, keys: bool = True, values: bool = True) -> SchemaIdMap:
    pairs: dict[SchemaName, SchemaName] = {**dict.fromkeys(KNOWN_IDS, 1), **{each: each for each in KNOWN_GUIDS}}
    absent: list[SchemaName] = [ABSENT_ID, ABSENT_GUID]
    return SchemaIdMap.of(pairs, absent=absent, unnamed=[UNNAMED_GUID], keys=keys, values=values)


def found_in(samples: list[Sample], codec: Codec = Codec.NONE, ids: SchemaIdMap | None = None) -> FoundIds:
    return find_ids(only_batch(encode_batch(columns_of(samples), codec=codec)), ids or asked())


def framing_of(payload: bytes | None) -> Framing:
    """The rule in plain Python."""
    if payload is None:
        return Framing.NULL
    if payload[:1] not in (b"\0", b"\1", b""):
        return Framing.NOT_FRAMED
    if payload[:1] == b"\1":
        if len(payload) < 17:
            return Framing.SHORT
        guid = UUID(bytes=payload[1:17])
        if guid == UNNAMED_GUID:
            return Framing.GUID
        if guid == ABSENT_GUID:
            return Framing.ABSENT
        return Framing.KNOWN if guid in KNOWN_GUIDS else Framing.UNKNOWN
    if len(payload) < 5:
        return Framing.SHORT
    (schema_id,) = unpack(">i", payload[1:5])
    if schema_id == ABSENT_ID:
        return Framing.ABSENT
    return Framing.KNOWN if schema_id in KNOWN_IDS else Framing.UNKNOWN


def name_in(payload: bytes) -> SchemaName:
    return UUID(bytes=payload[1:17]) if payload[0] else int(unpack(">i", payload[1:5])[0])


def looked_at(sample: Sample, side: int) -> bytes | None:
    """Where a side's id is looked for: its last header, unless that or the payload is null."""
    payload = (sample.key, sample.value)[side]
    held = [value for name, value in sample.headers if name == HEADERS[side]]
    return held[-1] if payload is not None and held and held[-1] is not None else payload


_payloads = st.one_of(
    st.none(),
    st.builds(framed, st.sampled_from([*KNOWN_IDS, ABSENT_ID, *UNASKED_IDS]), st.binary(max_size=80)),
    st.builds(
        lambda guid, body: b"\1" + guid.bytes + body,
        st.sampled_from([*KNOWN_GUIDS, ABSENT_GUID, UNNAMED_GUID, *UNASKED_GUIDS]),
        st.binary(max_size=80),
    ),
    st.sampled_from([b"", b"\0", b"\0\0\0\1", GUID, GUID[:16], b"text", framed(1, b"x" * 5000)]),
)
_names = st.sampled_from([*HEADERS.values(), b"trace", b"__value_schema_iD", b""])
_headers = st.lists(st.tuples(_names, _payloads), max_size=4).map(tuple)
_samples = st.lists(st.builds(Sample, st.just(0), key=_payloads, value=_payloads, headers=_headers), min_size=1)


@given(_samples, st.sampled_from(Codec), st.integers(0, 5))
def test_every_record_is_counted_by_what_names_its_schema(samples: list[Sample], codec: Codec, gap: int) -> None:
    placed = [replace(sample, offset=index * (gap + 1)) for index, sample in enumerate(samples)]

    found = found_in(placed, codec)

    for side in HEADERS:
        expected = [framing_of(looked_at(sample, side)) for sample in placed]
        counted = {framing: found.count(side, framing) for framing in Framing}
        assert counted == {**dict.fromkeys(Framing, 0), **Counter(expected)}
        for framing in set(expected):
            assert found.first_offset(side, framing) == placed[expected.index(framing)].offset
    payloads = [looked_at(sample, side) for sample in placed for side in HEADERS]
    unasked = {name_in(p) for p in payloads if p is not None and framing_of(p) is Framing.UNKNOWN}
    assert set(found.unknown) == unasked
    assert len(found.unknown) == len(unasked)


def test_a_side_without_schemas_is_not_looked_at() -> None:
    found = found_in([Sample(0, key=framed(900), value=framed(1))], ids=asked(keys=False))
    assert found.unknown == ()
    assert [found.count(0, framing) for framing in Framing] == [0] * len(Framing)
    assert found.count(1, Framing.KNOWN) == 1


def test_more_ids_than_are_told_at_once_are_told_when_these_were_asked_about() -> None:
    samples = [Sample(number, value=framed(1000 + number)) for number in range(UNKNOWN_IDS_MAX + 5)]
    first = found_in(samples, ids=SchemaIdMap.of({}))
    rest = found_in(samples, ids=SchemaIdMap.of(dict.fromkeys(first.unknown, 1)))
    assert first.unknown == tuple(range(1000, 1000 + UNKNOWN_IDS_MAX))
    assert rest.unknown == tuple(range(1000 + UNKNOWN_IDS_MAX, 1005 + UNKNOWN_IDS_MAX))


def test_more_guids_than_are_told_at_once_are_told_when_these_were_asked_about() -> None:
    guids = [UUID(int=(number << 64) + number) for number in range(UNKNOWN_IDS_MAX + 5)]
    samples = [Sample(number, value=b"\1" + guid.bytes) for number, guid in enumerate(guids)]
    first = found_in(samples, ids=SchemaIdMap.of({}))
    rest = found_in(samples, ids=SchemaIdMap.of({each: each for each in first.unknown}))
    assert first.unknown == tuple(guids[:UNKNOWN_IDS_MAX])
    assert rest.unknown == tuple(guids[UNKNOWN_IDS_MAX:])


def test_offsets_are_those_of_the_batch() -> None:
    samples = [Sample(40, value=framed(1)), Sample(47, value=b"{}")]
    batch = only_batch(encode_batch(columns_of(samples), codec=Codec.ZSTD, base_offset=40))
    assert find_ids(batch, asked()).first_offset(1, Framing.NOT_FRAMED) == 47


def test_a_batch_that_lies_about_its_records_is_corrupt() -> None:
    data = bytearray(encode_batch(columns_of([Sample(0), Sample(1)]), codec=Codec.NONE))
    data[HEADER_BYTES] = 0x7E
    with pytest.raises(CorruptBatchError):
        find_ids(only_batch(data), asked())
