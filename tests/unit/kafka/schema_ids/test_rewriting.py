import pickle
from collections.abc import Mapping
from dataclasses import replace
from struct import pack, unpack
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError, SchemaUnknownError, SchemaUnreadableError
from mirrorlake.kafka.records.batches import HEADER_BYTES, Codec, verify_crc
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.schema_ids.columns import columns_with_ids, columns_without_ids
from mirrorlake.kafka.schema_ids.finding import find_ids
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName, unknown_ids
from mirrorlake.kafka.schema_ids.rewriting import with_ids
from mirrorlake.kafka.schema_ids.search import SEARCH
from unit.kafka.records.old_messages import Message, message
from unit.kafka.records.record_samples import Sample, columns_of, only_batch, samples_of

PAIRS = {1: 7, 2: 2, 300: 1, 2**31 - 1: 4}
ABSENT = 77
ABSENT_GUID, UNNAMED_GUID = UUID(int=1 << 100), UUID(int=(1 << 128) - 1)
# One that is equal on both sides, and others of which each byte, the first, and the last differ.
GUID_PAIRS = {
    UUID(int=0): UUID(int=0),
    UUID(int=1): UUID(bytes=bytes(range(0xF0, 0x100))),
    UUID(int=(1 << 127) + 1): UUID(int=1),
    UUID(int=(1 << 64) - 1): UUID(int=(1 << 64) - 2),
}
KEY_HEADER, VALUE_HEADER = b"__key_schema_id", b"__value_schema_id"


def framed(schema_id: int, body: bytes = b"body") -> bytes:
    return b"\0" + pack(">i", schema_id) + body


def named(ids: Mapping[int, int], guids: Mapping[UUID, UUID]) -> dict[SchemaName, SchemaName]:
    pairs: dict[SchemaName, SchemaName] = dict(ids.items())
    return pairs | dict(guids.items())


def id_map(*, keys: bool = True, passes_keys: bool = False, passes_values: bool = False) -> SchemaIdMap:
    return SchemaIdMap.of(
        named(PAIRS, GUID_PAIRS),
        absent=[ABSENT, ABSENT_GUID],
        unnamed=[UNNAMED_GUID],
        keys=keys,
        passes_keys=passes_keys,
        passes_values=passes_values,
    )


def by_guid(guid: UUID, body: bytes = b"body") -> bytes:
    return b"\1" + guid.bytes + body


def expected_bytes(payload: bytes) -> bytes:
    """The rule in plain Python: the four bytes behind a zero, the sixteen behind a one, where the map has them."""
    if len(payload) >= 17 and payload[0] == 1:
        guid = UUID(bytes=payload[1:17])
        return b"\1" + GUID_PAIRS.get(guid, guid).bytes + payload[17:]
    if len(payload) < 5 or payload[0] != 0:
        return payload
    (schema_id,) = unpack(">i", payload[1:5])
    return payload[:1] + pack(">i", PAIRS.get(schema_id, schema_id)) + payload[5:]


def expected_sample(sample: Sample) -> Sample:
    payloads = {KEY_HEADER: sample.key, VALUE_HEADER: sample.value}
    headers = list(sample.headers)
    for name, payload in payloads.items():
        own = [index for index, header in enumerate(headers) if header[0] == name]
        held = headers[own[-1]][1] if own else None
        if payload is not None and held is not None:
            headers[own[-1]] = (name, expected_bytes(held))
        elif payload is not None:
            payloads[name] = expected_bytes(payload)
    return replace(sample, key=payloads[KEY_HEADER], value=payloads[VALUE_HEADER], headers=tuple(headers))


_known = st.sampled_from([*PAIRS, ABSENT])
_known_guids = st.sampled_from([*GUID_PAIRS, ABSENT_GUID, UNNAMED_GUID])
_payloads = st.one_of(
    st.none(),
    st.builds(framed, _known, st.binary(max_size=80)),
    st.builds(by_guid, _known_guids, st.binary(max_size=80)),
    st.sampled_from([b"", b"\0", b"\0\0\0\1", b"\1" + bytes(16), b"\1abc", b"text", framed(1, b"x" * 5000)]),
)
_headers = st.lists(st.tuples(st.sampled_from([KEY_HEADER, VALUE_HEADER, b"trace", b""]), _payloads), max_size=4)
_samples = st.lists(
    st.builds(Sample, st.just(0), key=_payloads, value=_payloads, headers=_headers.map(tuple)), min_size=1
)


@given(_samples, st.sampled_from(Codec), st.integers(0, 5))
def test_ids_are_changed_and_no_other_byte_is(samples: list[Sample], codec: Codec, gap: int) -> None:
    placed = [replace(sample, offset=index * (gap + 1)) for index, sample in enumerate(samples)]
    batch = only_batch(encode_batch(columns_of(placed), codec=codec, base_offset=0))
    before = bytes(batch.view)

    changed = with_ids(batch, id_map(passes_keys=True, passes_values=True))

    wanted = [expected_sample(sample) for sample in placed]
    assert samples_of(decode_batches([changed])) == wanted
    assert samples_of(columns_with_ids(columns_of(placed), id_map())) == wanted
    assert bytes(batch.view) == before
    assert (changed is batch) is (wanted == placed)
    assert unpack(">I", changed.view[17:21])[0] == crc32c(changed.view[21:]) == changed.header.crc
    verify_crc(changed)
    lengths_aside = {"crc": 0, "batch_bytes": 0}
    assert changed.header._replace(**lengths_aside) == batch.header._replace(**lengths_aside)
    assert len(changed.view) == changed.header.batch_bytes
    if codec == Codec.NONE:
        assert len(changed.view) == len(batch.view)


@given(_samples, st.sampled_from(Codec))
def test_a_batch_changed_in_place_becomes_the_bytes_that_a_copy_of_it_does(samples: list[Sample], codec: Codec) -> None:
    placed = [replace(sample, offset=index) for index, sample in enumerate(samples)]
    ids = id_map(passes_keys=True, passes_values=True)
    batch = only_batch(encode_batch(columns_of(placed), codec=codec))
    copied = with_ids(batch, ids)
    changed = with_ids(batch, ids, in_place=True)
    assert (changed.header, bytes(changed.view)) == (copied.header, bytes(copied.view))
    if codec == Codec.NONE:
        assert changed.view is batch.view


def test_nothing_is_changed_in_place_of_a_batch_with_an_id_that_is_not_known_or_bytes_that_are_somebody_elses() -> None:
    samples = [Sample(0, key=None, value=framed(1)), Sample(1, key=None, value=framed(900))]
    batch = only_batch(encode_batch(columns_of(samples), codec=Codec.NONE))
    before = bytes(batch.view)
    with pytest.raises(SchemaUnknownError):
        with_ids(batch, id_map(), in_place=True)
    assert bytes(batch.view) == before
    readable = only_batch(encode_batch(columns_of(samples[:1]), codec=Codec.NONE))
    of_others = readable._replace(view=readable.view.toreadonly())
    assert with_ids(of_others, id_map(), in_place=True) == with_ids(readable, id_map())


def test_a_search_finds_nothing_of_the_one_before_and_a_large_batch_leaves_none_of_its_memory() -> None:
    many = [Sample(number, key=framed(900), value=framed(1)) for number in range(70_000)]
    large = only_batch(encode_batch(columns_of(many), codec=Codec.NONE))
    with pytest.raises(SchemaUnknownError, match="from offset 0 on"):
        with_ids(large, id_map())
    assert len(find_ids(large, id_map()).patches) == 70_000
    small = only_batch(encode_batch(columns_of([Sample(0, key=None, value=framed(2))]), codec=Codec.NONE))
    assert with_ids(small, id_map()) is small
    found = find_ids(small, id_map())
    assert (len(found.patches), found.unknown, found.counts.sum()) == (0, (), 2)
    assert SEARCH.patches.nbytes < 1 << 20


def test_only_the_four_bytes_of_an_id_differ_in_a_batch_that_is_not_compressed() -> None:
    batch = only_batch(encode_batch(columns_of([Sample(0, key=None, value=framed(1))]), codec=Codec.NONE))
    changed = with_ids(batch, id_map())
    differing = [at for at in range(len(batch.view)) if batch.view[at] != changed.view[at] and not 17 <= at < 21]
    assert bytes(changed.view[differing[0] - 3 : differing[0] + 1]) == pack(">i", 7)
    assert len(differing) == 1
    assert differing[0] > HEADER_BYTES


def test_the_sixteen_bytes_of_a_guid_are_changed_where_it_is_another_there() -> None:
    guid = UUID(int=1)
    batch = only_batch(encode_batch(columns_of([Sample(0, key=None, value=by_guid(guid))]), codec=Codec.NONE))
    changed = with_ids(batch, id_map())
    at = bytes(batch.view).index(by_guid(guid)) + 1
    assert bytes(changed.view[at : at + 16]) == GUID_PAIRS[guid].bytes
    before, after = ([*each.view[:17], *each.view[21:at], *each.view[at + 16 :]] for each in (batch, changed))
    assert before == after


@given(_samples)
def test_a_copy_equals_its_source_where_ids_are_set_aside(samples: list[Sample]) -> None:
    placed = [replace(sample, offset=index) for index, sample in enumerate(samples)]
    copy = [replace(expected_sample(sample), offset=sample.offset) for sample in placed]
    sides = id_map().sides
    aside = samples_of(columns_without_ids(columns_of(placed), sides))
    assert aside == samples_of(columns_without_ids(columns_of(copy), sides))
    for before, after in zip(placed, aside, strict=True):
        in_header = [held for name, held in before.headers if name == VALUE_HEADER][-1:]
        if before.value is not None and before.value[:1] == b"\1" and len(before.value) >= 17:
            is_named_here = in_header in ([], [None])
            assert after.value == (b"\1" + bytes(16) + before.value[17:] if is_named_here else before.value)


def test_a_schema_that_was_lost_equals_no_guid() -> None:
    lost = SchemaIdMap.of({}, lost=[UUID(int=1)])
    (compared,) = samples_of(columns_with_ids(columns_of([Sample(0, value=by_guid(UUID(int=1)))]), lost))
    assert compared.value == b"\1" + b"\xff" * 16 + b"body"


def test_a_guid_of_a_refused_schema_says_why() -> None:
    ids = SchemaIdMap.of({}, refused={UUID(int=1): "another history", 4: "elsewhere"}, passes_values=True)
    batch = only_batch(encode_batch(columns_of([Sample(0, value=by_guid(UUID(int=1)))]), codec=Codec.NONE))
    with pytest.raises(SchemaUnreadableError, match=f"schema GUID {UUID(int=1)}: another history"):
        with_ids(batch, ids)


def test_a_batch_whose_ids_are_equal_on_both_sides_is_passed_on_as_it_is() -> None:
    equal = [Sample(0, key=framed(2), value=framed(2)), Sample(1, key=by_guid(UUID(int=0)), value=by_guid(UUID(int=0)))]
    batch = only_batch(encode_batch(columns_of(equal), codec=Codec.ZSTD))
    assert with_ids(batch, id_map()) is batch


def test_a_side_without_schemas_is_not_looked_at() -> None:
    sample = Sample(0, key=framed(1), value=framed(1))
    batch = only_batch(encode_batch(columns_of([sample]), codec=Codec.NONE))
    (changed,) = samples_of(decode_batches([with_ids(batch, id_map(keys=False))]))
    assert (changed.key, changed.value) == (framed(1), framed(7))


def test_unknown_ids_of_both_sides_are_named_once() -> None:
    samples = [
        Sample(4, key=framed(1), value=framed(1)),
        Sample(5, key=framed(900), value=framed(-5)),
        Sample(6, value=framed(900)),
        Sample(7, value=by_guid(UUID(int=9)), headers=((VALUE_HEADER, by_guid(UUID(int=8), b"")),)),
    ]
    batch = only_batch(encode_batch(columns_of(samples), codec=Codec.LZ4, base_offset=4))
    with pytest.raises(SchemaUnknownError, match="from offset 5 on") as caught:
        with_ids(batch, id_map(passes_keys=True))
    assert set(unknown_ids(pickle.loads(pickle.dumps(caught.value)))) == {-5, 900, UUID(int=8)}
    with pytest.raises(SchemaUnknownError) as caught:
        columns_with_ids(columns_of(samples), id_map())
    assert unknown_ids(caught.value) == (900,)
    with pytest.raises(SchemaUnknownError) as caught:
        columns_with_ids(columns_of(samples[3:]), id_map(keys=False))
    assert unknown_ids(caught.value) == (UUID(int=8),)


@pytest.mark.parametrize(
    ("value", "framing"),
    [
        (b"", Framing.SHORT),
        (b"\0\0\0\1", Framing.SHORT),
        (b"\1" + bytes(15), Framing.SHORT),
        (b"{}", Framing.NOT_FRAMED),
        (by_guid(UNNAMED_GUID, b""), Framing.GUID),
        (by_guid(ABSENT_GUID), Framing.ABSENT),
        (framed(ABSENT), Framing.ABSENT),
    ],
)
def test_what_cannot_be_read_stops_the_batch_unless_it_passes(value: bytes, framing: Framing) -> None:
    samples = [Sample(8, key=framed(1), value=None), Sample(9, key=framed(1), value=value)]
    batch = only_batch(encode_batch(columns_of(samples), codec=Codec.NONE, base_offset=8))
    with pytest.raises(SchemaUnreadableError, match=f"value of the record at offset 9.*{framing.value}"):
        with_ids(batch, id_map(passes_keys=True))
    passed = samples_of(decode_batches([with_ids(batch, id_map(passes_values=True))]))
    assert [each.value for each in passed] == [None, value]
    assert [each.key for each in passed] == [framed(7), framed(7)]


def test_records_are_counted_by_what_they_have() -> None:
    values = [None, b"", b"{}", by_guid(UNNAMED_GUID), framed(ABSENT), framed(12), framed(1), framed(2)]
    batch = only_batch(encode_batch(columns_of([Sample(i, value=v) for i, v in enumerate(values)]), codec=Codec.NONE))
    found = find_ids(batch, id_map())
    assert {framing: found.count(1, framing) for framing in Framing} == {
        **dict.fromkeys(Framing, 1),
        Framing.KNOWN: 2,
    }
    assert found.count(0, Framing.NOT_FRAMED) == 8


def test_the_null_of_a_tombstone_passes_with_a_header_too() -> None:
    sample = Sample(0, key=framed(1), value=None, headers=((VALUE_HEADER, b"\1" + bytes(16)),))
    batch = only_batch(encode_batch(columns_of([sample]), codec=Codec.NONE))
    (changed,) = samples_of(decode_batches([with_ids(batch, id_map())]))
    assert changed == replace(sample, key=framed(7))


def test_the_last_header_counts_and_a_null_one_leaves_it_to_the_payload() -> None:
    headers = ((VALUE_HEADER, framed(1, b"")), (VALUE_HEADER, None))
    sample = Sample(0, key=None, value=framed(300), headers=headers)
    batch = only_batch(encode_batch(columns_of([sample]), codec=Codec.NONE))
    (changed,) = samples_of(decode_batches([with_ids(batch, id_map())]))
    assert changed == replace(sample, value=framed(1))


def test_messages_of_old_formats_are_changed_too() -> None:
    batch = only_batch(message(1, Message(5, None, framed(1), 1000)))
    (changed,) = samples_of(decode_batches([with_ids(batch, id_map())]))
    assert (changed.offset, changed.timestamp, changed.value) == (5, 1000, framed(7))


def test_a_batch_that_lies_about_its_records_is_corrupt() -> None:
    data = bytearray(encode_batch(columns_of([Sample(0), Sample(1)]), codec=Codec.NONE))
    data[HEADER_BYTES] = 0x7E
    with pytest.raises(CorruptBatchError):
        with_ids(only_batch(data), id_map())


def test_a_map_of_many_pairs_travels_as_bytes() -> None:
    guids = {UUID(int=number << 100): UUID(int=number) for number in range(1000)}
    ids = SchemaIdMap.of(named({number: number + 1 for number in range(100_000)}, guids))
    pickled = pickle.dumps([ids, ids, ids])
    assert len(pickled) < 100_000 * 2 * 8 + 1000 * 5 * 8 + 2000
    (again, *_) = pickle.loads(pickled)
    assert again == ids
    assert hash(again) == hash(ids)
    assert again != SchemaIdMap.of({1: 2})
    assert SchemaIdMap.of({UUID(int=1): UUID(int=1)}) != SchemaIdMap.of({UUID(int=1): UUID(int=2)})
    assert SchemaIdMap.of({UUID(int=1): UUID(int=1)}) != SchemaIdMap.of({}, unnamed=[UUID(int=1)])


@pytest.mark.parametrize(
    ("pairs", "absent"),
    [
        ({1: -1}, []),
        ({2**31: 1}, []),
        ({1: 1}, [1]),
        ({UUID(int=1): UUID(int=1)}, [UUID(int=1)]),
        ({UUID(int=1): 1}, []),
        ({1: UUID(int=1)}, []),
    ],
)
def test_a_map_refuses_what_is_no_id(pairs: dict[SchemaName, SchemaName], absent: list[SchemaName]) -> None:
    with pytest.raises(ValueError, match="ids"):
        SchemaIdMap.of(pairs, absent=absent)
