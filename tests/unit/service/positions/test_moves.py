"""What is asked for of each kind of destination, in each state, and what stands against it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.map.moves import begun_at
from mirrorlake.errors import BrokerUnreachableError, DestinationAheadError, DestinationForeignError, MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.kinds.standing import MappedPosition
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.positions.files import Fault, PositionLine
from mirrorlake.service.positions.listing import lines_of, offset_of
from mirrorlake.service.positions.moves import Move, Wish, judged, wishes_of
from mirrorlake.service.status import StatusRow
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target, TopicCreation
from support.kinds import EVERY_KIND_TEXT

TEXT = (
    EVERY_KIND_TEXT
    + """- name: alone
  source: {{cluster: east, topics: [orders]}}
  destinations: [{{type: kafka, cluster: west, offsets: map, topic: "alone.{{topic}}"}}]
"""
)
NAMES = ("m/west/{topic}", "m/west/mapped.{topic}", "m/lake", "m/views", "alone")
MAPPED, FIXED = (1, 4), (0, 2, 3)
START, END, AT = 10, 50, 30


@pytest.fixture
def rows(tmp_path: Path) -> list[StatusRow]:
    """One of each kind, and a mirror with one destination; all stand at 30 of a source from 10 to 50."""
    config = parse_configuration(TEXT.format(root=tmp_path).encode(), file="mirror.yaml", environ={})
    progress = begun_at(
        AT, source_cluster_id="east", source_topic_id="id", destination_topic_id="there", destination_partition=0
    )
    found = []
    for mirror in config.mirrors:
        # NAMES are of these types alone; whoever adds one adds it to the text.
        for destination in (each for each in mirror.destinations if each.type_in_file in ("kafka", "archive")):
            target = Target(
                mirror=mirror,
                destination=destination,
                source_work=KafkaSourceWork(
                    cluster=ClusterSettings(name="east", bootstrap_servers=("localhost:9092",))
                ),
                source=TopicPartition("orders", 0),
                source_cluster_id="east",
                topic_id="id",
                destination_topic=f"{mirror.name}.orders",
                destination_topic_id="there",
            )
            position = MappedPosition(start_offset=AT, destination_partition=0, progress=progress)
            mapped = position if target.is_mapped else None
            found.append(StatusRow(target=target, source_start=START, source_end=END, position=AT, mapped=mapped))
    return found


def judge(row: StatusRow, offset: int | None, starts: Mapping[int, int | str] | None = None) -> Move | Fault | None:
    return judged(Wish(row=row, offset=offset, line=3), starts or {})


def test_a_mirror_with_several_destinations_is_named_with_each_and_one_with_one_is_not(rows: list[StatusRow]) -> None:
    assert [(line.name, line.topic, line.partition, line.offset) for line in lines_of(rows)] == [
        (name, "orders", 0, AT) for name in NAMES
    ]


@pytest.mark.parametrize("number", range(5), ids=NAMES)
def test_a_position_that_is_as_asked_for_is_left_whatever_its_kind(rows: list[StatusRow], number: int) -> None:
    assert judge(rows[number], AT) is None


@pytest.mark.parametrize("number", FIXED)
@pytest.mark.parametrize("offset", [None, 0, AT - 1, AT + 1])
def test_a_position_that_the_copy_tells_is_not_moved(rows: list[StatusRow], number: int, offset: int | None) -> None:
    fault = judge(rows[number], offset)
    assert isinstance(fault, Fault)
    assert fault.line == 3
    assert f"asked for {'none' if offset is None else offset}, it stands at 30" in fault.text
    assert "it is not moved" in fault.text


@pytest.mark.parametrize("number", MAPPED)
@pytest.mark.parametrize(
    ("offset", "action"),
    [(START, "move back"), (AT - 1, "move back"), (AT + 1, "move forward"), (END, "move forward")],
)
def test_a_mapped_position_is_moved_within_the_bounds_of_the_source(
    rows: list[StatusRow], number: int, offset: int, action: str
) -> None:
    move = judge(rows[number], offset)
    assert isinstance(move, Move)
    assert (move.before, move.after, move.action) == (AT, offset, action)
    assert move.written.after.position == offset


@pytest.mark.parametrize("number", MAPPED)
@pytest.mark.parametrize("offset", [0, START - 1, END + 1, (1 << 63) - 1])
def test_an_offset_outside_of_the_source_is_a_fault(rows: list[StatusRow], number: int, offset: int) -> None:
    fault = judge(rows[number], offset)
    assert isinstance(fault, Fault)
    assert "is outside of the source, which has 10…50" in fault.text


@pytest.mark.parametrize("number", MAPPED)
def test_none_is_where_start_says_and_checked_like_any_offset(rows: list[StatusRow], number: int) -> None:
    row = rows[number]
    moved = judge(row, None, {id(row): 20})
    assert isinstance(moved, Move)
    assert moved.after == 20
    assert judge(row, None, {id(row): AT}) is None
    for start, said in ((5, "outside of the source"), ("it is not known", "it is not known")):
        fault = judge(row, None, {id(row): start})
        assert isinstance(fault, Fault)
        assert said in fault.text


@pytest.mark.parametrize("number", MAPPED)
def test_where_nothing_was_begun_there_is_no_offset_and_any_within_bounds_begins_the_copy(
    rows: list[StatusRow], number: int
) -> None:
    row = replace(rows[number], mapped=MappedPosition(start_offset=AT, destination_partition=0))
    assert offset_of(row) is None
    assert judge(row, None) is None
    for offset in (START, AT, END):
        move = judge(row, offset)
        assert isinstance(move, Move)
        assert (move.before, move.action, move.written.before) == (None, "begin", None)
        assert (move.written.after.position, move.written.after.start_offset) == (offset, offset)


NOT_NOW: list[tuple[dict[str, object], dict[str, object], str]] = [
    ({"error": DestinationForeignError("somebody else's")}, {}, "somebody else's"),
    ({"error": BrokerUnreachableError("nobody answers"), "position": None}, {}, "could not be read: nobody answers"),
    (
        {"error": BrokerUnreachableError("nobody answers"), "source_start": None, "source_end": None},
        {},
        "nobody answers",
    ),
    ({"source_start": None, "source_end": None}, {}, "begins and ends could not be read"),
    ({}, {"destination_topic_id": ""}, "is not there yet"),
    ({}, {"creation": TopicCreation(topic="x", partitions=1, replication_factor=-1)}, "is not there yet"),
    ({}, {"is_due": False}, "has no record for this mirror yet"),
]


@pytest.mark.parametrize("number", MAPPED)
@pytest.mark.parametrize(("of_row", "of_target", "said"), NOT_NOW)
def test_what_stands_against_a_move_is_said(
    rows: list[StatusRow], number: int, of_row: dict[str, object], of_target: dict[str, object], said: str
) -> None:
    row = rows[number]
    fault = judge(replace(row, target=replace(row.target, **of_target), **of_row), 20)  # type: ignore[arg-type]
    assert isinstance(fault, Fault)
    assert said in fault.text


@pytest.mark.parametrize("number", MAPPED)
def test_a_copy_that_is_ahead_of_its_source_can_be_taken_back_into_it(rows: list[StatusRow], number: int) -> None:
    error: MirrorlakeError = DestinationAheadError("the destination is past the source's end")
    move = judge(replace(rows[number], source_end=25, error=error), 25)
    assert isinstance(move, Move)
    assert move.after == 25


def test_a_position_that_could_not_be_read_has_no_line_and_none_of_a_file_moves_it(rows: list[StatusRow]) -> None:
    error = BrokerUnreachableError("nobody answers")
    unread = [replace(row, position=None, mapped=None, error=error) for row in rows]
    unknown = [
        replace(row, target=replace(row.target, source=TopicPartition("orders", UNKNOWN_PARTITION))) for row in rows
    ]
    assert lines_of([*unread, *unknown]) == []
    for row in unread:
        for offset in (None, AT):
            fault = judge(row, offset)
            assert isinstance(fault, Fault)
            assert "nobody answers" in fault.text


def line(name: str, topic: str = "orders", partition: int = 0, *, number: int = 1) -> PositionLine:
    return PositionLine(name=name, topic=topic, partition=partition, offset=5, line=number)


def test_what_a_line_names_is_looked_for_and_named_once(rows: list[StatusRow]) -> None:
    wishes, faults = wishes_of([line(name, number=n) for n, name in enumerate(NAMES, 1)], rows)
    assert [(wish.line, wish.row) for wish in wishes] == list(enumerate(rows, 1))
    assert faults == []
    wishes, faults = wishes_of(
        [
            line("alone"),
            line("alone", number=2),
            line("m", number=3),
            line("m/east", number=4),
            line("alone/west", number=5),
            line("alone", "other", number=6),
            line("alone", partition=1, number=7),
        ],
        rows,
    )
    assert [wish.line for wish in wishes] == [1]
    assert [(fault.line, fault.text) for fault in faults] == [
        (2, "says again what line 1 is about"),
        (3, "mirror m has several destinations: write m/lake or m/views or m/west/mapped.{topic} or m/west/{topic}"),
        (4, "there is no mirror m/east that is enabled"),
        (5, "there is no mirror alone/west that is enabled"),
        (6, "alone does not copy topic other"),
        (7, "topic orders has no partition 1 that alone copies"),
    ]
