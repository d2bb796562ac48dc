"""How destination topics are made and kept, as the file says it."""

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.topics.policy import AclOperation, CountRule, SyncMode, TopicSync
from unit.config.config_texts import kafka, load, messages, native

WHERE = "mirrors[0].destinations[0]"


def destination(text: str, /, **environ: str) -> KafkaDestination:
    found = load(kafka(destination=text), **environ).mirrors[0].destinations[0]
    assert isinstance(found, KafkaDestination)
    return found


@pytest.mark.parametrize(
    ("text", "creates", "partitions", "replication"),
    [
        ("", True, CountRule(), None),
        (", create-topics: true", True, CountRule(), None),
        (", create-topics: like-source", True, CountRule(), None),
        (", create-topics: false", False, CountRule(), None),
        (", create-topics: never", False, CountRule(), None),
        (", create-topics: {partitions: {fixed: 6}}", True, CountRule(fixed=6), None),
        (", create-topics: {partitions: mirror-source}", True, CountRule(), None),
        (", create-topics: {partitions: {mirror-source: {min: 3}}}", True, CountRule(minimum=3), None),
        (
            ", create-topics: {partitions: {mirror-source: {min: 3, max: 12}}, replication: {fixed: 2}}",
            True,
            CountRule(minimum=3, maximum=12),
            CountRule(fixed=2),
        ),
        (", create-topics: {replication: {mirror-source: {max: 3}}}", True, CountRule(), CountRule(maximum=3)),
        (", create-topics: true, replication-factor: 3", True, CountRule(), CountRule(fixed=3)),
    ],
)
def test_a_missing_topic_is_made_by_a_word_or_by_rules(
    text: str, creates: bool, partitions: CountRule, replication: CountRule | None
) -> None:
    found = destination(text)

    assert (found.creates_topics, found.partition_rule, found.replication_rule) == (creates, partitions, replication)


@pytest.mark.parametrize(("word", "creates"), [("true", True), ("false", False), ("never", False)])
def test_the_word_may_come_from_the_environment(word: str, creates: bool) -> None:
    assert destination(", create-topics: '${MAKE}'", MAKE=word).creates_topics is creates


@pytest.mark.parametrize(
    ("rule", "of_1", "of_5", "of_20"),
    [
        (CountRule(), 1, 5, 20),
        (CountRule(fixed=6), 6, 6, 6),
        (CountRule(minimum=3), 3, 5, 20),
        (CountRule(maximum=12), 1, 5, 12),
        (CountRule(minimum=3, maximum=12), 3, 5, 12),
    ],
)
def test_a_rule_bounds_what_the_source_has(rule: CountRule, of_1: int, of_5: int, of_20: int) -> None:
    assert [rule.count_for(count) for count in (1, 5, 20)] == [of_1, of_5, of_20]


@pytest.mark.parametrize(
    ("text", "configs", "partitions"),
    [
        ("", SyncMode.REPORT, SyncMode.APPLY),
        (", create-topics: never", SyncMode.REPORT, SyncMode.REPORT),
        (", offsets: map", SyncMode.REPORT, SyncMode.REPORT),
        (", offsets: map, sync: {partitions: apply}", SyncMode.REPORT, SyncMode.APPLY),
        (", create-topics: never, sync: {partitions: apply}", SyncMode.REPORT, SyncMode.APPLY),
        (", sync: {configs: apply, partitions: report}", SyncMode.APPLY, SyncMode.REPORT),
        (", sync: {configs: off, partitions: off}", SyncMode.OFF, SyncMode.OFF),
    ],
)
def test_what_is_done_about_differences(text: str, configs: SyncMode, partitions: SyncMode) -> None:
    found = destination(text)

    assert (found.sync.configs, found.partition_sync) == (configs, partitions)


def test_settings_are_chosen_and_overridden_by_name() -> None:
    sync = destination(
        ', sync: {include: ["/retention.*/", min.insync.replicas], exclude: [retention.bytes], '
        "override: {retention.ms: -1, preallocate: true, cleanup.policy: delete}}"
    ).sync

    assert sync == TopicSync(
        include=("/retention.*/", "min.insync.replicas"),
        exclude=("retention.bytes",),
        override={"retention.ms": "-1", "preallocate": "true", "cleanup.policy": "delete"},
    )


@pytest.mark.parametrize(
    ("sync", "setting", "usually", "is_copied"),
    [
        (TopicSync(), "retention.ms", True, True),
        (TopicSync(), "min.insync.replicas", False, False),
        (TopicSync(include=("min.insync.replicas",)), "min.insync.replicas", False, True),
        (TopicSync(include=("/.*/",)), "min.insync.replicas", False, False),
        (TopicSync(include=("/.*/", "min.insync.replicas")), "retention.ms", True, True),
        (TopicSync(include=("retention.bytes",)), "retention.ms", True, False),
        (TopicSync(exclude=("/retention.*/",)), "retention.ms", True, False),
        (TopicSync(include=("retention.ms",), exclude=("retention.ms",)), "retention.ms", True, False),
        (TopicSync(override={"retention.ms": "1"}), "retention.ms", True, False),
    ],
)
def test_exclusion_and_override_go_before_what_is_included(
    sync: TopicSync, setting: str, usually: bool, is_copied: bool
) -> None:
    assert sync.copies(setting, usually=usually) is is_copied


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (", create-topics: sometimes", ".create-topics: expected never, like-source or rules, found `sometimes`"),
        (", create-topics: 'true'", ".create-topics: expected never, like-source or rules, found `true`"),
        (", create-topics: like-sourse", "did you mean `like-source`?"),
        (", create-topics: {}", ".create-topics: expected never, like-source or rules, found a mapping"),
        (", create-topics: {partition: {fixed: 1}}", ".create-topics: `partition` is not a known field of"),
        (", create-topics: {partitions: 3}", ".create-topics: `partitions`: expected fixed or mirror-source,"),
        (", create-topics: {partitions: {fixed: 0}}", ".create-topics: expected a whole number from 1 to 2147483647"),
        (", create-topics: {replication: {fixed: 40000}}", ".create-topics: expected a whole number from 1 to 32767"),
        (", create-topics: {partitions: {fixed: 1, mirror-source: {}}}", ".create-topics: `partitions`: expected"),
        (", create-topics: {partitions: {mirror-source: {minimum: 1}}}", "`minimum` is not a known field of"),
        (", create-topics: {partitions: {mirror-source: {min: 4, max: 3}}}", "`min` is above `max`"),
        (", create-topics: {replication: {fixed: 2}}, replication-factor: 3", ".replication-factor: has no meaning"),
        (", sync: {configs: repair}", ".sync.configs: expected apply or report or off, found `repair`"),
        (", sync: {config: apply}", ".sync.config: is not a known field"),
        (", sync: {exclude: ['/(/']}", ".sync.exclude[0]: `/(/` is not a regular expression"),
        (", sync: {include: [Retention]}", ".sync.include[0]: `Retention` is not the name of a topic's setting"),
        (", sync: {override: {retention.ms: [1]}}", ".sync.override: `retention.ms`: expected text or a number"),
        (", sync: {override: {message.timestamp.type: CreateTime}}", "`timestamp-mode` says whose time a record has"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_where_it_stands(text: str, expected: str) -> None:
    refused = messages(kafka(destination=text))

    assert [line for line in refused if line.startswith(WHERE) and expected in line] == refused


def test_an_archive_has_no_replicas_to_mirror() -> None:
    text = native("""
        - name: m
          source: {store: lake, topics: [orders]}
          destinations: [{type: kafka, cluster: west, create-topics: {replication: mirror-source}}]
        """)

    assert messages(text) == [
        f"{WHERE}.create-topics: `replication: mirror-source`: an archive has no replicas (use `{{fixed: …}}`, or "
        "leave it out)"
    ]


def test_acls_are_off_and_reading_is_what_is_carried_unless_the_file_says_otherwise() -> None:
    usual = destination("").sync
    assert (usual.acls, usual.acl_groups, usual.acl_removals) == (SyncMode.OFF, False, False)
    assert usual.acl_operations == (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)

    asked = destination(", sync: {acls: apply, acl-operations: [READ, WRITE], acl-groups: true}").sync
    assert (asked.acls, asked.acl_groups) == (SyncMode.APPLY, True)
    assert asked.acl_operations == (AclOperation.READ, AclOperation.WRITE)
    assert destination(", sync: {acls: apply, acl-operations: [READ], acl-removals: true}").sync.acl_removals


@pytest.mark.parametrize(
    ("sync", "said"),
    [
        ("acls: apply, acl-operations: [READ, WRITE], acl-removals: true", "`acl-operations` has more than reading"),
        ("acl-operations: [ALL]", "ALL"),
        ("acl-operations: [IDEMPOTENT_WRITE]", "IDEMPOTENT_WRITE"),
        ("acls: yes-please", "yes-please"),
    ],
)
def test_acl_settings_that_cannot_be_meant_are_refused(sync: str, said: str) -> None:
    found = messages(kafka(destination=f", sync: {{{sync}}}"))

    assert len(found) == 1
    assert said in found[0]


def test_an_archive_has_no_acls_to_carry_over() -> None:
    text = native(
        mirrors="- {name: m, source: {store: lake, topics: [a]}, "
        "destinations: [{type: kafka, cluster: west, sync: {acls: report}}]}"
    )

    assert [each for each in messages(text) if "acls: has no meaning: an archive keeps no ACLs" in each]
