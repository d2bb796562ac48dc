"""What differs between the ACLs of a source and of a destination, and what is to be done about it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mirrorlake.config.topics.policy import SyncMode, TopicSync
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError, UnsupportedError
from mirrorlake.kafka.control.acls import Acl
from mirrorlake.topics.acls.rules import (
    ALLOW,
    DENY,
    EVERYBODY,
    LITERAL,
    TOPIC,
    Wanted,
    is_held,
    may_meet,
    opposes,
    reaches,
    text_of,
    wanted_of_groups,
    wanted_of_topic,
)
from mirrorlake.topics.sync.differences import Act, Difference

ACL = "acl"
FIRST_NOTE = (
    "the first ACL there: where the brokers set allow.everyone.if.no.acl.found its other users, mirrorlake too, need "
    "ACLs of their own from then on"
)
_SHARED_NOTE = "records of several sources come together here: who may read them is for you to say"
_BLOCKED_NOTE = "the topic is no copy as it is, so its ACLs are left"
_DENY_NOTE = "only the destination has it; a DENY is never removed"
_EXTRA_NOTE = "only the destination has it"
_MORE_NOTE = "more than such a user has from the source; it is left"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFacts:
    """The rules of both sides, and what of the destination they are compared for.

    Attributes:
        source: all rules of the source cluster, of one type of resource.
        held: all of the destination cluster, of the same type.
        sync: what the file says.
        topic: of the source; None where this is about groups.
        name: of the copy; empty where this is about groups.
        own: principals known to be mirrorlake's own at the destination.
        is_shared: whether records of other topics are copied there, too.
        is_blocked: whether the topic is no copy as it is.
    """

    source: frozenset[Acl]
    held: frozenset[Acl]
    sync: TopicSync
    topic: str | None = None
    name: str = ""
    own: frozenset[str] = frozenset()
    is_shared: bool = False
    is_blocked: bool = False

    @property
    def operations(self) -> frozenset[str]:
        """What is carried of ALLOW rules of topics."""
        return frozenset(each.value for each in self.sync.acl_operations)

    @property
    def wanted(self) -> Wanted:
        """The rules that the destination is to have."""
        if self.topic is None:
            return wanted_of_groups(self.source)
        return wanted_of_topic(self.source, self.topic, self.name, self.operations)

    @property
    def reaching(self) -> frozenset[Acl]:
        """Rules of the destination that hold for the copy."""
        return frozenset(acl for acl in self.held if reaches(acl, TOPIC, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDifference:
    """One difference, and the rule that it is about."""

    acl: Acl
    difference: Difference


def acl_differences_of(facts: AclFacts) -> list[AclDifference]:
    """Returns everything that differs: what is missing, DENY first, then what the destination alone has."""
    extra = _extra(facts)
    # What goes does not make up for what is missing. Rules are added first, and nothing is removed where that fails.
    missing = [*_missing(facts, facts.held - _removed(extra))]
    is_added = any(each.difference.act is Act.ADD_ACL for each in missing)
    found = [*missing, *_not_the_last(extra, facts, is_added=is_added)]
    note = _BLOCKED_NOTE if facts.is_blocked else _SHARED_NOTE if facts.is_shared else ""
    if facts.sync.acls is SyncMode.APPLY and not note:
        return found
    return [_only_reported(each, note) for each in found]


def _only_reported(each: AclDifference, note: str) -> AclDifference:
    difference = each.difference
    if difference.act is Act.REPORT:
        return each
    return replace(
        each, difference=replace(difference, act=Act.REPORT, error=None, note=note or _reason(difference.error))
    )


def _reason(error: MirrorlakeError | None) -> str:
    return "" if error is None else str(error)


def _missing(facts: AclFacts, held: frozenset[Acl]) -> Iterator[AclDifference]:
    """Yields what is missing of the rules that are wanted, beside those that are held and stay."""
    wanted = facts.wanted
    missing = [acl for acl in wanted if not is_held(acl, held)]
    refused: dict[Acl, MirrorlakeError] = {}
    for acl in missing:
        if acl.permission != ALLOW and (error := _denial_error(acl, facts)):
            refused[acl] = error
    note = FIRST_NOTE if facts.topic is not None and not facts.reaching else ""
    for acl in sorted(missing, key=lambda each: (each.permission == ALLOW, each)):
        error = refused.get(acl) or _withheld(acl, refused)
        difference = Difference(
            what=ACL,
            act=Act.REFUSE if error else Act.ADD_ACL,
            source="; ".join(map(text_of, wanted[acl])),
            wanted=text_of(acl),
            note="" if error else note,
            error=error,
        )
        yield AclDifference(acl=acl, difference=difference)


def _denial_error(acl: Acl, facts: AclFacts) -> MirrorlakeError | None:
    """Returns why a DENY cannot be carried."""
    if not acl.is_known:
        return UnsupportedError(
            f"this version does not know what it says: {text_of(acl)}", hint="carry it over yourself"
        )
    if acl.principal == EVERYBODY or acl.principal in facts.own:
        return PermissionDeniedError(
            f"mirrorlake itself would be denied at the destination: {text_of(acl)}",
            hint="add it yourself where mirrorlake's user is a super user, else name those who are denied",
        )
    return None


def _withheld(acl: Acl, refused: dict[Acl, MirrorlakeError]) -> MirrorlakeError | None:
    """Returns why an ALLOW is not added: what the source denies of it would be allowed at the destination."""
    if acl.permission != ALLOW:
        return None
    for deny in refused:
        if may_meet(deny, acl) and opposes(deny, acl):
            return PermissionDeniedError(
                f"what the source denies of it could not be denied: {text_of(deny)}",
                hint="see to the DENY first",
            )
    return None


def _extra(facts: AclFacts) -> list[AclDifference]:
    """Returns what the destination alone has on a copy's own name; of groups nothing, as it may have its own."""
    if facts.topic is None:
        return []
    wanted = facts.wanted
    readers = {acl.principal for acl in wanted if acl.permission == ALLOW}
    found = []
    for acl in sorted(facts.held):
        is_there = acl.resource_type == TOPIC and acl.pattern == LITERAL and acl.name == facts.name
        if not is_there or acl in wanted or acl.principal in facts.own:
            continue
        if acl.permission == DENY:
            found.append(_of_destination_alone(acl, Act.REPORT, _DENY_NOTE))
        elif acl.operation not in facts.operations:
            if acl.principal in readers:
                found.append(_of_destination_alone(acl, Act.REPORT, _MORE_NOTE))
        elif not _has_more(acl.principal, facts):
            act = Act.REMOVE_ACL if facts.sync.acl_removals else Act.REPORT
            found.append(_of_destination_alone(acl, act, _EXTRA_NOTE))
    return found


def _removed(found: list[AclDifference]) -> frozenset[Acl]:
    return frozenset(each.acl for each in found if each.difference.act is Act.REMOVE_ACL)


def _of_destination_alone(acl: Acl, act: Act, note: str) -> AclDifference:
    wanted = "none" if act is Act.REMOVE_ACL else None
    return AclDifference(
        acl=acl, difference=Difference(what=ACL, act=act, found=text_of(acl), wanted=wanted, note=note)
    )


def _has_more(principal: str, facts: AclFacts) -> bool:
    """Tells whether somebody may do more with the copy than is ever carried: its rights were given by other hands.

    mirrorlake's own user is one of these, under whatever name the brokers know it.
    """
    return any(
        acl.permission == ALLOW and acl.principal == principal and acl.operation not in facts.operations
        for acl in facts.reaching
    )


def _not_the_last(found: list[AclDifference], facts: AclFacts, *, is_added: bool) -> list[AclDifference]:
    """Returns the differences; refused are removals after which nothing holds for the copy, or all that was is unread.

    A topic for which no rule holds is open to everybody where the brokers set ``allow.everyone.if.no.acl.found``. And a
    source that shows not one rule may be one whose rules are kept elsewhere.
    """
    removed = _removed(found)
    if not removed:
        return found
    if not facts.source:
        error: MirrorlakeError = UnsupportedError(
            "the source cluster shows no ACL of any topic, as does one that keeps its rules elsewhere",
            hint="remove it yourself if that is meant: kafka-acls.sh --remove",
        )
    elif is_added or facts.reaching - removed:
        return found
    else:
        error = PermissionDeniedError(
            f"no ACL would be left for topic {facts.name}: where the brokers set allow.everyone.if.no.acl.found it "
            "would be open to everybody, for writing too",
            hint="remove it yourself if that is meant: kafka-acls.sh --remove",
        )
    return [
        replace(each, difference=replace(each.difference, act=Act.REFUSE, error=error)) if each.acl in removed else each
        for each in found
    ]
