"""Access rules of a broker that has an authorizer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from support.copies import wait_until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Broker properties. A resource with any rule allows what its rules allow; one without allows everything."""


def allow_only(servers: str, topics: Mapping[str, Sequence[str]]) -> None:
    """Lets everyone do nothing but the named operations with these topics; nobody may create one of these names."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        rules = [
            _allow(ResourceType.TOPIC, topic, operation) for topic, allowed in topics.items() for operation in allowed
        ]
        # Without the right to create on the cluster it is each topic's own rules that count.
        rules += [
            _allow(ResourceType.CLUSTER, "kafka-cluster", operation)
            for operation in ("CLUSTER_ACTION", "DESCRIBE", "IDEMPOTENT_WRITE", "ALTER", "DESCRIBE_CONFIGS")
        ]
        assert not admin.create_acls(rules)["failed"]
    finally:
        admin.close()


def _allow(kind: ResourceType, name: str, operation: str) -> ACL:
    return ACL(
        principal="User:ANONYMOUS",
        host="*",
        operation=ACLOperation[operation],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind, name),
    )


@dataclass(frozen=True)
class Right:
    """One access rule, by Kafka's names: ``kind`` is TOPIC, TRANSACTIONAL_ID or CLUSTER."""

    kind: str
    name: str
    operation: str
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'*' if self.is_prefix else ''}"


def grant_exactly(servers: str, user: str, rights: Iterable[Right]) -> None:
    """Takes every right of a user away and gives it these; returns when the broker's authorizer has them."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    wanted = [_rule(user, right) for right in rights]
    everything = ACLFilter(
        principal=f"User:{user}",
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    try:
        admin.delete_acls([everything])
        if wanted:
            assert not admin.create_acls(wanted)["failed"]
        # The broker's authorizer follows the controller's log a moment later, and answers from what it knows.
        expected = set(map(_content, wanted))
        wait_until(lambda: set(map(_content, admin.describe_acls(everything)[0])) == expected, f"the rights of {user}")
    finally:
        admin.close()


@dataclass(frozen=True, order=True)
class TopicRule:
    """One rule of a topic, by Kafka's names; ``name`` with ``*`` behind it is the beginning of names."""

    permission: str
    operation: str
    user: str
    name: str
    host: str = "*"

    @property
    def acl(self) -> ACL:
        is_prefix = len(self.name) > 1 and self.name.endswith("*")
        pattern = ACLResourcePatternType.PREFIXED if is_prefix else ACLResourcePatternType.LITERAL
        name = self.name.removesuffix("*") if is_prefix else self.name
        return ACL(
            principal=f"User:{self.user}",
            host=self.host,
            operation=ACLOperation[self.operation],
            permission_type=ACLPermissionType[self.permission],
            resource_pattern=ResourcePattern(ResourceType.TOPIC, name, pattern),
        )


def rules_of(servers: str, topic: str) -> set[TopicRule]:
    """The rules of a topic's own name, as kafka-python reads them."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    wanted = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL),
    )
    try:
        return {
            TopicRule(
                permission=found.permission_type.name,
                operation=found.operation.name,
                user=found.principal.removeprefix("User:"),
                name=topic,
                host=found.host,
            )
            for found in admin.describe_acls(wanted)[0]
        }
    finally:
        admin.close()


def add_rules(servers: str, rules: Iterable[TopicRule]) -> None:
    """Adds rules; returns when the broker's authorizer has those that are of a topic's own name."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        assert not admin.create_acls([rule.acl for rule in rules])["failed"]
    finally:
        admin.close()
    for rule in rules:
        if not rule.name.endswith("*"):
            wait_until(partial(_is_there, servers, rule), f"the rule {rule}")


def take_rules(servers: str, rules: Iterable[TopicRule]) -> None:
    """Removes rules of topics' own names; returns when the broker's authorizer has them no more."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        for rule in rules:
            acl = rule.acl
            pattern = ResourcePatternFilter(ResourceType.TOPIC, rule.name, ACLResourcePatternType.LITERAL)
            exactly = ACLFilter(acl.principal, acl.host, acl.operation, acl.permission_type, pattern)
            admin.delete_acls([exactly])
    finally:
        admin.close()
    for rule in rules:
        wait_until(partial(_is_gone, servers, rule), f"the end of {rule}")


def _is_there(servers: str, rule: TopicRule) -> bool:
    return rule in rules_of(servers, rule.name)


def _is_gone(servers: str, rule: TopicRule) -> bool:
    return not _is_there(servers, rule)


def _content(rule: ACL) -> tuple[object, ...]:
    pattern = rule.resource_pattern
    return pattern.resource_type, pattern.resource_name, pattern.pattern_type, rule.operation


def _rule(user: str, right: Right) -> ACL:
    pattern = ACLResourcePatternType.PREFIXED if right.is_prefix else ACLResourcePatternType.LITERAL
    return ACL(
        principal=f"User:{user}",
        host="*",
        operation=ACLOperation[right.operation],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType[right.kind], right.name, pattern),
    )
