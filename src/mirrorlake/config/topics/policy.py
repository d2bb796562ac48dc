"""What a destination's topics are made like and kept like: counts by a rule, and which settings are copied. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRule:
    """How many partitions or replicas: ``fixed``, or as many as the source has, from ``minimum`` to ``maximum``.

    Both bounds are inclusive; None is no bound.
    """

    fixed: int | None = None
    minimum: int | None = None
    maximum: int | None = None

    def count_for(self, source: int) -> int:
        """Returns the count where the source has so many."""
        if self.fixed is not None:
            return self.fixed
        bounded = source if self.maximum is None else min(source, self.maximum)
        return bounded if self.minimum is None else max(bounded, self.minimum)

    @property
    def text(self) -> str:
        """The rule as the file has it."""
        if self.fixed is not None:
            return f"{{fixed: {self.fixed}}}"
        bounds = {"min": self.minimum, "max": self.maximum}
        shown = ", ".join(f"{key}: {value}" for key, value in bounds.items() if value is not None)
        return f"{{mirror-source: {{{shown}}}}}"


AS_THE_SOURCE = CountRule()
"""Neither more nor fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """How missing topics are made; ``replication`` None leaves it to the destination cluster."""

    partitions: CountRule = AS_THE_SOURCE
    replication: CountRule | None = None


class SyncMode(StrEnum):
    """What is done about a difference between a topic and its copy."""

    APPLY = "apply"
    REPORT = "report"
    OFF = "off"


class AclOperation(StrEnum):
    """What an ACL allows with a topic, by Kafka's names."""

    READ = "READ"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    ALTER_CONFIGS = "ALTER_CONFIGS"


READING = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
"""What changes neither a copy nor its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSync:
    """How topics that are there are kept in step, and which settings belong to a copy.

    Attributes:
        configs: about settings that differ.
        partitions: about partitions that are missing; None where the file does not say.
        include: names and ``/expressions/`` of settings; empty for all.
        exclude: the same, and goes before.
        override: settings by name that every copy has, whatever the source has.
        acls: about ACLs of the source that the destination lacks.
        acl_operations: what of ALLOW rules is carried.
        acl_groups: whether rules of groups are, too.
        acl_removals: whether rules are removed that the source no longer has.
        interval_seconds: how often a service looks and does what there is to be done; None where it does not.
    """

    configs: SyncMode = SyncMode.REPORT
    partitions: SyncMode | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    override: Mapping[str, str] = field(default_factory=dict, hash=False)
    acls: SyncMode = SyncMode.OFF
    acl_operations: tuple[AclOperation, ...] = READING
    acl_groups: bool = False
    acl_removals: bool = False
    interval_seconds: float | None = None

    def copies(self, setting: str, *, usually: bool) -> bool:
        """Tells whether a setting is the source's to decide.

        Args:
            setting: its name.
            usually: whether it is where the file says nothing of it by name.
        """
        if setting in self.override or _names(self.exclude, setting):
            return False
        if setting in self.include:
            return True
        return usually and (not self.include or _names(self.include, setting))


USUAL_SYNC = TopicSync()
"""Where the file says nothing."""


def _names(entries: tuple[str, ...], setting: str) -> bool:
    return any(
        re.fullmatch(entry[1:-1], setting) is not None if entry.startswith("/") else entry == setting
        for entry in entries
    )
