"""Which ACLs a copy is to have, given those of its source. Pure.

Sources: ``StandardAuthorizerData`` of Apache Kafka 4.3.0 (a literal ``*`` and a prefix reach a resource beside its own
name; a DENY goes before every ALLOW) and KIP-290.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mirrorlake.kafka.control.acls import OPERATIONS, WILDCARD, Acl

ALLOW, DENY = "ALLOW", "DENY"
TOPIC, GROUP = "TOPIC", "GROUP"
LITERAL, PREFIXED = "LITERAL", "PREFIXED"
ALL = "ALL"
EVERYBODY = "User:*"
EVERY_HOST = "*"

GROUP_OPERATIONS = frozenset({"READ", "DESCRIBE"})
"""What is carried of a group's ALLOW rules: what a consumer needs."""

Wanted = Mapping[Acl, tuple[Acl, ...]]
"""Rules that a destination is to have, each with those of the source that it comes from."""


def text_of(acl: Acl) -> str:
    """Returns a rule as people read it."""
    where = f"{acl.pattern} {acl.name}" if acl.pattern == PREFIXED or acl.name == WILDCARD else acl.name
    host = "" if acl.host == EVERY_HOST else f" from {acl.host}"
    return f"{acl.permission} {acl.operation} to {acl.principal}{host} on {acl.resource_type.lower()} {where}"


def reaches(acl: Acl, resource_type: str, name: str) -> bool:
    """Tells whether a rule holds for a resource: by its name, by the beginning of it, or as every one of its type."""
    if acl.resource_type != resource_type:
        return False
    if acl.pattern == PREFIXED:
        return name.startswith(acl.name)
    return acl.pattern == LITERAL and acl.name in (name, WILDCARD)


def wanted_of_topic(source: Iterable[Acl], topic: str, name: str, operations: Collection[str]) -> Wanted:
    """Returns the rules that a copy is to have: all that hold for its source, each under the copy's own name.

    Args:
        source: rules of the source cluster.
        topic: of the source.
        name: of the copy.
        operations: what is carried of ALLOW rules; an ALLOW of ALL becomes these. A DENY is carried as it is.
    """
    found: dict[Acl, tuple[Acl, ...]] = {}
    for acl in sorted(source):
        if not reaches(acl, TOPIC, topic):
            continue
        for operation in carried(acl, operations):
            copy = replace(acl, name=name, pattern=LITERAL, operation=operation)
            found[copy] = (*found.get(copy, ()), acl)
    return found


def wanted_of_groups(source: Iterable[Acl]) -> Wanted:
    """Returns the rules of groups that a destination is to have; groups keep their names, so rules keep theirs."""
    found: dict[Acl, tuple[Acl, ...]] = {}
    for acl in sorted(source):
        if acl.resource_type != GROUP:
            continue
        for operation in carried(acl, GROUP_OPERATIONS):
            copy = replace(acl, operation=operation)
            found[copy] = (*found.get(copy, ()), acl)
    return found


def carried(acl: Acl, operations: Collection[str]) -> list[str]:
    """Returns the operations that a rule becomes at a destination; none where it is left out."""
    if acl.permission != ALLOW:
        return [acl.operation]
    if acl.operation == ALL:
        return sorted(operations, key=OPERATIONS.__getitem__)
    return [acl.operation] if acl.operation in operations else []


def is_held(acl: Acl, held: Iterable[Acl]) -> bool:
    """Tells whether what a rule says is said already, by itself or by a wider one of the same permission."""
    return any(_includes(each, acl) for each in held)


def _includes(wide: Acl, acl: Acl) -> bool:
    return (
        wide.permission == acl.permission
        and wide.operation in (acl.operation, ALL)
        and wide.principal in (acl.principal, EVERYBODY)
        and wide.host in (acl.host, EVERY_HOST)
        and _includes_name(wide, acl)
    )


def _includes_name(wide: Acl, acl: Acl) -> bool:
    if wide.resource_type != acl.resource_type:
        return False
    if (wide.pattern, wide.name) in ((acl.pattern, acl.name), (LITERAL, WILDCARD)):
        return True
    is_every = acl.pattern == LITERAL and acl.name == WILDCARD
    return wide.pattern == PREFIXED and not is_every and acl.name.startswith(wide.name)


def opposes(deny: Acl, allow: Acl) -> bool:
    """Tells whether some of what a rule allows is denied by another."""
    return (
        (deny.operation in (ALL, allow.operation) or not deny.is_known)
        and (deny.principal in (allow.principal, EVERYBODY) or allow.principal == EVERYBODY)
        and (deny.host in (allow.host, EVERY_HOST) or allow.host == EVERY_HOST)
    )


def may_meet(one: Acl, other: Acl) -> bool:
    """Tells whether some resource may be reached by both rules: of prefixes one may lie within the other."""
    if one.resource_type != other.resource_type:
        return False
    if WILDCARD in (one.name, other.name):
        return True
    if one.pattern == other.pattern == LITERAL:
        return one.name == other.name
    return one.name.startswith(other.name) or other.name.startswith(one.name)
