"""Whether another route may take over where a topic stands: told by what each topic's progress says of its route."""

from dataclasses import replace

import pytest

from mirrorlake.destinations.filtering import PartitionBranch
from mirrorlake.destinations.map.marks.route_mark import UNMARKED, RouteMark, decode_route_mark, encode_route_mark
from mirrorlake.destinations.map.moves import begun_at, moved
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_origin import check_progress
from mirrorlake.destinations.map.route_change import check_route
from mirrorlake.destinations.map.settings import MapStart
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.errors import DestinationForeignError, RouteChangedError
from mirrorlake.filters.branch import Branch, decides_alike, parse_route
from mirrorlake.offsets import TopicPartition

SOURCE = TopicPartition("orders", 0)
MARK = RouteMark(fingerprint="ab:rest", start_offset=300, former="cd:")
BYTES = bytes.fromhex("01000000000000012c") + b"ab:rest cd:"


def branch(text: str = "CAST(key AS STRING)", fallback: str = "", topics: tuple[str, ...] = ("a", "b")) -> Branch:
    return Branch(to=parse_route(text), topics=topics, topic="a", fallback=fallback)


NOW, BEFORE, EARLIER = (branch(f"'{each}'").fingerprint for each in ("now", "before", "earlier"))


def progress(
    position: int, fingerprint: str = "", start: int = 0, former: str = "", topic_id: str = "t"
) -> MapProgress:
    begun = begun_at(
        0, source_cluster_id="c", source_topic_id=topic_id, destination_topic_id="d", destination_partition=0
    )
    mark = RouteMark(fingerprint=fingerprint, start_offset=start, former=former)
    return replace(moved(begun, position), route=mark)


def check(mine: MapProgress, other: MapProgress | None) -> None:
    takes = PartitionBranch(branch=branch("'now'"), source=SOURCE)
    key = ProgressKey(destination_topic="a", source=SOURCE)
    known = {key: mine, ProgressKey(destination_topic="gone", source=SOURCE): progress(7, BEFORE)}
    if other is not None:
        known[ProgressKey(destination_topic="b", source=SOURCE)] = other
    check_route(takes, key, mine, known, mirror="m")


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        pytest.param(progress(10, NOW), progress(20, BEFORE), id="it goes on as it was"),
        pytest.param(progress(10), progress(20, BEFORE), id="by which route it was copied is not known"),
        pytest.param(progress(10, BEFORE), progress(20), id="by which route the other was is not known"),
        pytest.param(progress(10, BEFORE), None, id="the other has not begun"),
        pytest.param(progress(10, BEFORE), progress(10, BEFORE), id="both stand there"),
        pytest.param(progress(10, BEFORE), progress(30, NOW, 10, BEFORE), id="the other took it over there"),
        pytest.param(progress(10, BEFORE), progress(30, NOW), id="the other began by the route of now"),
        pytest.param(progress(10, BEFORE), progress(20, BEFORE, topic_id="u"), id="the other is of a topic before"),
        pytest.param(progress(10, BEFORE, 10, NOW), progress(5, NOW), id="back again, with nothing copied between"),
    ],
)
def test_a_route_takes_over_where_no_record_is_decided_twice(mine: MapProgress, other: MapProgress | None) -> None:
    check(mine, other)


@pytest.mark.parametrize(
    ("mine", "other", "range_"),
    [
        pytest.param(progress(10, BEFORE), progress(20, BEFORE), "10…19", id="the other is ahead"),
        pytest.param(progress(20, BEFORE), progress(10, BEFORE), "10…19", id="the other is behind"),
        pytest.param(progress(10, BEFORE), progress(30, NOW, 12, BEFORE), "10…11", id="it took over elsewhere"),
        pytest.param(progress(10, BEFORE), progress(30, EARLIER), "10…29", id="the other is by a third route"),
        pytest.param(progress(30, BEFORE, 10, NOW), progress(5, NOW), "10…29", id="back to what the other never left"),
    ],
)
def test_a_route_does_not_take_over_where_records_between_would_be_decided_twice(
    mine: MapProgress, other: MapProgress, range_: str
) -> None:
    with pytest.raises(RouteChangedError) as refused:
        check(mine, other)
    assert f"offsets {range_} " in refused.value.message
    assert "offsets reset --mirror m" in refused.value.hint


def test_a_position_that_is_moved_by_hand_says_nothing_of_its_route_any_more() -> None:
    assert moved(progress(10, BEFORE), 20).route == UNMARKED
    assert UNMARKED.followed_by(NOW, 20) == RouteMark(fingerprint=NOW, start_offset=20)


def test_routes_of_one_expression_decide_alike_but_for_two_fallbacks() -> None:
    plain, rest, other = (branch(fallback=each).fingerprint for each in ("", "a", "b"))
    assert decides_alike(plain, rest)
    assert decides_alike(rest, plain)
    assert decides_alike(plain, branch(topics=("a", "b", "c")).fingerprint)
    assert not decides_alike(rest, other)
    assert not decides_alike(plain, branch("'a'").fingerprint)
    assert not decides_alike("", "")


def test_a_mark_has_these_bytes_and_is_read_from_them_among_other_headers() -> None:
    assert encode_route_mark(MARK) == BYTES
    assert encode_route_mark(UNMARKED) is None
    columns = columns_of([(b"k", b"v"), (b"l", b"w")], 5, headers=[[(b"select", b"x"), (b"route", BYTES)], []])
    assert [decode_route_mark(each) for each in columns.headers.to_pylist()] == [MARK, UNMARKED]


@pytest.mark.parametrize("value", [None, b"", b"\x02" + BYTES[1:], BYTES[:9] + b"\xff", b"\x01" + b"\xff" * 8])
def test_a_mark_that_is_not_understood_says_as_little_as_none(value: bytes | None) -> None:
    assert decode_route_mark([{"key": b"route", "value": value}]) == UNMARKED


def test_a_mark_stays_while_the_route_does_and_names_the_one_before() -> None:
    assert MARK.followed_by("ab:rest", 400) == MARK
    assert MARK.followed_by("ef:", 400) == RouteMark(fingerprint="ef:", start_offset=400, former="ab:rest")


def test_a_topic_of_a_route_that_was_deleted_is_not_copied_again_by_a_mirror_of_another_name() -> None:
    ids = {"source_cluster_id": "c", "source_topic_id": "t", "destination_topic_id": "e"}
    hints = []
    for is_routed in (False, True):
        with pytest.raises(DestinationForeignError) as refused:
            check_progress(
                progress(10), source=SOURCE, destination_topic="a", start=MapStart(), is_routed=is_routed, **ids
            )
        hints.append(refused.value.hint)
    assert hints[0].startswith("copy source topic")
    assert hints[1].startswith("put a topic of another name in its place in the route")
