"""Topics that Kafka 2.8 keeps in message formats v0 and v1, with schema ids in keys and values, in both modes."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mirrorlake.destinations.letters.settings import letter_progress_topic
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.offsets import GapFill, TopicPartition
from support.copies import assert_same_records, create_topic, log_end
from support.gaps import open_transactions
from support.kept_letters import ABSENT_ID, HERE, SHORT, THERE, create_letter_topics, lettering, letters_topic
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.map_copies import assert_nothing_open, held_through_map
from support.old_formats import CODECS, FORMATS, magics
from support.records import SNAPPY, Record, build_batch, consume, produce, settings_of
from support.schema_site import framed, letter_headers, letters_in
from support.topics import delete_before

pytestmark = pytest.mark.kafka

SET_RECORDS = 12
"""Records of one produced batch: a message each where it is not compressed, else one message set."""

PAIRS: dict[SchemaName, SchemaName] = {HERE: THERE, HERE + 1: THERE + 1}
PASSES = SchemaIdMap.of(PAIRS, absent=[ABSENT_ID], keys=True, passes_values=True)
LETTERS = SchemaIdMap.of(PAIRS, absent=[ABSENT_ID], keys=True, letters_of_values=True)

BAD = {"short": SHORT, "not-framed": b"{}", "absent": framed(ABSENT_ID, b"body")}
BAD_AT = {0: "short", 3: "absent", 4: "not-framed", SET_RECORDS - 1: "absent"}
"""By place in a set, of which the second, compressed, has none and the last has no other."""


def reason_at(offset: int) -> str:
    number, place = divmod(offset, SET_RECORDS)
    if number == len(CODECS):
        return "short"
    return "" if number == 1 else BAD_AT.get(place, "")


def written() -> list[Record]:
    """Sets of every codec, and one of which nothing can be read; with null keys and values."""
    records = []
    for offset in range((len(CODECS) + 1) * SET_RECORDS):
        key = None if offset % 5 == 1 else framed(HERE + 1, b"key %d" % offset)
        value: bytes | None = framed(HERE + offset % 2, b"value %d" % offset)
        if reason := reason_at(offset):
            value = BAD[reason]
        elif offset % 5 == 2:
            value = None
        records.append(Record(1_700_000_000_000 + offset, key, value))
    return records


def there(payload: bytes | None) -> bytes | None:
    """With the destination's id, where it has one of the source's."""
    for before in (HERE, HERE + 1):
        if payload is not None and payload.startswith(framed(before, b"")):
            return framed(before - HERE + THERE, payload[5:])
    return payload


LABELS = ("passed", "lettered", "mapped-passed", "mapped-lettered")
"""Of the copies, whose topics are named after them."""


def name_of(topic: str, label: str) -> str:
    return topic if label == "lettered" else f"{topic}.{label}"


def works_of(servers: str, where: TopicPartition) -> list[DestinationWork]:
    """A copy in each mode that passes what cannot be read, and one that has letters of it."""
    passed, _, mapped, mapped_letters = (name_of(where.topic, label) for label in LABELS)
    with_letters = map_work(servers, where, topic=mapped_letters, mirror=mapped_letters)
    template = letters_topic(mapped_letters)
    works: list[PreserveWork | MapWork] = [
        kafka_work(servers, where, topic=passed, mirror=passed, gap_fill=GapFill.MARKERS),
        lettering(servers, where),
        map_work(servers, where, topic=mapped, mirror=mapped),
        replace(with_letters, settings=replace(with_letters.settings, letters_template=template)),
    ]
    return [
        with_ids(work, label, LETTERS if "lettered" in label else PASSES)
        for label, work in zip(LABELS, works, strict=True)
    ]


def with_ids(work: PreserveWork | MapWork, label: str, ids: SchemaIdMap) -> DestinationWork:
    unpaired = replace(SchemaIdMap.of({}), sides=ids.sides, passes=ids.passes, letters=ids.letters)
    orders = replace(work.orders, schema_ids=ids)
    if isinstance(work, PreserveWork):
        return replace(work, destination=label, settings=replace(work.settings, schema_ids=unpaired), orders=orders)
    return replace(work, destination=label, settings=replace(work.settings, schema_ids=unpaired), orders=orders)


@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("magic", FORMATS)
def test_schema_ids_in_old_formats_become_those_of_the_destination_and_letters_are_taken_out_of_sets(
    kafka_2_8: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, magic: int, time: str
) -> None:
    east, west = kafka_2_8.bootstrap_servers, destination_kafka.bootstrap_servers
    records = write_sets(east, topic_name, magic, time)
    # The first lease ends behind the readable records of a set: for the copies with letters, before its last one.
    copy_in_leases(east, west, topic_name, stops=(2 * SET_RECORDS + 4, len(records)))
    assert_copied(east, west, topic_name, magic, dict(enumerate(records)))


LOG_STARTS = {
    "before what can be read, in a set with letters behind it": 2 * SET_RECORDS + 1,
    "at a letter, behind others": 3 * SET_RECORDS + 4,
    "before the last record of a set, a letter": 4 * SET_RECORDS - 1,
    "in a set without letters": SET_RECORDS + 5,
    "in a set of letters": 4 * SET_RECORDS + 7,
    "between messages that are not compressed": 4,
}
"""Of each set some records are below it, and those among them that name no schema are nobody's letters."""


@pytest.mark.parametrize("where", LOG_STARTS)
@pytest.mark.parametrize("magic", FORMATS)
def test_what_is_below_a_log_start_inside_a_message_set_is_neither_copied_nor_a_letter(
    kafka_2_8: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, magic: int, where: str
) -> None:
    east, west = kafka_2_8.bootstrap_servers, destination_kafka.bootstrap_servers
    records, start = write_sets(east, topic_name, magic, "CreateTime"), LOG_STARTS[where]
    delete_before(east, topic_name, start)
    # The broker gives out the whole of a set that is compressed.
    assert first_read(east, topic_name, start) == (start if start < SET_RECORDS else start - start % SET_RECORDS)
    # The second lease begins in the set that the log begins in, where that has more than one record left.
    stops = sorted({min(start + 2, len(records)), len(records)})
    copy_in_leases(east, west, topic_name, stops=stops)
    assert_copied(east, west, topic_name, magic, dict(list(enumerate(records))[start:]))


def write_sets(east: str, topic: str, magic: int, time: str) -> list[Record]:
    """Makes a topic of an old format; returns its records, in sets of every codec."""
    create_topic(east, topic, message_format_version=FORMATS[magic], message_timestamp_type=time)
    records = written()
    sets = [records[at : at + SET_RECORDS] for at in range(0, len(records), SET_RECORDS)]
    asyncio.run(produce(east, topic, 0, list(map(build_batch, sets, [*CODECS, SNAPPY]))))
    assert magics(east, topic) == {magic}
    return records


def first_read(servers: str, topic: str, offset: int) -> int:
    """The first offset that a fetch answer holds, of a partition whose log begins at ``offset``."""

    async def read() -> int:
        async with ClusterClient(settings_of(servers)) as client:
            frame, answer = await client.fetch_once(TopicPartition(topic, 0), offset, max_bytes=1 << 20)
            with frame:
                assert answer.log_start_offset == offset
                return int(decode_batches([next(iter(walk(answer.records)))]).offsets[0])

    return asyncio.run(read())


def copy_in_leases(east: str, west: str, topic: str, *, stops: Sequence[int]) -> None:
    """Copies in each way up to each stop, and once more where the last one is, which is the end."""
    for label in LABELS:
        create_topic(west, name_of(topic, label))
    create_letter_topics(west, topic, letter_partitions=1)
    create_topic(west, letters_topic(name_of(topic, "mapped-lettered")))
    where = TopicPartition(topic, 0)
    for stop in (*stops, stops[-1]):
        rows = run_lease(lease_plan(east, [(where, works_of(west, where))], end=stop))
        assert {label: row.error for label, row in rows.items()} == dict.fromkeys(rows)
        assert all((row.position or 0) >= stop for row in rows.values())
    assert {row.position for row in rows.values()} == {stops[-1]}


def assert_copied(east: str, west: str, topic: str, magic: int, source: dict[int, Record]) -> None:
    """What the source has, by offset, is in each copy, or is a letter where it has such; nothing else is there."""
    where, end = TopicPartition(topic, 0), max(source) + 1
    if magic == 0:  # which has no times; and its LZ4 is more than the consumer reads
        source = {offset: replace(record, timestamp=-1) for offset, record in source.items()}
    else:
        read = consume(east, topic, 0)
        assert read.keys() == source.keys()
        source = {offset: replace(record, timestamp=read[offset].timestamp) for offset, record in source.items()}
    whole = {n: replace(each, key=there(each.key), value=there(each.value)) for n, each in source.items()}
    readable = {offset: record for offset, record in whole.items() if not reason_at(offset)}
    passed, lettered, mapped, mapped_lettered = (name_of(topic, label) for label in LABELS)
    assert_same_records(whole, consume(west, passed, 0))
    assert_same_records(readable, consume(west, lettered, 0))
    assert_same_records(whole, held_through_map(west, where, topic=mapped, mirror=mapped))
    assert_same_records(readable, held_through_map(west, where, topic=mapped_lettered, mirror=mapped_lettered))
    assert [len(consume(west, name, 0)) for name in (mapped, mapped_lettered)] == [len(whole), len(readable)]
    assert [log_end(west, name) for name in (passed, lettered)] == [end, end]
    for name in (lettered, mapped_lettered):
        letters = letters_in(west, letters_topic(name), 0)
        told = [letter_headers(each) for each in letters]
        assert [(int(each["offset"]), each["side"], each["reason"]) for each in told] == [
            (offset, "value", reason_at(offset)) for offset in source if reason_at(offset)
        ]
        bare = [replace(each, headers=each.headers[:-9]) for each in letters]
        assert bare == [record for offset, record in source.items() if reason_at(offset)]
    for name in (mapped, mapped_lettered):
        assert_nothing_open(west, name, TopicPartition(name, 0))
    letter_names = [lettered, letters_topic(lettered), letter_progress_topic(lettered)]
    assert open_transactions(west, letter_names) == []
