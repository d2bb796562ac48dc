"""What a look at the clusters changes in a running service; plain decisions."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
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


def test_what_is_served_stops_where_its_records_go_round_and_for_no_other_reason_of_a_look() -> None:
    states = [served(target(0)), served(target(1)), served(target(2), parked=TopicMissingError("x"))]
    loop = LoopError("x")
    found = [target(0, error=loop), target(1, error=CollisionError("x")), target(2, error=loop)]
    changes = find_changes(found, states)
    assert changes.stopped == [(states[0], loop)]
    assert (changes.fresh, changes.retired) == ([], [])


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
