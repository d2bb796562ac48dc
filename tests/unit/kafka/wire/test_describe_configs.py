"""DescribeConfigs 2: requests as kafka-python reads them, answers as it writes them, and what is remembered of them."""

import contextlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.wire.describe_configs import (
    DESCRIBE_CONFIGS_VERSION,
    ConfigsReader,
    DescribedConfig,
    RefusedTopic,
    encode_describe_configs,
)
from mirrorlake.kafka.wire.protocol_classes import DescribeConfigsRequest, DescribeConfigsResponse

VERSION = DESCRIBE_CONFIGS_VERSION
RESULT: Any = DescribeConfigsResponse.DescribeConfigsResult
CONFIG: Any = RESULT.DescribeConfigsResourceResult

Configs = list[DescribedConfig]
Answer = list[tuple[str, int, str | None, Configs]]

names = st.text(min_size=1, max_size=100)
configs = st.lists(
    st.builds(
        DescribedConfig,
        names,
        st.none() | st.text(max_size=200),
        st.booleans(),
        st.integers(-1, 6),
        st.booleans(),
    ),
    max_size=5,
)
# Few distinct ones, so that topics have the same, and the ones they had before.
few = st.sampled_from(
    [
        [DescribedConfig("retention.ms", "1", False, 1, False)],
        [DescribedConfig("retention.ms", "10", False, 1, False)],
        [DescribedConfig("retention.ms", None, False, 1, True), DescribedConfig("x", "", True, 5, False)],
        [],
    ]
)
answers = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from([0, 0, 0, 29]), st.none() | names, few | configs),
    max_size=6,
    unique_by=lambda each: each[0],
)


def answered(results: Answer, *, synonyms: int = 0) -> bytes:
    """Topics with an error code, its text, and configurations, each with so many synonyms."""
    synonym: Any = CONFIG.DescribeConfigsSynonym
    message = DescribeConfigsResponse(
        throttle_time_ms=3,
        results=[
            RESULT(
                error_code=code,
                error_message=text,
                resource_type=2,
                resource_name=topic,
                configs=[
                    CONFIG(
                        name=each.name,
                        value=each.value,
                        read_only=each.is_read_only,
                        config_source=each.source,
                        is_sensitive=each.is_sensitive,
                        synonyms=[synonym(name="log." + each.name, value=None, source=5)] * synonyms,
                        version=VERSION,
                    )
                    for each in held
                ],
                version=VERSION,
            )
            for topic, code, text, held in results
        ],
        version=VERSION,
    )
    return bytes(message.encode(version=VERSION))


def meant(results: Answer) -> dict[str, Configs | RefusedTopic]:
    return {topic: RefusedTopic(code, text) if code else held for topic, code, text, held in results}


def reader(topics_max: int = 1000) -> ConfigsReader[Configs]:
    return ConfigsReader(lambda held: list(held), topics_max=topics_max)


RETENTION = DescribedConfig("retention.ms", "604800000", False, 5, False)
SECRET = DescribedConfig("secret", None, True, 4, True)
SAMPLE = answered([("orders", 0, None, [RETENTION, SECRET]), ("gone", 3, "no such ü", []), ("empty", 0, "", [])])


@given(st.lists(names, max_size=6))
def test_a_request_names_topics_and_asks_for_all_there_is(topics: list[str]) -> None:
    body = encode_describe_configs(topics)
    read = DescribeConfigsRequest.decode(body, version=VERSION)
    assert [(each.resource_type, each.resource_name) for each in read.resources] == [(2, topic) for topic in topics]
    assert all(each.configuration_keys is None for each in read.resources)
    kind: Any = DescribeConfigsRequest.DescribeConfigsResource
    asked = [kind(resource_type=2, resource_name=topic, configuration_keys=None) for topic in topics]
    same = DescribeConfigsRequest(resources=asked, include_synonyms=False, version=VERSION)
    assert bytes(same.encode(version=VERSION)) == body


@given(st.lists(answers, min_size=1, max_size=4))
def test_answer_after_answer_is_read_whole_whatever_was_remembered(looks: Sequence[Answer]) -> None:
    read = reader()
    for results in looks:
        assert read.decode(memoryview(answered(results))) == meant(results)


@given(st.lists(answers, min_size=1, max_size=4))
def test_little_memory_changes_nothing_but_what_is_read_again(looks: Sequence[Answer]) -> None:
    read = reader(topics_max=1)
    for results in looks:
        assert read.decode(memoryview(answered(results))) == meant(results)


def test_a_topic_is_read_again_where_one_byte_of_it_is_another() -> None:
    read = reader()
    first: Answer = [("a", 0, None, [RETENTION]), ("b", 0, None, [RETENTION, SECRET]), ("c", 0, None, [RETENTION])]
    one = read.decode(memoryview(answered(first)))
    assert read.read_topics == 2  # the third has what the first has
    assert one["a"] is one["c"]

    assert read.decode(memoryview(answered(first)))["b"] is one["b"]
    assert read.read_topics == 2

    changed = RETENTION._replace(value="604800001")
    second: Answer = [("a", 0, None, [RETENTION]), ("b", 0, None, [RETENTION, SECRET]), ("c", 0, None, [changed])]
    assert read.decode(memoryview(answered(second))) == meant(second)
    assert read.read_topics == 3


def test_a_configuration_more_behind_the_same_ones_is_seen() -> None:
    read = reader()
    read.decode(memoryview(answered([("a", 0, None, [RETENTION])])))
    more: Answer = [("a", 0, None, [RETENTION, SECRET])]
    assert read.decode(memoryview(answered(more))) == meant(more)


def test_a_topic_that_is_refused_is_refused_and_comes_back() -> None:
    read = reader()
    fine: Answer = [("a", 0, None, [RETENTION])]
    refused: Answer = [("a", 29, "no right", [])]
    for look in (fine, refused, fine):
        assert read.decode(memoryview(answered(look))) == meant(look)


def test_synonyms_that_nobody_asked_for_are_passed_over() -> None:
    results: Answer = [("a", 0, None, [RETENTION, SECRET]), ("b", 0, None, [RETENTION])]
    assert reader().decode(memoryview(answered(results, synonyms=2))) == meant(results)


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_cut_answer_is_corrupt_also_where_its_topics_are_known(length: int) -> None:
    read = reader()
    read.decode(memoryview(SAMPLE))
    for each in (read, reader()):
        with pytest.raises(CorruptBatchError, match="DescribeConfigs could not be understood"):
            each.decode(memoryview(SAMPLE)[:length])


def test_bytes_behind_an_answer_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow its end"):
        reader().decode(memoryview(SAMPLE + b"x"))


@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255), st.integers(0, 1 << 16))
def test_a_damaged_answer_is_read_or_corrupt_and_spoils_no_later_one(at: int, byte: int, seed: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[at] = byte
    damaged[random.Random(seed).randrange(len(SAMPLE))] ^= 0xFF
    read = reader()
    with contextlib.suppress(CorruptBatchError):
        read.decode(memoryview(damaged))
    assert read.decode(memoryview(SAMPLE)) == reader().decode(memoryview(SAMPLE))
