"""Which right is missing when a broker says no: operation and resource, by Kafka's names for both.

Sources: the operations ``KafkaApis`` of Apache Kafka 4.3.0 asks its authorizer for; READ, WRITE, DELETE and ALTER
include DESCRIBE (``AclAuthorizer`` and ``StandardAuthorizerData``).
"""

from collections.abc import Mapping
from typing import Final

TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53

_ON_TOPIC: Final = {
    "metadata": "DESCRIBE",
    "listoffsets": "DESCRIBE",
    "offsetforleaderepoch": "DESCRIBE",
    "producers": "READ",
    "describeproducers": "READ",
    "fetch": "READ",
    "produce": "WRITE",
    "append": "WRITE",
    "addpartitionstotxn": "WRITE",
    "createtopics": "CREATE",
    "createpartitions": "ALTER",
    "deletetopics": "DELETE",
    "deleterecords": "DELETE",
    "describeconfigs": "DESCRIBE_CONFIGS",
    "offsetfetch": "DESCRIBE",
    "offsetcommit": "READ",
}
_ON_GROUP: Final = {
    "findcoordinator": "DESCRIBE",
    "listgroups": "DESCRIBE",
    "describegroups": "DESCRIBE",
    "offsetfetch": "DESCRIBE",
    "offsetcommit": "READ",
}
_ON_CLUSTER: Final = {
    "createtopics": "CREATE",
    "initproducerid": "IDEMPOTENT_WRITE",
    "produce": "IDEMPOTENT_WRITE",
    "append": "IDEMPOTENT_WRITE",
    "describeacls": "DESCRIBE",
    "createacls": "ALTER",
    "deleteacls": "ALTER",
}


def missing_right(code: int, *, what: str, facts: Mapping[str, object]) -> str:
    """Returns what to grant, such as ``grant WRITE on topic orders``; empty where the code or request is another.

    Args:
        code: the broker's error code.
        what: what was refused; its first word is the API by Kafka's name, or ``append`` or ``fetch``.
        facts: of the error; the resource's name is taken from ``topic``, ``partition``, ``group`` or
            ``transactional_id``.
    """
    asked = what.partition(" ")[0].lower()
    if code == TOPIC_AUTHORIZATION_FAILED:
        operation, resource = _ON_TOPIC.get(asked), _topic(facts)
    elif code == GROUP_AUTHORIZATION_FAILED:
        operation, resource = _ON_GROUP.get(asked), f"group {facts.get('group', '')}".rstrip()
    elif code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        # Asking needs DESCRIBE only; but whoever asks here will write, and WRITE includes it.
        operation = "WRITE"
        resource = f"transactional id {facts.get('transactional_id', '')}".rstrip()
    elif code == CLUSTER_AUTHORIZATION_FAILED:
        operation, resource = _ON_CLUSTER.get(asked), "the cluster"
    else:
        return ""
    return f"grant {operation} on {resource} to this user" if operation else ""


def _topic(facts: Mapping[str, object]) -> str:
    topic = facts.get("topic")
    if topic is None and "partition" in facts:
        topic = str(facts["partition"]).rpartition("-")[0]
    return f"topic {topic}" if topic else "the topic"
