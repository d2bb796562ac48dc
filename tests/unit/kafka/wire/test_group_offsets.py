"""OffsetFetch 8 and OffsetCommit 7: requests as kafka-python reads them, answers as it writes them, and other bytes."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.wire.group_offsets import (
    OFFSET_COMMIT_VERSION,
    OFFSET_FETCH_VERSION,
    FetchedGroup,
    OffsetToCommit,
    decode_offset_commit,
    decode_offset_fetch,
    encode_offset_commit,
    encode_offset_fetch,
    fits_offset_commit,
    is_all_committed,
)
from mirrorlake.kafka.wire.protocol_classes import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

GROUP: Any = OffsetFetchResponse.OffsetFetchResponseGroup
TOPIC: Any = GROUP.OffsetFetchResponseTopics
PARTITION: Any = TOPIC.OffsetFetchResponsePartitions
COMMITTED: Any = OffsetCommitResponse.OffsetCommitResponseTopic

names = st.text(min_size=1, max_size=200)
numbers = st.integers(0, 2**31 - 1)
offsets = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 2**31 - 1)
codes = st.integers(-1, 120)
metadata = st.none() | st.text(max_size=300)
Row = tuple[int, int, int, str | None, int]
rows = st.tuples(numbers, offsets, epochs, metadata, codes)
answers = st.lists(
    st.tuples(names, codes, st.lists(st.tuples(names, st.lists(rows, max_size=4)), max_size=3)), max_size=4
)


def fetched(groups: list[tuple[str, int, list[tuple[str, list[Row]]]]]) -> bytes:
    """Groups with their code, and topics with partitions: number, offset, leader epoch, metadata, error code."""
    version = OFFSET_FETCH_VERSION

    def partition(row: Row) -> Any:
        number, offset, epoch, text, code = row
        return PARTITION(
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            metadata=text,
            error_code=code,
            version=version,
        )

    message = OffsetFetchResponse(
        throttle_time_ms=7,
        groups=[
            GROUP(
                group_id=group,
                topics=[TOPIC(name=name, partitions=[*map(partition, held)], version=version) for name, held in topics],
                error_code=code,
                version=version,
            )
            for group, code, topics in groups
        ],
        version=version,
    )
    return bytes(message.encode(version=version))


def committed(topics: list[tuple[str, list[tuple[int, int]]]]) -> bytes:
    """Topics with partitions: number, error code."""
    version = OFFSET_COMMIT_VERSION
    partition = COMMITTED.OffsetCommitResponsePartition
    message = OffsetCommitResponse(
        throttle_time_ms=7,
        topics=[
            COMMITTED(
                name=name,
                partitions=[partition(partition_index=at, error_code=code, version=version) for at, code in held],
                version=version,
            )
            for name, held in topics
        ],
        version=version,
    )
    return bytes(message.encode(version=version))


FETCHED = fetched(
    [
        ("billing", 0, [("orders", [(0, 17, 3, "", 0), (1, -1, -1, None, 0), (2, 1 << 40, 0, "seit ü" * 40, 29)])]),
        ("audit-ü", 16, []),
        ("empty", 0, [("orders", []), ("payments", [(5, 0, -1, "x", 88)])]),
    ]
)
COMMITTED_ANSWER = committed([("orders", [(0, 0), (7, 25)]), ("zahlungen-ü", [(1, 16)]), ("empty", [])])


@given(
    st.dictionaries(
        names, st.none() | st.dictionaries(names, st.lists(numbers, max_size=5), max_size=4), min_size=1, max_size=5
    ),
    st.booleans(),
)
def test_a_question_names_groups_topics_and_partitions(
    groups: dict[str, dict[str, list[int]] | None], is_stable: bool
) -> None:
    body = encode_offset_fetch(groups, is_stable=is_stable)
    read = OffsetFetchRequest.decode(body, version=OFFSET_FETCH_VERSION)
    found = {
        each.group_id: None
        if each.topics is None
        else {topic.name: list(topic.partition_indexes) for topic in each.topics}
        for each in read.groups
    }
    assert found == groups
    assert read.require_stable is is_stable
    assert body == _fetch_by_kafka_python(groups, is_stable)


def _fetch_by_kafka_python(groups: dict[str, dict[str, list[int]] | None], is_stable: bool) -> bytes:
    """The same question to the byte: what a reader passes over would show here."""
    kind: Any = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [
        kind(
            group_id=group,
            topics=topics
            if topics is None
            else [
                kind.OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in topics.items()
            ],
        )
        for group, topics in groups.items()
    ]
    message = OffsetFetchRequest(groups=asked, require_stable=is_stable, version=OFFSET_FETCH_VERSION)
    return bytes(message.encode(version=OFFSET_FETCH_VERSION))


@given(answers)
def test_answers_about_offsets_are_read_whole(groups: list[tuple[str, int, list[tuple[str, list[Row]]]]]) -> None:
    assert decode_offset_fetch(memoryview(fetched(groups))) == [
        FetchedGroup(
            group,
            code,
            [
                (topic, [(number, error, offset, epoch, text or "") for number, offset, epoch, text, error in held])
                for topic, held in topics
            ],
        )
        for group, code, topics in groups
    ]


def test_a_topic_of_many_groups_is_one_text() -> None:
    found = decode_offset_fetch(
        memoryview(fetched([(f"g{n}", 0, [("orders", [(n, 1, -1, "", 0)])]) for n in range(3)]))
    )
    assert len({id(each.topics[0][0]) for each in found}) == 1


def test_a_topic_that_came_before_is_read_as_the_first_time() -> None:
    many: list[Row] = [(number, 7 + number, number, "", 0) for number in range(130)]
    held: list[list[Row]] = [[], many[:1], many[:126], many[:127], many]
    held += [[(3, -1, -1, None, 0)], [(0, 4, 2, "", 29)], [(0, 1, 2, "x", 0)]]
    held.append([many[0], (1, 1, 1, "long" * 40, 0), many[2]])
    name = "orders" * 30
    groups = [
        (f"{topic}-{number}", 0, [(topic, rows)]) for topic in ("t", name) for number, rows in enumerate([*held, *held])
    ]
    found = decode_offset_fetch(memoryview(fetched(groups)))
    assert [each.topics for each in found] == [
        [(topic, [(number, code, offset, epoch, text or "") for number, offset, epoch, text, code in rows])]
        for _, _, [(topic, rows)] in groups
    ]


def test_tagged_fields_that_a_later_broker_may_send_are_passed_over() -> None:
    plain = fetched([("g", 0, [("t", [(1, 2, 3, "", 0)])])])
    tag = b"\1\5\2xy"  # one field: its number, its size, its bytes
    # The body ends in: tags of the partition, of the topic, the group's error code, its tags, the answer's tags.
    assert plain.endswith(b"\0\0" + b"\0\0" + b"\0\0")
    tagged = plain[:-6] + tag + tag + b"\0\0" + tag + tag
    assert decode_offset_fetch(memoryview(tagged)) == decode_offset_fetch(memoryview(plain))


def test_tagged_fields_of_a_topic_that_came_before_are_passed_over() -> None:
    group = b"\2g\2\2t\2" + struct.pack(">iqiBhB", 1, 2, 3, 1, 0, 0) + b"\0" + b"\0\0" + b"\0"
    tagged = b"\2g\2\2t\2" + struct.pack(">iqiBhB", 1, 2, 3, 1, 0, 1) + b"\5\2xy" + b"\1\5\2xy" + b"\0\0" + b"\0"
    once, twice = (b"\0\0\0\7" + b"\3" + first + second + b"\0" for first, second in ((group, group), (group, tagged)))
    assert decode_offset_fetch(memoryview(twice)) == decode_offset_fetch(memoryview(once))


@given(
    names,
    st.dictionaries(
        names,
        st.lists(st.tuples(numbers, offsets, epochs, st.text(max_size=300)), max_size=4),
        max_size=4,
    ),
)
def test_a_commit_names_each_offset_and_nobody_as_its_member(
    group: str, topics: dict[str, list[OffsetToCommit]]
) -> None:
    body = encode_offset_commit(group, topics)
    read = OffsetCommitRequest.decode(body, version=OFFSET_COMMIT_VERSION)
    assert (read.group_id, read.generation_id_or_member_epoch, read.member_id) == (group, -1, "")
    assert read.group_instance_id is None
    found = {
        topic.name: [
            (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
            for each in topic.partitions
        ]
        for topic in read.topics
    }
    assert found == topics
    assert body == _commit_by_kafka_python(group, topics)


def _commit_by_kafka_python(group: str, topics: dict[str, list[OffsetToCommit]]) -> bytes:
    kind: Any = OffsetCommitRequest.OffsetCommitRequestTopic
    asked = [
        kind(
            name=name,
            partitions=[
                kind.OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=text,
                )
                for number, offset, epoch, text in held
            ],
        )
        for name, held in topics.items()
    ]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=asked,
        version=OFFSET_COMMIT_VERSION,
    )
    return bytes(message.encode(version=OFFSET_COMMIT_VERSION))


@given(st.lists(st.tuples(names, st.lists(st.tuples(numbers, codes), max_size=4)), max_size=4))
def test_answers_to_a_commit_are_read_whole(topics: list[tuple[str, list[tuple[int, int]]]]) -> None:
    assert decode_offset_commit(memoryview(committed(topics))) == [
        (topic, number, code) for topic, held in topics for number, code in held
    ]


@given(st.dictionaries(names, st.lists(st.tuples(numbers, codes), max_size=4), max_size=4))
def test_all_is_committed_where_the_answer_says_so_of_what_was_asked(topics: dict[str, list[tuple[int, int]]]) -> None:
    asked = {topic: [(number, 5, -1, "text") for number, _ in held] for topic, held in topics.items()}
    is_good = all(not code for held in topics.values() for _, code in held)
    assert is_all_committed(memoryview(committed([*topics.items()])), asked) is is_good
    good = committed([(topic, [(number, 0) for number, _ in held]) for topic, held in topics.items()])
    assert is_all_committed(memoryview(good), asked)
    assert not is_all_committed(memoryview(good + b"x"), asked)
    assert not is_all_committed(memoryview(good), asked | {"more": [(0, 5, -1, "")]}) or "more" in asked
    assert not is_all_committed(memoryview(good)[:-1], asked)


@pytest.mark.parametrize(
    ("group", "metadata", "fits"),
    [("g", "x" * 0x7FFF, True), ("g", "x" * 0x8000, False), ("g", "ü" * 0x4000, False), ("g" * 0x8000, "", False)],
)
def test_a_commit_with_a_text_too_long_for_the_version_does_not_fit(group: str, metadata: str, fits: bool) -> None:
    topics = {"orders": [(0, 1, -1, metadata)]}
    assert fits_offset_commit(group, topics) is fits
    if fits:
        encode_offset_commit(group, topics)


@pytest.mark.parametrize("length", range(len(FETCHED)))
def test_a_cut_answer_about_offsets_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="OffsetFetch could not be understood"):
        decode_offset_fetch(memoryview(FETCHED)[:length])


@pytest.mark.parametrize("length", range(len(COMMITTED_ANSWER)))
def test_a_cut_answer_to_a_commit_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="OffsetCommit could not be understood"):
        decode_offset_commit(memoryview(COMMITTED_ANSWER)[:length])


def test_bytes_behind_an_answer_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow its end"):
        decode_offset_fetch(memoryview(FETCHED + b"x"))
    with pytest.raises(CorruptBatchError, match="1 bytes follow its end"):
        decode_offset_commit(memoryview(COMMITTED_ANSWER + b"x"))


@given(st.integers(0, len(FETCHED) - 1), st.integers(0, 255), st.integers(0, 1 << 16))
def test_a_damaged_answer_is_read_or_corrupt_and_nothing_else(at: int, byte: int, seed: int) -> None:
    for sample, decode in ((FETCHED, decode_offset_fetch), (COMMITTED_ANSWER, decode_offset_commit)):
        damaged = bytearray(sample)
        damaged[at % len(sample)] = byte
        damaged[random.Random(seed).randrange(len(sample))] ^= 0xFF
        try:
            decode(memoryview(damaged))
        except CorruptBatchError:
            continue
