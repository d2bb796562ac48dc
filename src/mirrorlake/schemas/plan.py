"""From two histories of a subject to the changes that make the one what the other says it should be. Pure.

Everything is told from what is seen: the level and the mode a subject has in the end come from the source or from the
configuration, never from what they were before. So whoever plans again after a crash comes to the same end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mirrorlake.schemas.alignment import Wanted, aligned, wanted_of
from mirrorlake.schemas.history import NO_CHECK, SchemaVersion, SubjectHistory
from mirrorlake.schemas.rules import MODE_OF_THE_SOURCE, SubjectMode, SubjectRules

READ_WRITE, IMPORT = "READWRITE", "IMPORT"


class ActionKind(StrEnum):
    """What is done to a registry."""

    SET_MODE = "set-mode"
    SET_LEVEL = "set-level"
    REGISTER = "register"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change of the destination's subject.

    Attributes:
        kind: what is done.
        subject: the destination's.
        value: the level or the mode to set; else empty.
        version: the source's version to register, or whose equal is soft-deleted; None for the others.
        key: how the destination words that schema, as far as that is known; else the source's key.
        id: the id to register it under; None leaves it to the registry.
        why: in words.
    """

    kind: ActionKind
    subject: str
    value: str = ""
    version: SchemaVersion | None = None
    key: str = ""
    id: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a subject cannot be mirrored, and what can be done about it."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """What is done to one subject of a destination's registry, in order. Nothing at all where it is refused.

    Attributes:
        source: what was seen there.
        destination: what was seen here.
        rules: what it was planned by.
        actions: in their order.
        refusal: None where all can be done.
        same: the keys of the source's schemas that the destination words differently, as it was planned with.
    """

    source: SubjectHistory
    destination: SubjectHistory
    rules: SubjectRules
    actions: tuple[Action, ...] = ()
    refusal: Refusal | None = None
    same: Mapping[str, str] = field(default_factory=dict)


def plan_subject(
    source: SubjectHistory,
    destination: SubjectHistory,
    rules: SubjectRules,
    *,
    same: Mapping[str, str] | None = None,
    ids_there: Mapping[int, str] | None = None,
) -> SubjectPlan:
    """Returns every change that makes the destination's subject what the rules promise, or why none can.

    Args:
        source: the subject at the source's registry.
        destination: the subject at the destination's, under whatever name it has there.
        rules: how it is mirrored.
        same: keys of the source's schemas whose equal the destination's registry words differently, with its key.
        ids_there: where ids are kept, the ids of the source that the destination's registry knows already, each with
            the key of what it means there.
    """
    planning = _Planning(source, destination, rules, same or {}, ids_there or {})
    refusal = planning.refusal()
    actions = () if refusal else planning.actions()
    refusal = refusal or planning.refusal_of_mode(actions)
    return SubjectPlan(
        source=source,
        destination=destination,
        rules=rules,
        actions=() if refusal else actions,
        refusal=refusal,
        same=planning.same,
    )


class _Planning:
    def __init__(
        self,
        source: SubjectHistory,
        destination: SubjectHistory,
        rules: SubjectRules,
        same: Mapping[str, str],
        ids_there: Mapping[int, str],
    ) -> None:
        self._source, self._destination, self._rules = source, destination, rules
        self.same, self._ids_there = same, ids_there
        self._level = source.level if rules.level is None else rules.level
        self._wanted = wanted_of(source, rules.deleted, same)
        self._is_strict = rules.mode is SubjectMode.STRICT
        if not self._is_strict:
            self._wanted = _once(self._wanted)
        # The level it will have says whether order matters: the one it has may be of a run that died.
        is_ordered = self._is_strict or self._level != NO_CHECK
        self._found = aligned(self._wanted, destination.versions, is_ordered=is_ordered)

    def refusal(self) -> Refusal | None:
        """Returns why the versions cannot be mirrored; None where they can."""
        checks: list[Callable[[], Refusal | None]] = [self._unseen, self._twice, self._unequal, self._unlike_ids]
        return next((refusal for check in checks if (refusal := check()) is not None), None)

    def _unseen(self) -> Refusal | None:
        if self._source.versions or not (self._is_strict and self._destination.live):
            return None
        return Refusal(
            reason=f"the source's registry has no subject {self._source.subject}, and the destination's has "
            f"{len(self._destination.live)} version(s) of {self._destination.subject}",
            hint="check the subject's name and what this user may see; if the source's subject is really gone, delete "
            "the destination's yourself, or leave it out",
        )

    def _twice(self) -> Refusal | None:
        if not self._is_strict:
            return None
        first: dict[str, SchemaVersion] = {}
        for item in self._wanted:
            other = first.setdefault(item.key, item.version)
            if other is not item.version:
                return Refusal(
                    reason=f"the destination's registry takes the versions {other.version} and {item.version.version} "
                    f"of the source's {self._source.subject} as one schema",
                    hint="use `mode: lenient`, which does not ask for equal lists",
                )
        return None

    def _unequal(self) -> Refusal | None:
        found = self._found
        if self._is_strict and found.foreign:
            others = _numbers(found.foreign)
            return Refusal(
                reason=f"{self._destination.subject} has version(s) {others} at the destination that the source's "
                f"{self._source.subject} does not have",
                hint="use `mode: lenient`, or delete what is foreign there",
            )
        if found.disordered:
            return Refusal(
                reason=f"version(s) {_numbers(found.disordered)} of {self._destination.subject} stand at the "
                "destination in another order than at the source",
                hint="delete them there, so that they can be registered again; or, with `mode: lenient`, use "
                "`compatibility: NONE`, where order does not matter",
            )
        if found.holes:
            lacking = _numbers([self._wanted[position].version for position in found.holes])
            return Refusal(
                reason=f"the destination's {self._destination.subject} lacks version(s) {lacking} of the source's "
                f"{self._source.subject} and has later ones, and no registry puts a version between others",
                hint="delete the later ones there, so that they can be registered again; or, with `mode: lenient`, use "
                "`compatibility: NONE`, where order does not matter",
            )
        return None

    def _unlike_ids(self) -> Refusal | None:
        if not self._rules.keeps_ids:
            return None
        if self._destination.mode is None:
            return Refusal(
                reason="the destination's registry knows no modes, so it takes no ids", hint="use `ids: remap`"
            )
        for position, version in self._found.matches.items():
            wanted = self._wanted[position].version
            if wanted.id != version.id:
                return self._unlike(wanted, f"is version {version.version} with id {version.id}")
        for position in self._found.missing:
            item = self._wanted[position]
            if self._ids_there.get(item.version.id, item.key) != item.key:
                return self._unlike(item.version, "knows another schema by that id")
        return None

    def _unlike(self, wanted: SchemaVersion, what: str) -> Refusal:
        return Refusal(
            reason=f"version {wanted.version} of {self._source.subject} has the id {wanted.id} at the source; the "
            f"destination's registry {what}",
            hint="ids can be kept only where nobody else gave them out: use `ids: remap`, or a context of its own",
        )

    def actions(self) -> tuple[Action, ...]:
        """Returns what is done, in order."""
        if not self._source.versions:
            return ()
        changes = self._changes()
        return (*self._mode_for(changes), *changes, *self._mode_in_the_end(changes))

    def _changes(self) -> list[Action]:
        """Returns registrations, then deletions, and the levels that they need.

        The first version of a subject comes before its level: some registries have no level of what they do not know.
        """
        registered: list[Action] = []
        gone = [self._delete(item) for item in self._stale()]
        level = self._destination.level
        has_versions = bool(self._destination.live)
        for position in self._found.missing:
            if has_versions and level != NO_CHECK and not self._rules.keeps_ids:
                registered.append(self._set_level(NO_CHECK, "versions were made under whatever level held then"))
                level = NO_CHECK
            item = self._wanted[position]
            registered.append(self._register(item))
            has_versions = True
            if item.is_deleted:
                gone.append(self._delete(item))
        is_known = has_versions or bool(self._destination.versions)
        if is_known and level != self._level:
            gone.append(self._set_level(self._level, "the source's" if self._rules.level is None else "as configured"))
        return [*registered, *gone]

    def _stale(self) -> list[Wanted]:
        """Returns what is live at the destination and soft-deleted at the source, where that is to be mirrored."""
        return [
            self._wanted[position]
            for position, version in sorted(self._found.matches.items())
            if self._wanted[position].is_deleted and not version.is_deleted
        ]

    def _set_level(self, level: str, why: str) -> Action:
        return Action(kind=ActionKind.SET_LEVEL, subject=self._destination.subject, value=level, why=why)

    def _set_mode(self, mode: str, why: str) -> Action:
        return Action(kind=ActionKind.SET_MODE, subject=self._destination.subject, value=mode, why=why)

    def _register(self, item: Wanted) -> Action:
        return Action(
            kind=ActionKind.REGISTER,
            subject=self._destination.subject,
            version=item.version,
            key=item.key,
            id=item.version.id if self._rules.keeps_ids else None,
            why=f"version {item.version.version} of the source",
        )

    def _delete(self, item: Wanted) -> Action:
        return Action(
            kind=ActionKind.DELETE,
            subject=self._destination.subject,
            version=item.version,
            key=item.key,
            why="soft-deleted at the source",
        )

    def _final_mode(self) -> str | None:
        """Returns the mode the subject has in the end; None leaves the one it has."""
        if self._destination.mode is None:
            return None
        if self._rules.registry_mode == MODE_OF_THE_SOURCE:
            return self._source.mode
        if self._rules.registry_mode is None and self._rules.keeps_ids:
            return IMPORT
        return self._rules.registry_mode

    def _working_mode(self) -> str:
        return IMPORT if self._rules.keeps_ids else READ_WRITE

    def _mode_for(self, changes: Sequence[Action]) -> list[Action]:
        there, needed = self._destination.mode, self._working_mode()
        if not changes or there in (None, needed) or self._final_mode() is None:
            return []
        if self._rules.registry_mode is None and there != READ_WRITE:
            return []  # somebody has closed it
        return [self._set_mode(needed, "so that versions can be registered")]

    def _mode_in_the_end(self, changes: Sequence[Action]) -> list[Action]:
        final = self._final_mode()
        before = self._working_mode() if changes else self._destination.mode
        if final is None or final == before:
            return []
        return [self._set_mode(final, "the mode of the subject in the end")]

    def refusal_of_mode(self, actions: Sequence[Action]) -> Refusal | None:
        """Returns why the destination's registry would take none of the actions in the mode it has."""
        there = self._destination.mode
        if not actions or there in (None, self._working_mode()) or actions[0].kind is ActionKind.SET_MODE:
            return None
        return Refusal(
            reason=f"the destination's subject {self._destination.subject} is in mode {there}, and takes none of "
            f"{len(actions)} change(s)",
            hint="set the mode READWRITE there, or say by `registry-mode` which mode it is to have in the end",
        )


def _once(wanted: Sequence[Wanted]) -> list[Wanted]:
    """Returns what is wanted without what the destination takes as one schema; a live one goes before a deleted one."""
    first: dict[str, Wanted] = {}
    for item in wanted:
        if item.key not in first or (first[item.key].version.is_deleted and not item.version.is_deleted):
            first[item.key] = item
    return list(first.values())


def _numbers(versions: Sequence[SchemaVersion]) -> str:
    return ", ".join(str(each.version) for each in versions)


def position_table(plan: SubjectPlan) -> list[tuple[SchemaVersion | None, SchemaVersion | None]]:
    """Returns both histories side by side, equal schemas in one row where order allows; None where a side has none."""
    rows: list[tuple[SchemaVersion | None, SchemaVersion | None]] = []
    rest = list(plan.destination.versions)
    for version in plan.source.versions:
        key = plan.same.get(version.key, version.key)
        place = next((i for i, other in enumerate(rest) if other.key == key), None)
        if place is None:
            rows.append((version, None))
            continue
        rows += [(None, other) for other in rest[:place]]
        rows.append((version, rest[place]))
        rest = rest[place + 1 :]
    return rows + [(None, other) for other in rest]
