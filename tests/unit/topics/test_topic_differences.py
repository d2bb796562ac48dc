"""What differs between a topic and its copy, and what becomes of it: pure, from facts as they are read."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.errors import (
    BrokerUnreachableError,
    DestinationForeignError,
    MirrorlakeError,
    PermissionDeniedError,
    UnsupportedError,
)
from mirrorlake.kafka.control.descriptions import ConfigValue, PartitionMetadata, TopicMetadata
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.destination_topics import clock_error, creation_of
from mirrorlake.topics.sync.applying import results_of
from mirrorlake.topics.sync.differences import (
    Act,
    Difference,
    TopicFacts,
    are_same,
    differences_of,
    is_tighter,
)
from mirrorlake.topics.sync.plan import TopicPlan, TopicRow, without_contradictions
from unit.config.config_texts import kafka, load

TOPIC_LEVEL = "DYNAMIC_TOPIC_CONFIG"
BROKER_LEVEL = "STATIC_BROKER_CONFIG"
DEFAULT = "DEFAULT_CONFIG"
ALL_RIGHTS = frozenset({"ALTER", "ALTER_CONFIGS"})
TIMES = {"message.timestamp.type": ("CreateTime", DEFAULT)}


def settings(given: Mapping[str, tuple[str | None, str]]) -> dict[str, ConfigValue]:
    return {
        key: ConfigValue(value=value, source=source, is_read_only=False, is_sensitive=value is None)
        for key, (value, source) in given.items()
    }


def topic(partitions: int, replicas: int = 1) -> TopicMetadata:
    held = tuple(range(replicas))
    each = {
        number: PartitionMetadata(partition=number, leader=1, leader_epoch=0, replicas=held, isr=held)
        for number in range(partitions)
    }
    return TopicMetadata(name="copy", topic_id="", is_internal=False, partitions=each)


def facts(
    text: str = ", sync: {configs: apply}",
    *,
    source: Mapping[str, tuple[str | None, str]] | MirrorlakeError | None = None,
    held: Mapping[str, tuple[str | None, str]] | MirrorlakeError | None = None,
    partitions: tuple[int, int] = (1, 1),
    replicas: tuple[int, int] = (1, 1),
    error: MirrorlakeError | None = None,
) -> TopicFacts:
    """Both sides, with settings as value and level, and counts as of the source and of the destination."""
    mirror = load(kafka(destination=text)).mirrors[0]
    destination = mirror.destinations[0]
    assert isinstance(destination, KafkaDestination)
    numbers = frozenset(range(partitions[0]))
    return TopicFacts(
        mirror=mirror,
        destination=destination,
        topic="orders",
        name="copy",
        source=SourceTopic(name="orders", topic_id="", is_internal=False, partitions=numbers, replicas=replicas[0]),
        source_configs=source if isinstance(source, MirrorlakeError) else settings(TIMES | dict(source or {})),
        held=topic(partitions[1], replicas[1]),
        held_configs=held if isinstance(held, MirrorlakeError) else settings(TIMES | dict(held or {})),
        rights=ALL_RIGHTS,
        error=error,
    )


def short(differences: list[Difference]) -> list[tuple[str, Act, str | None]]:
    return [(each.what, each.act, each.wanted) for each in differences]


@pytest.mark.parametrize(
    ("source", "held", "act", "wanted"),
    [
        (("5", TOPIC_LEVEL), ("5", TOPIC_LEVEL), None, None),
        (("5", TOPIC_LEVEL), ("5", BROKER_LEVEL), None, None),
        (("5", TOPIC_LEVEL), ("5", DEFAULT), None, None),
        (("5", TOPIC_LEVEL), ("6", TOPIC_LEVEL), Act.SET, "5"),
        (("5", TOPIC_LEVEL), ("6", BROKER_LEVEL), Act.SET, "5"),
        (("5", TOPIC_LEVEL), ("6", DEFAULT), Act.SET, "5"),
        (("5", BROKER_LEVEL), ("6", TOPIC_LEVEL), Act.SET, "5"),
        (("5", BROKER_LEVEL), ("6", DEFAULT), Act.SET, "5"),
        (("5", DEFAULT), ("5", TOPIC_LEVEL), None, None),
        (("5", DEFAULT), ("4", TOPIC_LEVEL), Act.REPORT, None),
        (("5", DEFAULT), ("6", TOPIC_LEVEL), Act.REPORT, None),
        (("5", DEFAULT), ("4", BROKER_LEVEL), Act.REPORT, None),
        (("5", DEFAULT), ("6", BROKER_LEVEL), None, None),
        (("-1", DEFAULT), ("6", DEFAULT), Act.REPORT, None),
        (None, ("6", TOPIC_LEVEL), Act.REPORT, None),
        (None, ("6", DEFAULT), None, None),
        (("5", TOPIC_LEVEL), None, Act.REPORT, "5"),
        (("5", DEFAULT), None, None, None),
        ((None, TOPIC_LEVEL), ("6", DEFAULT), Act.UNKNOWN, None),
        (("5", TOPIC_LEVEL), (None, TOPIC_LEVEL), Act.UNKNOWN, None),
    ],
)
def test_a_setting_is_judged_by_its_value_and_by_who_chose_it(
    source: tuple[str | None, str] | None, held: tuple[str | None, str] | None, act: Act | None, wanted: str | None
) -> None:
    found = differences_of(
        facts(
            source={"retention.ms": source} if source else {},
            held={"retention.ms": held} if held else {},
        )
    )

    assert short(found) == ([] if act is None else [("retention.ms", act, wanted)])


@pytest.mark.parametrize(
    ("text", "act"),
    [
        (", sync: {configs: apply}", Act.SET),
        (", sync: {configs: report}", Act.REPORT),
        ("", Act.REPORT),
        (", sync: {configs: off}", None),
        (", sync: {configs: apply, exclude: [flush.ms]}", None),
        (", sync: {configs: apply, include: [retention.ms]}", None),
        (", sync: {configs: apply, override: {flush.ms: 2}}", None),
    ],
)
def test_what_is_done_about_a_setting_is_the_files_to_say(text: str, act: Act | None) -> None:
    found = differences_of(facts(text, source={"flush.ms": ("1", TOPIC_LEVEL)}, held={"flush.ms": ("2", DEFAULT)}))

    assert [each.act for each in found] == ([] if act is None else [act])


@pytest.mark.parametrize("key", ["min.insync.replicas", "unclean.leader.election.enable"])
def test_what_speaks_of_brokers_is_no_difference_unless_it_is_named(key: str) -> None:
    sides = {"source": {key: ("2", TOPIC_LEVEL)}, "held": {key: ("1", TOPIC_LEVEL)}}

    assert differences_of(facts(**sides)) == []  # type: ignore[arg-type]
    named = facts(f", sync: {{configs: apply, include: [{key}]}}", **sides)  # type: ignore[arg-type]
    assert short(differences_of(named)) == [(key, Act.SET, "2")]


@pytest.mark.parametrize(
    ("mode", "there", "expected"),
    [
        ("source", "CreateTime", []),
        ("source", "LogAppendTime", [("message.timestamp.type", Act.SET, "CreateTime")]),
        ("destination", "CreateTime", []),
        ("destination", "LogAppendTime", []),
    ],
)
def test_whose_times_records_have_is_said_by_the_mode_and_not_by_the_source(
    mode: str, there: str, expected: list[tuple[str, Act, str]]
) -> None:
    given = facts(
        f", timestamp-mode: {mode}, sync: {{configs: apply}}",
        source={"message.timestamp.type": ("LogAppendTime", TOPIC_LEVEL)},
        held={"message.timestamp.type": (there, TOPIC_LEVEL)},
    )
    refused = clock_error(given.destination, "copy", {"message.timestamp.type": there})

    assert short(differences_of(replace(given, error=refused))) == expected


@pytest.mark.parametrize(
    ("text", "source", "there", "act", "wanted"),
    [
        ("", 3, 3, None, None),
        ("", 3, 2, Act.GROW, "3"),
        ("", 3, 4, Act.REFUSE, None),
        (", sync: {partitions: report}", 3, 2, Act.REPORT, "3"),
        (", sync: {partitions: off}", 3, 2, None, None),
        (", create-topics: never", 3, 2, Act.REPORT, "3"),
        (", create-topics: {partitions: {fixed: 2}}", 3, 1, Act.REFUSE, "3"),
        (", create-topics: {partitions: {mirror-source: {max: 2}}}", 3, 3, None, None),
        (", offsets: map", 3, 2, Act.REPORT, "3"),
        (", offsets: map", 3, 4, None, None),
        (", offsets: map, sync: {partitions: apply}", 3, 2, Act.GROW, "3"),
        (", offsets: map, create-topics: {partitions: {fixed: 2}}", 3, 2, None, None),
        (", offsets: map, sync: {partitions: apply}, create-topics: {partitions: {fixed: 6}}", 3, 2, Act.GROW, "6"),
    ],
)
def test_partitions_are_added_up_to_what_the_offsets_allow(
    text: str, source: int, there: int, act: Act | None, wanted: str | None
) -> None:
    found = differences_of(facts(text, partitions=(source, there)))

    assert short(found) == ([] if act is None else [("partitions", act, wanted)])


@pytest.mark.parametrize(
    ("text", "source", "there", "wanted"),
    [
        ("", 3, 3, None),
        ("", 3, 4, None),
        ("", 3, 1, "3"),
        (", replication-factor: 1", 3, 1, None),
        (", create-topics: {replication: {mirror-source: {max: 2}}}", 3, 1, "2"),
        (", create-topics: {replication: {fixed: 4}}", 3, 3, "4"),
    ],
)
def test_fewer_replicas_are_only_reported(text: str, source: int, there: int, wanted: str | None) -> None:
    found = differences_of(facts(text, replicas=(source, there)))

    assert short(found) == ([] if wanted is None else [("replicas", Act.REPORT, wanted)])


def test_nothing_is_set_on_a_topic_whose_partitions_cannot_be_the_sources() -> None:
    given = facts(partitions=(1, 2), source={"flush.ms": ("1", TOPIC_LEVEL)}, held={"flush.ms": ("2", DEFAULT)})

    assert short(differences_of(given)) == [("partitions", Act.REFUSE, None), ("flush.ms", Act.REPORT, "1")]


AWAY = BrokerUnreachableError("away")
DENIED = PermissionDeniedError("denied")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"held": DENIED}, [("settings", Act.UNKNOWN, None)]),
        ({"source": AWAY}, [("settings", Act.UNKNOWN, None)]),
        ({"error": AWAY}, [("topic", Act.UNKNOWN, None)]),
        ({"error": DENIED}, [("topic", Act.UNKNOWN, None)]),
        ({"error": DestinationForeignError("foreign")}, [("topic", Act.REFUSE, None)]),
        ({"error": UnsupportedError("too old")}, [("topic", Act.REFUSE, None)]),
        (
            {"error": DestinationForeignError("foreign"), "partitions": (2, 1)},
            [("topic", Act.REFUSE, None), ("partitions", Act.REPORT, "2")],
        ),
    ],
)
def test_what_was_not_read_is_unknown_and_nothing_is_done_to_a_copy_that_is_refused(
    given: dict[str, object], expected: list[tuple[str, Act, str | None]]
) -> None:
    assert short(differences_of(facts(**given))) == expected  # type: ignore[arg-type]


def test_a_source_that_does_not_say_its_settings_is_unknown_and_what_goes_over_them_is_known() -> None:
    silent = facts(", sync: {configs: apply, override: {flush.ms: 1}}", held={"flush.ms": ("2", DEFAULT)})

    assert short(differences_of(replace(silent, source_configs={}))) == [
        ("settings", Act.UNKNOWN, None),
        ("flush.ms", Act.SET, "1"),
    ]


def test_a_missing_topic_is_made_and_one_whose_source_was_recreated_is_left_to_run() -> None:
    given = facts(partitions=(3, 1))
    assert given.source is not None
    made = replace(given, held=None, held_configs={}, creation=creation_of("copy", given.destination, given.source, {}))

    assert short(differences_of(made)) == [("topic", Act.CREATE, "3 partition(s)")]
    assert short(differences_of(replace(given, creation=made.creation, is_replaced=True))) == [
        ("topic", Act.REPORT, None)
    ]
    assert short(differences_of(replace(made, error=DENIED))) == [("topic", Act.REFUSE, None)]


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        (None, [Act.GROW, Act.SET]),
        ({"ALTER", "ALTER_CONFIGS"}, [Act.GROW, Act.SET]),
        ({"ALTER"}, [Act.GROW, Act.REFUSE]),
        ({"ALTER_CONFIGS"}, [Act.REFUSE, Act.SET]),
        (set(), [Act.REFUSE, Act.REFUSE]),
    ],
)
def test_a_right_that_is_missing_refuses_and_one_that_is_not_known_does_not(
    rights: set[str] | None, expected: list[Act]
) -> None:
    given = facts(partitions=(2, 1), source={"flush.ms": ("1", TOPIC_LEVEL)}, held={"flush.ms": ("2", DEFAULT)})

    found = differences_of(replace(given, rights=None if rights is None else frozenset(rights)))

    assert [each.act for each in found] == expected


@pytest.mark.parametrize(
    ("key", "one", "other", "same"),
    [
        ("retention.ms", "5", "5", True),
        ("min.cleanable.dirty.ratio", "0.50", "0.5", True),
        ("retention.bytes", "9223372036854775807", "9223372036854775806", False),
        ("preallocate", "True", "true", True),
        ("cleanup.policy", "compact,delete", "delete, compact", True),
        ("cleanup.policy", "compact", "delete", False),
        ("compression.type", "gzip", "lz4", False),
        ("retention.ms", None, "5", False),
    ],
)
def test_two_texts_may_be_one_value(key: str, one: str | None, other: str, same: bool) -> None:
    assert are_same(key, one, other) is same


@pytest.mark.parametrize(
    ("key", "source", "destination", "tighter"),
    [
        ("retention.ms", "10", "5", True),
        ("retention.ms", "5", "10", False),
        ("retention.ms", "-1", "10", True),
        ("retention.ms", "10", "-1", False),
        ("max.message.bytes", "10", "5", True),
        ("cleanup.policy", "delete", "compact", True),
        ("cleanup.policy", "compact", "delete", False),
        ("flush.ms", "10", "5", False),
    ],
)
def test_brokers_that_keep_or_take_less_are_told_apart(key: str, source: str, destination: str, tighter: bool) -> None:
    assert is_tighter(key, source, destination) is tighter


@pytest.mark.parametrize("there", ["1", "2", "3"])
def test_two_mirrors_that_want_one_setting_otherwise_never_take_turns(there: str) -> None:
    """Also where the topic has what one of them wants, so that only the other one would act."""
    both = [
        facts(source={"flush.ms": (wanted, TOPIC_LEVEL)}, held={"flush.ms": (there, TOPIC_LEVEL)})
        for wanted in ("1", "2")
    ]
    rows = [TopicRow(facts=each, difference=found) for each in both for found in differences_of(each)]

    judged = without_contradictions(rows, both)

    assert [row.difference.act for row in judged] == [Act.REFUSE] * (2 if there == "3" else 1)
    assert without_contradictions(rows, both[:1]) == rows


@pytest.mark.parametrize("is_found", [True, False], ids=["its settings could not be read", "it could not be found"])
@pytest.mark.parametrize("is_same_mirror", [True, False])
def test_nothing_is_set_where_it_is_not_known_what_another_source_of_the_topic_wants(
    is_found: bool, is_same_mirror: bool
) -> None:
    known = facts(source={"flush.ms": ("1", TOPIC_LEVEL)}, held={"flush.ms": ("2", TOPIC_LEVEL)})
    away = BrokerUnreachableError("the other source is away")
    other = facts(source=away) if is_found else replace(facts(error=away), source=None)
    other = replace(other, topic="other") if is_same_mirror else replace(other, mirror=replace(other.mirror, name="b"))
    rows = [TopicRow(facts=known, difference=found) for found in differences_of(known)]
    assert [row.difference.act for row in rows] == [Act.SET]

    (judged,) = without_contradictions(rows, [known, other])

    assert judged.difference.act is Act.UNKNOWN
    assert "source could not be read" in str(judged.difference.error)
    assert without_contradictions(rows, [known]) == rows


def test_an_act_that_could_not_be_read_back_is_not_called_done() -> None:
    known = facts(source={"flush.ms": ("1", TOPIC_LEVEL)}, held={"flush.ms": ("2", TOPIC_LEVEL)})
    planned = TopicPlan(rows=[TopicRow(facts=known, difference=each) for each in differences_of(known)], topics=1)
    away = facts(error=BrokerUnreachableError("the destination is away"), held=BrokerUnreachableError("away"))
    unread = TopicPlan(rows=[TopicRow(facts=away, difference=each) for each in differences_of(away)], topics=1)
    (key,) = [row.key for row in planned.rows]
    refused = PermissionDeniedError("no")

    found = {
        name: [(row.result, row.is_open) for row in results_of(planned, failed, now)]
        for name, failed, now in [
            ("done", {}, TopicPlan(rows=[], topics=1)),
            ("not there", {}, planned),
            ("unread", {}, unread),
            ("refused", {key: refused}, unread),
        ]
    }

    assert found == {
        "done": [("done", False)],
        "not there": [("failed", True)],
        "unread": [("unknown", True)],
        "refused": [("failed", True)],
    }
