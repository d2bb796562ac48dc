"""Which topic of a route a record goes to, over columns: each to one; NULL, and what is not declared, as it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import UnsupportedError
from mirrorlake.filters.branch import Branch, parse_route
from mirrorlake.filters.branching import UnroutedError, taken_rows
from unit.kafka.records.record_samples import Sample, columns_of

TO = parse_route("CAST(value AS STRING)")
TOPICS = ("a", "b", "a.2")
NAMES = st.none() | st.sampled_from([b"a", b"b", b"a.2", b"c", b"", b"A", b"\xff", b"a "])


def branch(topic: str, *, fallback: str = "", parks: bool = True, to: str = "CAST(value AS STRING)") -> Branch:
    return Branch(to=parse_route(to), topics=TOPICS, topic=topic, fallback=fallback, parks=parks)


def rows(
    of: Branch, values: list[bytes | None], asked: list[bool] | None = None, *, is_strict: bool = True
) -> list[int]:
    records = columns_of([Sample(7 + n, value=value) for n, value in enumerate(values)])
    are_asked = np.array(asked if asked is not None else [True] * len(values), np.bool_)
    found = taken_rows(of, records, partition=0, asked=are_asked, is_strict=is_strict)
    return np.flatnonzero(found).tolist()


@given(values=st.lists(NAMES, min_size=1, max_size=20), fallback=st.sampled_from(["", *TOPICS]))
def test_every_record_is_in_one_topic_or_in_none_where_the_route_leaves_it_out(
    values: list[bytes | None], fallback: str
) -> None:
    taken = [rows(branch(topic, fallback=fallback, parks=False), values) for topic in TOPICS]
    for number, value in enumerate(values):
        named = value.decode() if value in (b"a", b"b", b"a.2") else fallback
        assert [number in found for found in taken] == [topic == named for topic in TOPICS]


@given(values=st.lists(NAMES, min_size=1, max_size=20), asked=st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_route_that_parks_does_so_at_the_first_record_that_is_asked_and_at_every_topic_alike(
    values: list[bytes | None], asked: list[bool]
) -> None:
    asked = asked[: len(values)]
    unnamed = [n for n, value in enumerate(values) if asked[n] and value not in (b"a", b"b", b"a.2")]
    for topic in TOPICS:
        expected = [n for n, value in enumerate(values) if asked[n] and value == topic.encode()]
        assert rows(branch(topic), values, asked, is_strict=False) == expected
        if not unnamed:
            assert rows(branch(topic), values, asked) == expected
            continue
        with pytest.raises(UnroutedError) as caught:
            rows(branch(topic), values, asked)
        assert caught.value.row == unnamed[0]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it is NULL"),
        (b"c", "it is `c`, which is not among `topics`"),
        (b"", "it is a text of 0 bytes that is no topic's name"),
        (b"Jane Doe", "it is a text of 8 bytes that is no topic's name"),
        (b"\xff", "it is a text of 1 bytes that is no topic's name"),
    ],
)
def test_why_a_record_has_no_topic_does_not_tell_what_it_holds(value: bytes | None, why: str) -> None:
    with pytest.raises(UnroutedError) as caught:
        rows(branch("a"), [b"a", value])
    assert (caught.value.row, caught.value.why) == (1, why)


NUMBER = "CASE WHEN CAST(CAST(value AS STRING) AS BIGINT) > 5 THEN 'a' ELSE 'b' END"


@pytest.mark.parametrize("parks", [True, False])
@pytest.mark.parametrize("fallback", ["", "b"])
def test_an_expression_that_fails_parks_whatever_the_route_says_of_records_without_a_topic(
    parks: bool, fallback: str
) -> None:
    of = branch("b", to=NUMBER, parks=parks and not fallback, fallback=fallback)
    with pytest.raises(UnroutedError) as caught:
        rows(of, [b"7", b"x", b"1", b"y"])
    assert caught.value.row == 1
    assert "cast to BIGINT" in caught.value.why
    # Whoever compares asks which records are there: none of those that a copy stops at.
    assert rows(of, [b"7", b"x", b"1", b"y"], is_strict=False) == [2]
    assert rows(of, [b"7", b"x", b"1", b"y"], [True, False, True, False]) == [2]


def test_raise_error_is_a_reason_of_the_files_own() -> None:
    of = branch("a", to="coalesce(CAST(value AS STRING), raise_error('no type'))")
    with pytest.raises(UnroutedError) as caught:
        rows(of, [b"a", None])
    assert (caught.value.row, caught.value.why) == (1, "no type")


@pytest.mark.parametrize(
    ("to", "stay"),
    [
        ("CAST(substring(key, 1, 1) AS STRING)", True),
        ("'a'", True),
        ("CAST(value AS STRING)", False),
        ("coalesce(CAST(key AS STRING), CAST(headers['t'] AS STRING))", False),
    ],
)
def test_whether_records_of_one_key_all_go_to_one_topic_is_seen_in_the_expression(to: str, stay: bool) -> None:
    assert branch("a", to=to).keys_stay is stay


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("key", "it is of type BINARY, and a topic's name is a STRING"),
        ("offset", "it is of type BIGINT"),
        ("key = 'a'", "it is of type BOOLEAN"),
        ("raise_error('no')", "it is nothing but an error"),
        ("lower(CAST(key AS STRING))", "there is no function `lower`"),
    ],
)
def test_an_expression_that_gives_no_topics_name_is_refused(to: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_route(to)
    assert message in caught.value.message
