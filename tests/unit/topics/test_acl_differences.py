"""Which ACLs a copy gets from its source, and what becomes of those that differ: pure, from rules as they are read."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.topics.policy import READING, AclOperation, SyncMode, TopicSync
from mirrorlake.errors import UnsupportedError
from mirrorlake.kafka.control.acls import OPERATIONS, Acl
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.acls.applying import acl_results
from mirrorlake.topics.acls.differences import AclFacts, acl_differences_of
from mirrorlake.topics.acls.plan import AclRow, Rules, acl_rows, as_shown
from mirrorlake.topics.acls.rules import is_held, opposes, reaches, text_of, wanted_of_topic
from mirrorlake.topics.sync.differences import Act, Difference, TopicFacts
from unit.config.config_texts import kafka, load

APPLY = TopicSync(acls=SyncMode.APPLY)
REMOVING = TopicSync(acls=SyncMode.APPLY, acl_removals=True)
READING_NAMES = ["READ", "DESCRIBE", "DESCRIBE_CONFIGS"]
OF_TOPICS = ["ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"]


def rule(text: str) -> Acl:
    """``ALLOW READ alice orders``; a name that ends in ``…`` is a prefix, ``@host`` behind it is the host."""
    permission, operation, user, where, *host = text.split()
    kind, _, name = where.rpartition(":")
    return Acl(
        resource_type=kind or "TOPIC",
        name=name.removesuffix("…"),
        pattern="PREFIXED" if name.endswith("…") else "LITERAL",
        principal=f"User:{user}",
        host=host[0].removeprefix("@") if host else "*",
        operation=operation,
        permission=permission,
    )


def facts(
    source: list[str], held: list[str] | None = None, *, sync: TopicSync = APPLY, name: str = "orders-copy"
) -> AclFacts:
    return AclFacts(
        source=frozenset(map(rule, source)),
        held=frozenset(map(rule, held or [])),
        sync=sync,
        topic="orders",
        name=name,
    )


def found(given: AclFacts) -> list[tuple[Act, str]]:
    return [(each.difference.act, text_of(each.acl)) for each in acl_differences_of(given)]


PATTERNS_AND_NAMES = {
    "orders": True,
    "order": False,
    "orders-copy": False,
    "ord…": True,
    "orders…": True,
    "orders-…": False,
    "*": True,
    "GROUP:orders": False,
    "CLUSTER:*": False,
    "TRANSACTIONAL_ID:*": False,
}


@pytest.mark.parametrize("name", ["orders", "orders-copy", "east.orders", "all"])
@pytest.mark.parametrize("operation", OF_TOPICS)
@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
@pytest.mark.parametrize("where", PATTERNS_AND_NAMES)
def test_every_rule_that_holds_for_the_source_holds_for_the_copy_by_its_own_name_and_nothing_else(
    name: str, operation: str, permission: str, where: str
) -> None:
    expected: list[str] = []
    if PATTERNS_AND_NAMES[where] and permission == "DENY":
        expected = [operation]
    elif PATTERNS_AND_NAMES[where] and operation == "ALL":
        expected = READING_NAMES
    elif PATTERNS_AND_NAMES[where] and operation in READING_NAMES:
        expected = [operation]

    missing = acl_differences_of(facts([f"{permission} {operation} alice {where} @10.0.0.1"], name=name))

    assert sorted(text_of(each.acl) for each in missing) == sorted(
        f"{permission} {each} to User:alice from 10.0.0.1 on topic {name}" for each in expected
    )
    assert {each.difference.act for each in missing} <= {Act.ADD_ACL}
    assert all(each.acl.pattern == "LITERAL" for each in missing)


@pytest.mark.parametrize("operation", OF_TOPICS)
@pytest.mark.parametrize("asked", list(AclOperation))
def test_writing_is_carried_only_where_the_file_names_it(operation: str, asked: AclOperation) -> None:
    sync = replace(APPLY, acl_operations=(AclOperation.READ, asked))

    missing = acl_differences_of(facts([f"ALLOW {operation} alice orders"], sync=sync))

    named = {"READ", asked.value}
    expected = named if operation == "ALL" else named & {operation}
    assert {each.acl.operation for each in missing} == expected


OPERATION = st.sampled_from(sorted(OPERATIONS))
RULE = st.builds(
    Acl,
    resource_type=st.sampled_from(["TOPIC", "GROUP"]),
    name=st.sampled_from(["*", "o", "orders", "orders-copy"]),
    pattern=st.sampled_from(["LITERAL", "PREFIXED"]),
    principal=st.sampled_from(["User:*", "User:alice", "User:bob"]),
    host=st.sampled_from(["*", "10.0.0.1"]),
    operation=OPERATION,
    permission=st.sampled_from(["ALLOW", "DENY"]),
)


def may(rules: frozenset[Acl], user: str, host: str, operation: str, topic: str) -> bool:
    """Kafka's own judgement, without what READ and WRITE include: a DENY goes before every ALLOW."""
    holding = {
        acl.permission
        for acl in rules
        if reaches(acl, "TOPIC", topic)
        and acl.principal in ("User:*", user)
        and acl.host in ("*", host)
        and acl.operation in ("ALL", operation)
    }
    return holding == {"ALLOW"}


@given(st.frozensets(RULE, max_size=6), st.frozensets(RULE, max_size=4), st.booleans())
@example(
    source=frozenset({rule("ALLOW ALL * *")}),
    held=frozenset({rule("ALLOW READ * orders-copy @10.0.0.1")}),
    is_removing=True,
)
@example(
    source=frozenset({rule("ALLOW ALL * * @10.0.0.1")}),
    held=frozenset({rule("ALLOW READ * *"), rule("ALLOW DESCRIBE * orders-copy")}),
    is_removing=True,
)
def test_whatever_the_rules_nobody_may_do_more_with_a_copy_than_with_its_source_or_than_before(
    source: frozenset[Acl], held: frozenset[Acl], is_removing: bool
) -> None:
    given_facts = replace(
        facts([], sync=REMOVING if is_removing else APPLY), source=source, held=held, own=frozenset({"User:mirror"})
    )
    differences = acl_differences_of(given_facts)
    added = {each.acl for each in differences if each.difference.act is Act.ADD_ACL}
    removed = {each.acl for each in differences if each.difference.act is Act.REMOVE_ACL}
    after = (held | added) - removed

    for user in ("User:alice", "User:bob", "User:carol"):
        for host in ("10.0.0.1", "10.0.0.2"):
            for operation in OF_TOPICS[1:]:
                if may(after, user, host, operation, "orders-copy"):
                    before = may(held, user, host, operation, "orders-copy")
                    assert before or may(source, user, host, operation, "orders")
                    assert before or operation in READING_NAMES
    assert not held or after or not removed
    again = acl_differences_of(replace(given_facts, held=after))
    assert [each for each in again if each.difference.act in (Act.ADD_ACL, Act.REMOVE_ACL)] == []


@pytest.mark.parametrize(
    ("held", "is_enough"),
    [
        ("ALLOW READ alice orders-copy", True),
        ("ALLOW ALL alice orders-copy", True),
        ("ALLOW READ alice orders…", True),
        ("ALLOW READ alice *", True),
        ("ALLOW READ * orders-copy", True),
        ("ALLOW WRITE alice orders-copy", False),
        ("ALLOW READ alice orders", False),
        ("ALLOW READ bob orders-copy", False),
        ("ALLOW READ alice orders-copy @10.0.0.1", False),
        ("DENY READ alice orders-copy", False),
        ("ALLOW READ alice GROUP:orders-copy", False),
    ],
)
def test_what_a_wider_rule_of_the_destination_says_already_is_not_missing(held: str, is_enough: bool) -> None:
    assert is_held(rule("ALLOW READ alice orders-copy"), [rule(held)]) is is_enough
    missing = [act for act, _ in found(facts(["ALLOW READ alice orders"], [held])) if act is Act.ADD_ACL]
    assert missing == ([] if is_enough else [Act.ADD_ACL])


@pytest.mark.parametrize(
    ("source", "held", "sync", "expected"),
    [
        # what the destination alone has: removed on request, and only what is ever made here
        (["ALLOW READ bob orders"], ["ALLOW READ alice orders-copy", "ALLOW READ bob orders-copy"], REMOVING, "remove"),
        (["ALLOW READ bob orders"], ["ALLOW READ alice orders-copy", "ALLOW READ bob orders-copy"], APPLY, "report"),
        (["ALLOW READ bob orders"], ["DENY READ alice orders-copy", "ALLOW READ bob orders-copy"], REMOVING, "report"),
        (["ALLOW READ bob orders"], ["ALLOW READ alice orders…", "ALLOW READ bob orders-copy"], REMOVING, ""),
        (["ALLOW READ bob orders"], ["ALLOW READ alice *", "ALLOW READ bob orders-copy"], REMOVING, ""),
        (["ALLOW READ bob orders"], ["ALLOW READ alice other", "ALLOW READ bob orders-copy"], REMOVING, ""),
        # somebody with more rights, such as mirrorlake's own user
        (
            ["ALLOW READ bob orders"],
            ["ALLOW READ alice orders-copy", "ALLOW WRITE alice orders-copy", "ALLOW READ bob orders-copy"],
            REMOVING,
            "",
        ),
        (
            ["ALLOW READ bob orders"],
            ["ALLOW READ alice orders-copy", "ALLOW ALL alice *", "ALLOW READ bob orders-copy"],
            REMOVING,
            "",
        ),
        # a reader of the source that may do more at the destination is shown, and left
        (["ALLOW READ alice orders"], ["ALLOW ALL alice orders-copy"], REMOVING, "report"),
        (
            ["ALLOW READ alice orders"],
            ["ALLOW READ alice orders-copy", "ALLOW WRITE alice orders-copy"],
            APPLY,
            "report",
        ),
        # nothing would hold for the topic afterwards
        (["ALLOW READ bob other"], ["ALLOW READ alice orders-copy"], REMOVING, "refused"),
        # the source shows nothing at all
        ([], ["ALLOW READ alice orders-copy", "ALLOW READ bob *"], REMOVING, "refused"),
    ],
)
def test_what_the_destination_alone_has(source: list[str], held: list[str], sync: TopicSync, expected: str) -> None:
    acts = {"remove": Act.REMOVE_ACL, "report": Act.REPORT, "refused": Act.REFUSE}

    assert [act for act, _ in found(facts(source, held, sync=sync))] == ([acts[expected]] if expected else [])


def test_all_there_was_may_go_where_something_is_added_first() -> None:
    assert found(facts(["ALLOW READ bob orders"], ["ALLOW READ alice orders-copy"], sync=REMOVING)) == [
        (Act.ADD_ACL, "ALLOW READ to User:bob on topic orders-copy"),
        (Act.REMOVE_ACL, "ALLOW READ to User:alice on topic orders-copy"),
    ]
    narrower = facts(["ALLOW READ bob orders @10.0.0.1"], ["ALLOW READ bob orders-copy"], sync=REMOVING)
    assert found(narrower) == [
        (Act.ADD_ACL, "ALLOW READ to User:bob from 10.0.0.1 on topic orders-copy"),
        (Act.REMOVE_ACL, "ALLOW READ to User:bob on topic orders-copy"),
    ]
    denied = facts(["DENY READ * orders", "ALLOW READ bob orders"], ["ALLOW READ alice orders-copy"], sync=REMOVING)
    assert [act for act, _ in found(denied)] == [Act.REFUSE] * 3


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (["DENY WRITE * orders"], [(Act.REFUSE, "DENY WRITE")]),
        (["DENY ALL mirror orders"], [(Act.REFUSE, "DENY ALL")]),
        (["DENY READ * orders", "ALLOW READ bob orders"], [(Act.REFUSE, "DENY READ"), (Act.REFUSE, "ALLOW READ")]),
        (["DENY WRITE * orders", "ALLOW READ bob orders"], [(Act.REFUSE, "DENY WRITE"), (Act.ADD_ACL, "ALLOW READ")]),
        (
            ["DENY READ mirror orders", "ALLOW READ bob orders"],
            [(Act.REFUSE, "DENY READ"), (Act.ADD_ACL, "ALLOW READ")],
        ),
        (["DENY READ mirror orders", "ALLOW READ * orders"], [(Act.REFUSE, "DENY READ"), (Act.REFUSE, "ALLOW READ")]),
        (["DENY 77 bob orders", "ALLOW READ bob orders"], [(Act.REFUSE, "DENY 77"), (Act.REFUSE, "ALLOW READ")]),
        (["ALLOW 77 bob orders"], []),
        (["DENY READ bob orders", "ALLOW READ * orders"], [(Act.ADD_ACL, "DENY READ"), (Act.ADD_ACL, "ALLOW READ")]),
    ],
)
def test_a_deny_that_cannot_be_carried_keeps_what_it_denies_from_being_allowed(
    source: list[str], expected: list[tuple[Act, str]]
) -> None:
    given_facts = replace(facts(source), own=frozenset({"User:mirror"}))

    assert [(act, text.split(" to ")[0]) for act, text in found(given_facts)] == expected


@pytest.mark.parametrize(
    "change", [{"is_shared": True}, {"is_blocked": True}, {"sync": TopicSync(acls=SyncMode.REPORT)}]
)
def test_what_is_only_reported_is_never_done(change: dict[str, bool | TopicSync]) -> None:
    source = ["ALLOW READ alice orders", "DENY WRITE * orders"]
    given_facts = replace(facts(source, ["ALLOW READ carol orders-copy"]), **change)  # type: ignore[arg-type]

    assert {act for act, _ in found(given_facts)} == {Act.REPORT}
    assert len(found(given_facts)) == 3


@pytest.mark.parametrize("where", ["GROUP:readers", "GROUP:read…", "GROUP:*"])
@pytest.mark.parametrize(
    ("given_rule", "expected"),
    [
        ("ALLOW READ", ["ALLOW READ"]),
        ("ALLOW ALL", ["ALLOW READ", "ALLOW DESCRIBE"]),
        ("ALLOW DELETE", []),
        ("DENY DELETE", ["DENY DELETE"]),
        ("DENY ALL", ["DENY ALL"]),
    ],
)
def test_groups_keep_their_names_and_their_patterns(where: str, given_rule: str, expected: list[str]) -> None:
    one = rule(f"{given_rule} alice {where}")
    given_facts = AclFacts(source=frozenset([one, rule("ALLOW READ bob orders")]), held=frozenset(), sync=APPLY)

    differences = acl_differences_of(given_facts)

    assert {(each.acl.name, each.acl.pattern) for each in differences} <= {(one.name, one.pattern)}
    assert sorted(f"{each.acl.permission} {each.acl.operation}" for each in differences) == sorted(expected)
    held = frozenset(each.acl for each in differences) | {rule("ALLOW READ carol GROUP:own")}
    assert acl_differences_of(replace(given_facts, held=held)) == []


def test_the_first_rule_of_a_topic_says_what_it_may_close() -> None:
    first = acl_differences_of(facts(["ALLOW READ alice orders"]))
    second = acl_differences_of(facts(["ALLOW READ alice orders"], ["ALLOW WRITE mirror *"]))

    assert ["allow.everyone.if.no.acl.found" in each.difference.note for each in (*first, *second)] == [True, False]


def test_usual_operations_change_nothing() -> None:
    assert TopicSync().acls is SyncMode.OFF
    assert TopicSync().acl_operations == READING
    assert [each.value for each in READING] == READING_NAMES
    wanted = wanted_of_topic([rule("ALLOW ALL alice orders")], "orders", "copy", set(READING_NAMES))
    assert not any(opposes(rule("DENY WRITE alice copy"), acl) for acl in wanted)


def row(act: Act, text: str) -> AclRow:
    destination = load(kafka()).mirrors[0].destinations[0]
    assert isinstance(destination, KafkaDestination)
    difference = Difference(what="acl", act=act)
    return AclRow(mirror="m", destination=destination, topic="orders", to="copy", difference=difference, acl=rule(text))


@pytest.mark.parametrize(
    ("new", "left"),
    [
        (None, ["ALLOW READ alice copy", "ALLOW READ bob copy"]),
        ("ALLOW READ carol copy", ["ALLOW READ alice copy", "ALLOW READ bob copy"]),
        ("DENY READ alice copy", ["ALLOW READ bob copy"]),
        ("DENY ALL alice copy", ["ALLOW READ bob copy"]),
        ("DENY WRITE alice copy", ["ALLOW READ alice copy", "ALLOW READ bob copy"]),
        ("DENY READ alice other", ["ALLOW READ alice copy", "ALLOW READ bob copy"]),
        ("DENY READ alice GROUP:copy", ["ALLOW READ alice copy", "ALLOW READ bob copy"]),
    ],
)
def test_a_deny_that_nobody_was_shown_is_not_done_and_neither_is_what_it_denies(
    new: str | None, left: list[str]
) -> None:
    seen = [row(Act.ADD_ACL, "ALLOW READ alice copy"), row(Act.ADD_ACL, "ALLOW READ bob copy")]
    now = [*seen, *([row(Act.ADD_ACL, new)] if new else [])]

    assert [each.acl for each in as_shown(now, {each.key for each in seen})] == [rule(text) for text in left]


@pytest.mark.parametrize(
    ("failed", "now", "expected"),
    [
        (False, [], "done"),
        (True, [], "failed"),
        (False, [row(Act.ADD_ACL, "ALLOW READ alice copy")], "failed"),
        (False, [row(Act.REPORT, "ALLOW READ alice copy")], "done"),
        (False, [replace(row(Act.UNKNOWN, "ALLOW READ alice copy"), acl=None)], "unknown"),
    ],
)
def test_what_became_of_a_rule(failed: bool, now: list[AclRow], expected: str) -> None:
    planned = row(Act.ADD_ACL, "ALLOW READ alice copy")
    errors = {planned.key: UnsupportedError("no")} if failed else {}

    (result,) = acl_results([planned], errors, now, ("done", "failed", "unknown"))

    assert result.result == expected
    assert (result.difference.error is None) is (expected == "done")


@pytest.mark.parametrize("side", ["source", "destination", "both"])
@pytest.mark.parametrize("code", [31, 54])
def test_what_could_not_be_read_is_unknown_and_nothing_is_done_on_that_ground(side: str, code: int) -> None:
    config = load(kafka(destination=", sync: {acls: apply, acl-groups: true, acl-removals: true}"))
    mirror = config.mirrors[0]
    destination = mirror.destinations[0]
    assert isinstance(destination, KafkaDestination)
    topic = TopicFacts(
        mirror=mirror,
        destination=destination,
        topic="orders",
        name="orders",
        source=SourceTopic(name="orders", topic_id="", is_internal=False, partitions=frozenset({0})),
        source_configs={},
        held_configs={},
    )
    error = error_for(code, what="DescribeAcls")
    rules: Rules = {
        (cluster, kind): error if side in (of, "both") else frozenset([rule("ALLOW READ alice orders")])
        for cluster, of in (("east", "source"), ("west", "destination"))
        for kind in ("TOPIC", "GROUP")
    }

    rows = acl_rows([topic], [topic], rules)

    assert [(each.difference.act, each.is_open, each.is_act) for each in rows] == [(Act.UNKNOWN, True, False)] * 2
    assert all(str(error) == each.as_json()["error"] for each in rows)
