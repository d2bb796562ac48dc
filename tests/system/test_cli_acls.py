"""``topics plan``, ``diff`` and ``apply`` about ACLs, as processes, against brokers with and without an authorizer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.security import SaslMechanism, SecurityProtocol
from support.acls import AUTHORIZER, Right, TopicRule, add_rules, grant_exactly, rules_of, take_rules
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, SecuredKafka

pytestmark = pytest.mark.kafka

LOGIN = (
    ", properties: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, "
    f"sasl.username: {LIMITED}, sasl.password: '${{LIMITED_PASSWORD}}'}}"
)


def write(folder: Path, clusters: tuple[str, str], topic: str, sync: str, *, template: str, login: str = "") -> Path:
    east, west = clusters
    return write_yaml(
        folder / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"{login}}}}}\n'
        f"mirrors:\n  - name: m\n    source: {{cluster: east, topics: [{topic}]}}\n"
        f'    destinations: [{{type: kafka, cluster: west, topic: "{template}", sync: {{{sync}}}}}]\n',
    )


def topics(verb: str, config: Path, *more: str) -> Ended:
    environ = {"LIMITED_PASSWORD": LIMITED_PASSWORD}
    return mirrorlake("topics", verb, "-c", config, "--format", "json", *more, environ=environ)


def shown(ended: Ended, users: Sequence[str]) -> set[tuple[str, str]]:
    """What becomes of which rule, of those that speak of these users."""
    rows = [row for row in ended.rows() if row["what"] == "acl"]
    texts = [(row.get("result") or row["action"], row["wanted"], row["found"]) for row in rows]
    named = [(act, found if wanted in (None, "none") else wanted) for act, wanted, found in texts]
    return {(act, text) for act, text in named if text and any(f"User:{user} " in f"{text} " for user in users)}


def rights_of(kafka: SecuredKafka, topic: str) -> frozenset[str]:
    """What the limited user may do with a topic, as the broker says."""

    async def ask() -> frozenset[str]:
        security = kafka.sasl(
            SaslMechanism.PLAIN, user=LIMITED, password=LIMITED_PASSWORD, protocol=SecurityProtocol.SASL_PLAINTEXT
        )
        settings = ClusterSettings(name="limited", bootstrap_servers=(kafka.servers("CLEAR"),), security=security)
        async with ClusterClient(settings) as client:
            return (await client.topics.rights([topic])).get(topic, frozenset())

    return asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.parametrize("template", ["west.{topic}.copy", "west.{topic}"])
def test_a_copy_gets_the_rules_of_its_source_but_for_writing_and_the_second_time_nothing(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path, template: str
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, f"t{abs(hash((topic_name, template)))}"
    copy = template.replace("{topic}", topic)
    users = [LIMITED, *(f"{name}{topic}" for name in ("ann", "cat", "dan", "eve"))]
    ann, cat, dan, eve = users[1:]
    create_topic(servers, topic, 1)
    create_topic(servers, copy, 1, message_timestamp_type="CreateTime")
    grant_exactly(servers, LIMITED, [])
    held = {TopicRule("ALLOW", "READ", eve, copy), TopicRule("DENY", "READ", dan, copy)}
    source = [
        TopicRule("ALLOW", "ALL", LIMITED, topic),
        TopicRule("ALLOW", "WRITE", ann, topic),
        TopicRule("ALLOW", "READ", ann, f"{topic[:-1]}*"),
        TopicRule("DENY", "ALL", cat, topic, host="10.0.0.1"),
        TopicRule("ALLOW", "ALTER", cat, topic),
    ]
    add_rules(servers, [*source, *held])
    config = write(tmp_path, (servers, servers), topic, "acls: apply", template=template)
    expected = {
        f"ALLOW READ to User:{LIMITED} on topic {copy}",
        f"ALLOW DESCRIBE to User:{LIMITED} on topic {copy}",
        f"ALLOW DESCRIBE_CONFIGS to User:{LIMITED} on topic {copy}",
        f"ALLOW READ to User:{ann} on topic {copy}",
        f"DENY ALL to User:{cat} from 10.0.0.1 on topic {copy}",
    }
    left = {
        ("report", f"ALLOW READ to User:{eve} on topic {copy}"),
        ("report", f"DENY READ to User:{dan} on topic {copy}"),
    }

    planned, differing = topics("plan", config), topics("diff", config)
    assert (planned.code, differing.code) == (0, 1), planned.err
    assert shown(planned, users) == shown(differing, users) == {("add ACL", each) for each in expected} | left
    assert rules_of(servers, copy) == held, "a plan changes nothing"
    assert rights_of(secured_kafka, copy) == frozenset()

    applied = topics("apply", config, "--yes")
    assert applied.code == 0, applied.err
    assert shown(applied, users) == {("done", each) for each in expected} | left
    own = [TopicRule("ALLOW", each, LIMITED, copy) for each in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")]
    more = [TopicRule("ALLOW", "READ", ann, copy), TopicRule("DENY", "ALL", cat, copy, host="10.0.0.1")]
    assert rules_of(servers, copy) == {*held, *own, *more}
    assert rights_of(secured_kafka, copy) == {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    assert "WRITE" in rights_of(secured_kafka, topic)

    again = topics("apply", config, "--yes")
    assert (again.code, shown(again, users)) == (0, left)

    take_rules(servers, [TopicRule("ALLOW", "ALL", LIMITED, topic), *more[:1]])
    drifted = {("report", text) for text in expected if f"User:{LIMITED} " in text} | left
    assert shown(topics("diff", config), users) == drifted | {("add ACL", f"ALLOW READ to User:{ann} on topic {copy}")}
    removing = write(tmp_path, (servers, servers), topic, "acls: apply, acl-removals: true", template=template)
    assert topics("apply", removing, "--yes").code == 0
    assert rules_of(servers, copy) == {TopicRule("DENY", "READ", dan, copy), *more}
    assert rights_of(secured_kafka, copy) == frozenset()


@pytest.mark.parametrize("without", ["source", "destination", "both"])
def test_a_cluster_without_an_authorizer_is_unknown_and_not_without_rules(
    secured_kafka: SecuredKafka, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, without: str
) -> None:
    topic, copy = f"t{abs(hash((topic_name, without)))}", f"t{abs(hash((topic_name, without)))}-copy"
    open_servers, servers = source_kafka.bootstrap_servers, secured_kafka.bootstrap_servers
    east = servers if without == "destination" else open_servers
    west = servers if without == "source" else open_servers
    create_topic(east, topic, 1)
    create_topic(west, copy, 1, message_timestamp_type="CreateTime")
    held = {TopicRule("ALLOW", "READ", f"x{topic}", copy), TopicRule("ALLOW", "READ", f"y{topic}", copy)}
    if without == "source":
        add_rules(servers, held)
    config = write(tmp_path, (east, west), topic, "acls: apply, acl-removals: true", template="{topic}-copy")

    ended = topics("apply", config, "--yes")

    assert ended.code == 1
    rows = [(row["what"], row["action"]) for row in ended.rows()]
    assert rows == [("acl", "unknown")] * (2 if without == "both" else 1)
    assert all("SECURITY_DISABLED" in row["error"] for row in ended.rows())
    table = mirrorlake("topics", "plan", "-c", config)
    assert (table.code, "SECURITY_DISABLED" in table.out + table.err) == (1, True)
    assert "None" not in table.out + table.err
    assert without != "source" or rules_of(servers, copy) == held, "nothing is removed on that ground"


@pytest.mark.parametrize(
    ("operations", "expected", "code"),
    [((), "unknown", 1), (("DESCRIBE",), "refused", 1), (("ALTER",), "done", 0)],
    ids=str,
)
def test_a_user_without_rights_to_rules_says_so_and_sets_none(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path, operations: tuple[str, ...], expected: str, code: int
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, f"t{abs(hash((topic_name, operations)))}"
    copy = f"{topic}-copy"
    create_topic(servers, topic, 1)
    create_topic(servers, copy, 1, message_timestamp_type="CreateTime")
    rights = [Right("TOPIC", "mirrorlake.state", "READ")]
    rights += [Right("TOPIC", copy, each) for each in ("DESCRIBE", "DESCRIBE_CONFIGS")]
    grant_exactly(servers, LIMITED, [*rights, *(Right("CLUSTER", "kafka-cluster", each) for each in operations)])
    user = f"ann{topic}"
    add_rules(servers, [TopicRule("ALLOW", "READ", user, topic)])
    clusters = servers, secured_kafka.servers("CLEAR")
    config = write(tmp_path, clusters, topic, "acls: apply", template="{topic}-copy", login=LOGIN)

    planned, ended = topics("plan", config), topics("apply", config, "--yes")

    told = {row["action"] for row in planned.rows() if row["what"] == "acl"}
    assert (told, planned.code) == ({"add ACL" if expected == "done" else expected}, code), "a plan says so before"
    acls = [row for row in ended.rows() if row["what"] == "acl"]
    assert {row.get("result", row["action"]) for row in acls} == {expected}
    assert ended.code == code, ended.out
    for row in acls:
        assert ("error" in row) is (expected != "done")
        why = "grant it ALTER on the cluster" if expected == "refused" else "CLUSTER_AUTHORIZATION_FAILED"
        assert why in row.get("error", why)
    rule = TopicRule("ALLOW", "READ", user, copy)
    assert (rule in rules_of(servers, copy)) is (expected == "done")
    grant_exactly(servers, LIMITED, [])


@pytest.mark.slow
def test_a_deny_of_everybody_is_refused_and_two_sources_of_one_topic_are_only_reported(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, f"t{abs(hash(topic_name))}"
    for name in (f"{topic}a", f"{topic}b", f"{topic}c"):
        create_topic(servers, name, 1)
    for name in (f"all.{topic}", f"west.{topic}c"):
        create_topic(servers, name, 1, message_timestamp_type="CreateTime")
    user = f"ann{topic}"
    add_rules(servers, [TopicRule("ALLOW", "READ", user, f"{topic}{each}") for each in "abc"])
    add_rules(servers, [TopicRule("DENY", "READ", "*", f"{topic}c")])
    shared = f'{{type: kafka, cluster: west, topic: "all.{topic}", offsets: map, sync: {{acls: apply}}}}'
    single = '{type: kafka, cluster: west, topic: "west.{topic}", sync: {acls: apply}}'
    mirrors = "".join(
        f"  - {{name: {each}, source: {{cluster: east, topics: [{topic}{each}]}}, destinations: [{where}]}}\n"
        for each, where in (("a", shared), ("b", shared), ("c", single))
    )
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}, west: {{bootstrap-servers: "{servers}"}}}}\n'
        f"mirrors:\n{mirrors}",
    )

    whole, one = topics("apply", config, "--yes"), topics("apply", config, "--yes", "--mirror", "a")

    expected = {
        ("report", f"ALLOW READ to User:{user} on topic all.{topic}"),
        ("refused", f"DENY READ to User:* on topic west.{topic}c"),
        ("refused", f"ALLOW READ to User:{user} on topic west.{topic}c"),
    }
    assert shown(whole, [user, "*"]) >= expected, whole.out
    assert whole.code == 1
    assert shown(one, [user]) == {("report", f"ALLOW READ to User:{user} on topic all.{topic}")}
    assert rules_of(servers, f"all.{topic}") == rules_of(servers, f"west.{topic}c") == set()
    table = mirrorlake("topics", "plan", "-c", config)
    assert (table.code, "error c " in table.out + table.err) == (1, True)
    take_rules(servers, [TopicRule("DENY", "READ", "*", f"{topic}c")])


@pytest.mark.slow
def test_rules_of_topics_and_groups_travel_to_another_cluster_and_back(
    secured_kafka: SecuredKafka, kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    topic = f"t{abs(hash(topic_name))}"
    user, group = f"ann{topic}", f"readers-{topic}"
    servers = secured_kafka.bootstrap_servers
    create_topic(servers, topic, 1)
    sync = "acls: apply, acl-groups: true"
    rights = [Right("TOPIC", topic, "ALL"), Right("GROUP", group, "ALL"), Right("GROUP", "read", "DESCRIBE", True)]
    grant_exactly(servers, user, rights)
    with EmbeddedKafka(tmp_path / "kafka", libs=kafka_libs, properties=AUTHORIZER) as other:
        west = other.bootstrap_servers
        # mirrorlake logs in as nobody: without these it could do nothing with a topic that has got its first rule.
        grant_exactly(west, "ANONYMOUS", [Right(kind, "*", "ALL") for kind in ("TOPIC", "GROUP")])
        there = write(tmp_path, (servers, west), topic, sync, template="{topic}-copy")
        applied = topics("apply", there, "--yes")
        diff = topics("diff", there)
        (tmp_path / "back").mkdir()
        back = write(tmp_path / "back", (west, servers), f"{topic}-copy", sync, template="back.{topic}")
        returned, again = topics("apply", back, "--yes"), topics("apply", back, "--yes")
        copy = {(rule.operation, rule.user) for rule in rules_of(west, f"{topic}-copy")}

    reading = {(operation, user) for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")}
    assert applied.code == 0, applied.out
    assert shown(applied, [user]) == {
        *(("done", f"ALLOW {each} to User:{user} on topic {topic}-copy") for each, _ in reading),
        *(("done", f"ALLOW {each} to User:{user} on group {group}") for each in ("READ", "DESCRIBE")),
        ("done", f"ALLOW DESCRIBE to User:{user} on group PREFIXED read"),
    }
    assert ("topic", "done") in {(row["what"], row.get("result")) for row in applied.rows()}
    assert copy == reading
    assert shown(diff, [user]) == set()
    of_topic = {("done", f"ALLOW {each} to User:{user} on topic back.{topic}-copy") for each, _ in reading}
    assert (returned.code, shown(returned, [user])) == (0, of_topic), "its groups are there already"
    assert {(rule.operation, rule.user) for rule in rules_of(servers, f"back.{topic}-copy")} >= reading
    assert (again.code, shown(again, [user])) == (0, set())
    for each in (user, "ANONYMOUS"):
        grant_exactly(servers, each, [])
