"""Access rules of a broker that has an authorizer."""

from collections.abc import Mapping, Sequence

from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

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
