"""What is done to ACLs where some of it fails."""

import asyncio
from dataclasses import replace

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.acls import Acl
from mirrorlake.topics.acls.applying import remove_acls
from mirrorlake.topics.acls.plan import AclRow, Key
from mirrorlake.topics.sync.differences import Act, Difference

FILE = (
    b"clusters: {east: {bootstrap-servers: 'localhost:1'}, west: {bootstrap-servers: 'localhost:2'}}\n"
    b"mirrors: [{name: m, source: {cluster: east, topics: [a]}, destinations: [{type: kafka, cluster: west}]}]\n"
)
READ = Acl(
    resource_type="TOPIC",
    name="a",
    pattern="LITERAL",
    principal="User:ann",
    host="*",
    operation="READ",
    permission="ALLOW",
)


def row(acl: Acl, act: Act) -> AclRow:
    destination = parse_configuration(FILE, file="m.yaml", environ={}).mirrors[0].destinations[0]
    assert isinstance(destination, KafkaDestination)
    difference = Difference(what="acl", act=act)
    return AclRow(mirror="m", destination=destination, topic="a", to=acl.name, difference=difference, acl=acl)


def test_nothing_is_removed_from_a_topic_that_lacks_a_rule_which_was_to_be_added() -> None:
    added = row(replace(READ, principal="User:bob"), Act.ADD_ACL)
    here, elsewhere = row(READ, Act.REMOVE_ACL), row(replace(READ, name="b"), Act.REMOVE_ACL)
    failed: dict[Key, MirrorlakeError] = {added.key: BrokerNotReadyError("away")}

    async def removed(rows: list[AclRow]) -> dict[Key, str]:
        clients = WorkerCache()
        try:
            return {key: str(why) for key, why in (await remove_acls(rows, clients, failed=failed)).items()}
        finally:
            await clients.close()

    kept = asyncio.run(removed([added, here]))
    assert list(kept) == [here.key]
    assert "it was not removed, as a rule" in kept[here.key]
    asked = asyncio.run(removed([added, elsewhere]))
    assert "localhost:2" in asked[elsewhere.key], "it is tried, where nobody answers"
