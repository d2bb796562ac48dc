"""ACLs against a real authorizer: a rule that the brokers refuse, and what is not allowed because of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.acls import Acl
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.acls.applying import add_acls
from mirrorlake.topics.acls.plan import AclRow, Key
from mirrorlake.topics.sync.differences import Act, Difference
from support.acls import TopicRule, add_rules, rules_of
from support.command import write_yaml
from support.copies import create_topic, wait_until
from support.records import settings_of
from support.running_service import RunningService
from support.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka


def destination(servers: str) -> KafkaDestination:
    text = (
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}, west: {{bootstrap-servers: "{servers}"}}}}\n'
        "mirrors:\n  - name: m\n    source: {cluster: east, topics: [a]}\n"
        '    destinations: [{type: kafka, cluster: west, topic: "{topic}-copy"}]\n'
    )
    found = parse_configuration(text.encode(), file="test.yaml", environ={}).mirrors[0].destinations[0]
    assert isinstance(found, KafkaDestination)
    return found


def test_a_rule_is_there_however_often_it_is_made_and_gone_however_often_it_is_deleted(
    secured_kafka: SecuredKafka, topic_name: str, run_async: RunAsync
) -> None:
    acl = Acl(
        resource_type="TOPIC",
        name=topic_name,
        pattern="PREFIXED",
        principal="User:ann",
        host="10.0.0.1",
        operation="READ",
        permission="DENY",
    )
    others = [replace(acl, resource_type="GROUP"), replace(acl, pattern="LITERAL", operation="ALL")]

    async def scene() -> list[bool]:
        async with ClusterClient(settings_of(secured_kafka.bootstrap_servers)) as client:
            made = [await client.acls.create([acl, *others]) for _ in range(2)]
            seen = [acl in await client.acls.describe("TOPIC"), others[0] in await client.acls.describe("GROUP")]
            gone = [await client.acls.delete([acl, others[0]]) for _ in range(2)]
            assert made == [dict.fromkeys([acl, *others])] * 2
            assert gone == [dict.fromkeys([acl, others[0]])] * 2
            rest = await client.acls.describe("TOPIC")
            await client.acls.delete(others)
            return [*seen, acl in rest, others[1] in rest]

    assert run_async(scene()) == [True, True, False, True]


def test_an_allow_is_not_added_where_the_brokers_refuse_the_deny_beside_it(
    secured_kafka: SecuredKafka, topic_name: str, run_async: RunAsync
) -> None:
    def row(permission: str, operation: str, principal: str) -> AclRow:
        acl = Acl(
            resource_type="TOPIC",
            name=topic_name,
            pattern="LITERAL",
            principal=principal,
            host="*",
            operation=operation,
            permission=permission,
        )
        return AclRow(
            mirror="m",
            destination=destination(secured_kafka.bootstrap_servers),
            topic="a",
            to=topic_name,
            difference=Difference(what="acl", act=Act.ADD_ACL),
            acl=acl,
        )

    refused = row("DENY", "READ", "no principal has such a name")
    everybody, ann = row("ALLOW", "READ", "User:*"), row("ALLOW", "READ", "User:ann")

    async def scene() -> tuple[dict[Key, MirrorlakeError], frozenset[Acl]]:
        clients = WorkerCache()
        try:
            failed = await add_acls([ann, everybody, refused], clients)
        finally:
            await clients.close()
        async with ClusterClient(settings_of(secured_kafka.bootstrap_servers)) as client:
            there = await client.acls.describe("TOPIC")
            if ann.acl is not None:
                await client.acls.delete([ann.acl])
        return failed, frozenset(acl for acl in there if acl.name == topic_name)

    failed, there = run_async(scene())

    assert set(failed) == {refused.key, everybody.key}
    assert "DENY READ to no principal has such a name" in str(failed[everybody.key])
    assert there == {ann.acl}


def test_a_topic_that_a_service_makes_gets_the_rules_of_its_source(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, f"made{abs(hash(topic_name))}"
    create_topic(servers, topic, 1)
    add_rules(servers, [TopicRule("ALLOW", "READ", "ann", topic), TopicRule("ALLOW", "WRITE", "ann", topic)])
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}}}\n'
        f'mirrors: [{{name: "{topic}", source: {{cluster: east, topics: [{topic}]}}, destinations: '
        '[{type: kafka, cluster: east, topic: "copy.{topic}", sync: {acls: apply, interval: 1s}}]}]\n'
        "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB}\n",
    )
    with RunningService(config) as running:
        wanted = {TopicRule("ALLOW", "READ", "ann", f"copy.{topic}")}
        wait_until(lambda: rules_of(servers, f"copy.{topic}") == wanted, "the rules of the new topic")
        running.await_states("caught-up", partitions=1)
        add_rules(servers, [TopicRule("DENY", "READ", "ben", topic)])
        wanted |= {TopicRule("DENY", "READ", "ben", f"copy.{topic}")}
        wait_until(lambda: rules_of(servers, f"copy.{topic}") == wanted, "a rule that came later")
