"""Looks at subjects on both sides, with all that they refer to, and plans what is done about them. Changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from mirrorlake.errors import SubjectRefusedError
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import Damage, Reference, Schema, SchemaVersion, SubjectHistory, guid_pairs, id_pairs
from mirrorlake.schemas.ordering import ordered_actions
from mirrorlake.schemas.plan import Action, ActionKind, Refusal, SubjectPlan, plan_subject, position_table
from mirrorlake.schemas.rules import SubjectRules


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPlan:
    """What is done to the subjects of a destination's registry.

    Attributes:
        plans: one per subject, those that others refer to first; subjects that are only referred to included.
        wanted: the source's names of those that were asked for.
    """

    plans: tuple[SubjectPlan, ...]
    wanted: frozenset[str]

    @property
    def actions(self) -> list[Action]:
        """Everything that is done, in order."""
        return ordered_actions([plan for plan in self.plans if plan.refusal is None])

    @property
    def damage(self) -> list[Damage]:
        """What was seen to be damaged in the archive that subjects come from."""
        return [each for plan in self.plans for each in plan.source.damage]

    @property
    def possible(self) -> "MirrorPlan":
        """The plan without what cannot be mirrored."""
        plans = tuple(plan for plan in self.plans if plan.refusal is None)
        return MirrorPlan(plans=plans, wanted=self.wanted & {plan.source.subject for plan in plans})

    @property
    def refused(self) -> tuple[SubjectPlan, ...]:
        """The subjects that cannot be mirrored."""
        return tuple(plan for plan in self.plans if plan.refusal is not None)

    @property
    def id_pairs(self) -> dict[int, int]:
        """By ids of the source, which id means the same schema at the destination; of all subjects that are there."""
        pairs: dict[int, int] = {}
        for plan in self.plans:
            pairs |= id_pairs(plan.source, plan.destination, dict(plan.same))
        return pairs

    @property
    def guid_pairs(self) -> dict[UUID, UUID | None]:
        """By GUIDs of the source, which GUID means the same schema at the destination; None where it gives none."""
        pairs: dict[UUID, UUID | None] = {}
        for plan in self.plans:
            found = guid_pairs(plan.source, plan.destination, dict(plan.same))
            pairs |= {guid: to for guid, to in found.items() if to is not None or guid not in pairs}
        return pairs

    @property
    def keys_there(self) -> dict[int, str]:
        """By ids of `id_pairs`, the key of the schema that the destination has for it."""
        keys = {
            version.id: plan.same.get(version.key, version.key)
            for plan in self.plans
            for version in plan.source.versions
        }
        return {id_: keys[id_] for id_ in self.id_pairs}

    @property
    def awaited(self) -> set[int | UUID]:
        """What records name schemas by at the source that are registered when the plan is done."""
        versions = [a.version for a in self.actions if a.kind is ActionKind.REGISTER and a.version is not None]
        return {each.id for each in versions} | {UUID(each.guid) for each in versions if each.guid is not None}

    @property
    def name_pairs(self) -> dict[int | UUID, int | UUID | None]:
        """Both, of ids and of GUIDs: by what records name schemas by at the source, what names them there."""
        pairs: dict[int | UUID, int | UUID | None] = dict(self.id_pairs.items())
        return pairs | dict(self.guid_pairs.items())

    def raise_if_refused(self) -> None:
        """Raises what says why subjects cannot be mirrored, with both histories.

        Raises:
            SubjectRefusedError: one cannot.
        """
        for plan in self.refused:
            assert plan.refusal is not None
            raise SubjectRefusedError(
                f"{plan.refusal.reason}; source: {shown_history(plan, of_source=True)}; "
                f"destination: {shown_history(plan, of_source=False)}",
                hint=plan.refusal.hint,
                subject=plan.source.subject,
            )


def shown_history(plan: SubjectPlan, *, of_source: bool) -> str:
    """Returns one of a plan's histories in one line: versions with the beginning of what tells schemas apart."""
    history = plan.source if of_source else plan.destination
    names = {key: f"{key[:6]}" for key in (plan.same.get(v.key, v.key) for v in plan.source.versions)}
    shown = []
    for version in history.versions:
        key = plan.same.get(version.key, version.key) if of_source else version.key
        deleted = " deleted" if version.is_deleted else ""
        shown.append(f"{version.version}={names.get(key, key[:6])}{deleted}")
    return ", ".join(shown) or "none"


class SchemaReader(Protocol):
    """What subjects are mirrored from: a registry, or what an archive holds of one. See `RegistryClient`."""

    async def subjects(self) -> list[str]:
        """Returns the names of all subjects with live versions, sorted."""
        ...

    async def history(self, subject: str) -> SubjectHistory:
        """Returns all that is known of a subject; without versions where it is not known."""
        ...

    async def histories(self, subjects: Sequence[str]) -> list[SubjectHistory]:
        """Returns the same of many subjects, in their order."""
        ...

    async def schema_of_id(self, id_: int, *, subject: str | None = None) -> Schema | None:
        """Returns what an id means; None where it is not known."""
        ...

    async def places_of_id(self, id_: int) -> list[tuple[str, int]]:
        """Returns subject and version of everything registered under an id; none where it is not known."""
        ...

    async def places_of_guid(self, guid: UUID) -> list[tuple[str, int]]:
        """Returns subject and version of everything registered under a GUID; none where it is not known."""
        ...

    async def close(self) -> None:
        """Closes its connections. Idempotent."""
        ...


async def histories_of(source: SchemaReader, subjects: Sequence[str]) -> dict[str, SubjectHistory]:
    """Returns the histories of subjects and of all that they refer to, by their names."""
    found: dict[str, SubjectHistory] = {}
    waiting = list(dict.fromkeys(subjects))
    while waiting:
        histories = await source.histories(waiting)
        found |= dict(zip(waiting, histories, strict=True))
        referred = dict.fromkeys(name for history in histories for name in _referred(history))
        waiting = [name for name in referred if name not in found]
    return found


class SubjectMirroring:
    """Subjects of one registry, mirrored to another.

    Args:
        source: of the source's subjects.
        destination: client of the destination's.
        rules: how each subject is mirrored.
        destination_name: from the source's name of a subject to the destination's.
    """

    def __init__(
        self,
        source: SchemaReader,
        destination: RegistryClient,
        rules: SubjectRules,
        destination_name: Callable[[str], str] = str,
    ) -> None:
        self.source, self.destination, self.rules = source, destination, rules
        self.destination_name = destination_name

    async def plan(self, subjects: Sequence[str]) -> MirrorPlan:
        """Returns what is to be done about subjects of the source, and those they refer to.

        What refers to a subject that cannot be mirrored cannot be either; what nobody else needs then is left out.

        Raises:
            MirrorlakeError: a registry does not answer, or not as it should.
        """
        sources = await histories_of(self.source, subjects)
        order = _referred_first(sources)
        there = await self.destination.histories([self.destination_name(name) for name in order])
        destinations = dict(zip(order, there, strict=True))
        plans: dict[str, SubjectPlan] = {}
        same: dict[str, str] = {}
        for name, held in destinations.items():
            same |= await self._same(sources[name], held, same, destinations)
            ids_there = await self._ids_there(sources[name], held)
            plans[name] = plan_subject(sources[name], held, self.rules, same=dict(same), ids_there=ids_there)
        return judged(MirrorPlan(plans=tuple(plans.values()), wanted=frozenset(subjects)))

    def references_there(
        self, schema: Schema, same: Mapping[str, str], destinations: Mapping[str, SubjectHistory]
    ) -> list[Reference] | None:
        """Returns what a schema of the source refers to, by the destination's subjects and versions; None if not there.

        Args:
            schema: of the source.
            same: the keys of the source's schemas that the destination words differently.
            destinations: histories there by the source's names of subjects.
        """
        found = []
        for each in schema.references:
            key = same.get(each.key, each.key)
            there = destinations.get(each.subject)
            versions = () if there is None else (*there.live, *there.versions)
            target = next((version for version in versions if version.key == key), None)
            if there is None or target is None:
                return None
            found.append(Reference(name=each.name, subject=there.subject, version=target.version, key=key))
        return found

    async def _same(
        self,
        source: SubjectHistory,
        there: SubjectHistory,
        same: Mapping[str, str],
        destinations: Mapping[str, SubjectHistory],
    ) -> dict[str, str]:
        """Returns which of the source's schemas the destination words differently, as its registry says.

        Some registries keep a schema's text as it is, others write it anew; only they know what is equal to them.
        """
        sources = {version.key: version.schema for version in source.versions}
        keys = {version.version: version.key for version in there.versions}
        found: dict[str, str] = {}
        if not keys:
            return found
        for key, schema in sources.items():
            if key in keys.values() or key in same:
                continue
            references = self.references_there(schema, {**same, **found}, destinations)
            place = None
            if references is not None:
                place = await self.destination.look_up(there.subject, schema, references)
            if place is not None and place.version in keys:
                found[key] = keys[place.version]
        return found

    async def _ids_there(self, source: SubjectHistory, there: SubjectHistory) -> dict[int, str]:
        """Returns what the destination knows of the source's ids, and what they mean there; only where ids are kept."""
        if not self.rules.keeps_ids:
            return {}
        known = {version.id for version in there.versions}
        found = {}
        for id_ in dict.fromkeys(version.id for version in source.versions if version.id not in known):
            schema = await self.destination.schema_of_id(id_)
            if schema is not None:
                found[id_] = schema.key
        return found


def _referred(history: SubjectHistory) -> list[str]:
    return list(dict.fromkeys(r.subject for version in history.versions for r in version.schema.references))


def _referred_first(histories: Mapping[str, SubjectHistory]) -> list[str]:
    """Returns subjects so that those others refer to come first, as far as they do not refer to one another."""
    order: dict[str, None] = {}
    entered: set[str] = set()

    def visit(name: str) -> None:
        if name in entered:
            return
        entered.add(name)
        for other in _referred(histories[name]):
            visit(other)
        order[name] = None

    for name in histories:
        visit(name)
    return list(order)


def judged(whole: MirrorPlan) -> MirrorPlan:
    """Returns the plan; refused is what refers to a refused subject, left out what only refused ones need. Pure."""
    judged = {plan.source.subject: plan for plan in whole.plans}
    changed = True
    while changed:
        changed = False
        for name, plan in judged.items():
            referred = [judged[other] for other in _referred(plan.source) if other in judged]
            bad = next((other.source.subject for other in referred if other.refusal is not None), None)
            if bad is not None and plan.refusal is None:
                refusal = Refusal(
                    reason=f"subject {name} refers to subject {bad}, which cannot be mirrored",
                    hint=f"see what is said of {bad}",
                )
                judged[name] = replace(plan, actions=(), refusal=refusal)
                changed = True
    needed: set[str] = set()
    waiting = [name for name in judged if name in whole.wanted and judged[name].refusal is None]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [other for other in _referred(judged[name].source) if other in judged]
    kept = [plan for name, plan in judged.items() if name in needed or name in whole.wanted or plan.refusal is not None]
    return replace(whole, plans=tuple(kept))


def side_by_side(plan: SubjectPlan) -> list[dict[str, str | int | None]]:
    """Returns both histories of a subject as rows of a table, equal schemas in one row."""
    rows: list[dict[str, str | int | None]] = []
    for source, destination in position_table(plan):
        shown = source or destination
        assert shown is not None
        rows.append(
            {
                "subject": plan.source.subject,
                "source": None if source is None else source.version,
                "source_id": None if source is None else source.id,
                "schema": (plan.same.get(shown.key, shown.key))[:12],
                "destination": None if destination is None else destination.version,
                "destination_id": None if destination is None else destination.id,
                "to": plan.destination.subject,
                "deleted": _deleted(source, destination),
            }
        )
    return rows


def _deleted(source: SchemaVersion | None, destination: SchemaVersion | None) -> str | None:
    sides = {"source": source, "destination": destination}
    where = [side for side, version in sides.items() if version is not None and version.is_deleted]
    return "both" if len(where) == 2 else next(iter(where), None)
