"""What a look at the clusters changes in a running service; plain decisions."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.errors import (
    BrokerUnreachableError,
    ChainBrokenError,
    CollisionError,
    DestinationForeignError,
    LoopError,
    MirrorlakeError,
    PartitionCountError,
    RecordTooLargeError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
    WrongTimestampsError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.changes import find_changes
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.states import state_of
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target, TopicCreation

CONFIG = """
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
mirrors:
  - {name: m, source: {cluster: east, topics: [orders, "/late.*/"]}, destinations: [{type: kafka, cluster: west}]}
"""
MIRROR = parse_configuration(CONFIG.encode(), file="mirror.yaml", environ={}).mirrors[0]
REGISTRIES = 'registries: {e: {url: "http://e"}, w: {url: "http://w"}}\n'
LETTERS = (
    'cluster: west}], schemas: {from: e, to: w, on-unreadable: dead-letter, dead-letters: {topic: "{topic}.dead"}}}'
)
CREATION = TopicCreation(topic="orders", partitions=1, replication_factor=-1)


def target(partition: int = 0, *, topic: str = "orders", topic_id: str = "one", **more: object) -> Target:
    found = Target(
        mirror=MIRROR,
        destination=MIRROR.destinations[0],
        source_work=source_of(MIRROR),
        source=TopicPartition(topic, partition),
        topic_id=topic_id,
        destination_topic=topic,
        batch_bytes_max=1000,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def served(found: Target, *, parked: MirrorlakeError | None = None) -> PartitionState:
    """The state of a target; ``parked`` is what its last lease ended with."""
    state = state_of(found, writer="test")
    if parked is not None:
        state.failed(parked, 0.0)
    return state


def test_a_look_that_finds_nothing_new_changes_nothing() -> None:
    changes = find_changes([target(0), target(1)], [served(target(0)), served(target(1))])
    assert (changes.fresh, changes.retired, changes.explained) == ([], [], [])


def test_a_partition_that_was_added_begins_and_the_others_go_on() -> None:
    changes = find_changes([target(0), target(1)], [served(target(0))])
    assert ([t.source.partition for t in changes.fresh], changes.retired) == ([1], [])


def test_a_partition_that_was_added_and_is_refused_says_so_and_one_nobody_could_ask_for_does_not() -> None:
    refused = target(1, error=PartitionCountError("no partition of its number in the topic of a route"))
    changes = find_changes([target(0), refused], [served(target(0))])
    assert (changes.fresh, changes.retired) == ([refused], [])
    assert find_changes([target(0), refused], [served(target(0)), served(refused)]).fresh == []
    cured = find_changes([target(0), target(1)], [served(target(0)), served(refused)])
    assert [each.source.partition for each in cured.fresh] == [1]
    silent = target(1, error=BrokerUnreachableError("no answer"))
    gone = target(UNKNOWN_PARTITION, error=TopicMissingError("gone"))
    assert find_changes([target(0), silent, gone], [served(target(0))]).fresh == []


def test_a_topic_that_was_missing_begins_in_place_of_what_said_so() -> None:
    missing = target(UNKNOWN_PARTITION, topic_id="", error=TopicMissingError("no such topic"))
    before = served(missing)
    changes = find_changes([target(0), target(1)], [before])
    assert ([t.source.partition for t in changes.fresh], changes.retired) == ([0, 1], [before])


def test_a_recreated_topic_begins_anew_with_all_its_partitions() -> None:
    before = [served(target(n), parked=TopicMissingError("gone") if n else None) for n in range(2)]
    again = [target(n, topic_id="two") for n in range(2)]
    changes = find_changes(again, before)
    assert changes.fresh == again
    assert changes.retired == before


def test_a_recreated_topic_that_is_to_be_parked_says_so_instead_of_that_it_went() -> None:
    before = served(target(0), parked=TopicMissingError("gone"))
    error = TopicRecreatedError("recreated")
    changes = find_changes([target(0, topic_id="two", error=error)], [before])
    assert (changes.fresh, changes.retired, changes.explained) == ([], [], [(before, error)])
    before.error = error
    assert find_changes([target(0, topic_id="two", error=error)], [before]).explained == []


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (TopicMissingError("gone for a moment"), target(0)),
        (RecordTooLargeError("too large"), target(0, batch_bytes_max=2000)),
        (DestinationForeignError("foreign"), target(0, creation=CREATION)),
    ],
    ids=["the topic is there", "the limit was raised", "the destination topic was deleted"],
)
def test_what_was_parked_begins_anew_once_its_remedy_was_applied(error: MirrorlakeError, found: Target) -> None:
    before = served(target(0), parked=error)
    changes = find_changes([found], [before])
    assert (changes.fresh, changes.retired) == ([found], [before])


@pytest.mark.parametrize("error", [RecordTooLargeError("too large"), DestinationForeignError("foreign")])
def test_what_was_parked_stays_so_while_nothing_has_changed(error: MirrorlakeError) -> None:
    assert find_changes([target(0)], [served(target(0), parked=error)]).fresh == []


def test_what_a_look_refused_begins_once_a_look_finds_nothing_wrong() -> None:
    before = served(target(0, error=PartitionCountError("one and two")))
    assert find_changes([target(0, error=PartitionCountError("one and two"))], [before]).fresh == []
    assert find_changes([target(0)], [before]).retired == [before]


def test_a_cluster_that_does_not_answer_takes_nothing_from_what_is_served() -> None:
    silent = target(UNKNOWN_PARTITION, topic="(by pattern)", topic_id="", error=BrokerUnreachableError("silent"))
    assert find_changes([silent], [served(target(0))]).fresh == []
    # What has not begun yet is still to begin.
    assert find_changes([silent], [], waiting={("m", "west")}).fresh == [silent]


def test_what_is_served_stops_where_its_records_go_round_and_for_no_collision() -> None:
    states = [served(target(0)), served(target(1)), served(target(2), parked=TopicMissingError("x"))]
    loop = LoopError("x")
    found = [target(0, error=loop), target(1, error=CollisionError("x")), target(2, error=loop)]
    changes = find_changes(found, states)
    assert changes.stopped == [(states[0], loop)]
    assert (changes.fresh, changes.retired) == ([], [])


@pytest.mark.parametrize("limits", [(1000, 20, 1000), (1000, 20, 500), (1000, 2000, 3000)])
def test_a_record_that_was_too_large_begins_anew_at_more_than_the_limit_it_was_parked_at(
    limits: tuple[int, ...],
) -> None:
    """Also where that is what the limit was at the beginning: it was lowered since."""
    _, lowered, raised = limits
    before = served(target(0))
    before.saw_batch_bytes_max(lowered)
    before.failed(RecordTooLargeError("x"), 0.0)
    assert find_changes([target(0, batch_bytes_max=lowered)], [before]).fresh == []
    found = target(0, batch_bytes_max=raised)
    assert find_changes([found], [before]).fresh == [found]


def test_a_letter_that_was_too_large_begins_anew_once_its_own_topic_takes_more() -> None:
    lettered = CONFIG.replace("mirrors:", REGISTRIES + "mirrors:").replace("cluster: west}]}", LETTERS)
    mirror = parse_configuration(lettered.encode(), file="mirror.yaml", environ={}).mirrors[0]

    def found(copy: int, letters: int) -> Target:
        one = target(0, mirror=mirror, destination=mirror.destinations[0])
        return replace(one, batch_bytes_max=copy, letters_bytes_max=letters)

    error = RecordTooLargeError("x", topic="orders.dead", limit=800, bytes=900)
    before = served(found(1000, 800), parked=error)
    assert find_changes([found(2000, 800)], [before]).fresh == [], "the copy's limit is no matter"
    assert find_changes([found(1000, 900)], [before]).fresh == [found(1000, 900)]


def test_a_limit_that_a_lease_found_holds_until_a_look_finds_it_changed() -> None:
    state = served(target(0))
    state.size_limit = SizeLimit(bytes_max=1000, split_bytes=30)
    state.saw_batch_bytes_max(1000)
    assert state.size_limit.split_bytes == 30
    state.saw_batch_bytes_max(2000)
    assert state.size_limit == SizeLimit.of(2000)


@pytest.mark.parametrize("found", [UnsupportedError("LogAppendTime is set"), PartitionCountError("one and two")])
@pytest.mark.parametrize("is_restarting", [False, True])
def test_what_wrong_settings_have_done_stays_the_reason_while_they_are_wrong(
    found: MirrorlakeError, is_restarting: bool
) -> None:
    before = served(target(0), parked=WrongTimestampsError("offset 100 has another time"))
    restarting = [before] if is_restarting else []
    assert find_changes([target(0, error=found)], [before], restarting=restarting).explained == []
    other = served(target(0), parked=RecordTooLargeError("x"))
    assert find_changes([target(0, error=found)], [other]).explained == []


def test_what_is_served_stops_where_the_destination_has_another_number_of_partitions_until_it_has_not() -> None:
    state = served(target(0))
    wrong = PartitionCountError("one and two")
    assert find_changes([target(0, error=wrong)], [state]).stopped == [(state, wrong)]
    state.failed(wrong, 0.0)
    state.was_refused = True
    assert find_changes([target(0, error=wrong)], [state]).stopped == []
    assert find_changes([target(0)], [state]).fresh == [target(0)]


def test_what_was_stopped_begins_again_when_a_look_finds_nothing_wrong() -> None:
    before = served(target(0), parked=LoopError("x"))
    before.was_refused = True
    changes = find_changes([target(0)], [before])
    assert (changes.fresh, changes.retired) == ([target(0)], [before])


def test_what_is_to_begin_anew_does_so_unless_the_look_finds_something_wrong() -> None:
    parked, failing = served(target(0), parked=ChainBrokenError("x")), served(target(1))
    assert find_changes([target(0)], [parked]).fresh == []
    changes = find_changes([target(0), target(1)], [parked, failing], restarting=[parked, failing])
    assert (changes.fresh, changes.retired) == ([target(0), target(1)], [parked, failing])
    wrong = PartitionCountError("one and two")
    changes = find_changes([target(0, error=wrong)], [parked], restarting=[parked])
    assert (changes.fresh, changes.retired, changes.explained) == ([], [], [(parked, wrong)])


def test_a_topic_of_mirrorlakes_own_that_is_gone_does_not_take_the_place_of_what_parked_a_copy() -> None:
    gone = [
        TopicMissingError(f"ListOffsets of {name}-0 was refused", partition=f"{name}-0")
        for name in ("mirrorlake.state", "mirrorlake.progress.m")
    ]
    parked = served(target(0), parked=ChainBrokenError("no segment is there"))
    for error in gone:
        assert find_changes([target(0, error=error)], [parked]).explained == []
    source = TopicMissingError("the source topic is gone", partition="orders-0")
    assert find_changes([target(0, error=source)], [parked]).explained == [(parked, source)]
