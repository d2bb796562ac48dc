"""Brings subjects of the source's registry to the destination's, and tells which ids their schemas have there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from mirrorlake.errors import MirrorlakeError, SubjectRefusedError
from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.applying import mirror_subjects
from mirrorlake.schemas.history import Damage, SchemaVersion
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring, shown_history
from mirrorlake.schemas.plan import Action, SubjectPlan
from mirrorlake.service.subjects.id_places import is_known, subjects_of_ids

_LEFT_OUT = "the destination's registry holds it in none of its subjects; `deleted-versions: skip` leaves some out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an id or GUID of the source means.

    Attributes:
        keys: of its schema; several where subjects tell it apart that share it.
        source: subject and version at the source.
        destination: the destination's subject.
    """

    keys: frozenset[str]
    source: str
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What is known of ids after their subjects were brought.

    Attributes:
        pairs: by ids of the source, which id means the same schema at the destination, and by GUIDs which GUID; of
            whole subjects.
        refused: ids and GUIDs of the source whose schemas do not come to the destination, with the reason.
        absent: those that the source's registry does not know.
        unnamed: GUIDs of the source whose schemas the destination's registry holds, and gives no GUIDs.
        done: what was changed, in order.
        meanings: by ids and GUIDs of the source, which schemas they are; of whole subjects.
        keys_there: by ids of ``pairs``, the key of what the destination has for it; none where that is an archive.
        lost: ids and GUIDs of the source whose schemas the destination held when it was asked before, and does not now.
        subjects: of the source, those that were brought as ids or GUIDs of records are in them.
        damage: what was seen to be damaged in archives, of the subjects that were looked at.
    """

    pairs: Mapping[SchemaName, SchemaName] = field(default_factory=dict)
    refused: Mapping[SchemaName, str] = field(default_factory=dict)
    absent: frozenset[SchemaName] = frozenset()
    unnamed: frozenset[UUID] = frozenset()
    done: tuple[Action, ...] = ()
    meanings: Mapping[SchemaName, Meaning] = field(default_factory=dict)
    keys_there: Mapping[SchemaName, str] = field(default_factory=dict)
    lost: frozenset[SchemaName] = frozenset()
    subjects: frozenset[str] = frozenset()
    damage: tuple[Damage, ...] = ()


async def bring(plan: MirrorPlan, mirroring: SubjectMirroring) -> Brought:
    """Does what is possible of a plan. Idempotent; of what is refused nothing is changed.

    Raises:
        MirrorlakeError: a registry does not answer, or refuses; what was done until then stays.
    """
    possible = plan.possible
    if not possible.wanted:
        return seen_in(plan)
    applied = await mirror_subjects(mirroring, sorted(possible.wanted), first=possible)
    return replace(seen_in(plan, applied.plan), done=applied.done)


def seen_in(plan: MirrorPlan, later: MirrorPlan | None = None) -> Brought:
    """Returns what a plan tells of ids and GUIDs before anything of it is done. Pure.

    Args:
        plan: of a look.
        later: of the look behind what was done.
    """
    looks = [plan] if later is None else [plan, later]
    # Of refused subjects too: what is there already can be read there.
    pairs = {name: there for each in looks for name, there in each.name_pairs.items()}
    seen = {each.source.subject: each for look in looks for each in look.plans}
    refused = {id_: reason for each in plan.refused for id_, reason in _refused(each).items() if id_ not in pairs}
    versions = ((p.source.subject, p.destination.subject, each) for p in seen.values() for each in p.source.versions)
    return Brought(
        pairs={name: there for name, there in pairs.items() if there is not None},
        refused=refused,
        unnamed=frozenset(name for name, there in pairs.items() if there is None and isinstance(name, UUID)),
        meanings=meanings_of(versions),
        keys_there={id_: key for each in looks for id_, key in each.keys_there.items()},
        damage=tuple(plan.damage),
    )


def together(seen: Iterable[Brought]) -> Brought:
    """Returns what several plans tell before anything is done. Pure."""
    whole = Brought()
    for each in seen:
        whole = Brought(
            pairs={**whole.pairs, **each.pairs},
            refused={**whole.refused, **each.refused},
            unnamed=whole.unnamed | each.unnamed,
            meanings={**each.meanings, **{id_: _both(m, each.meanings.get(id_)) for id_, m in whole.meanings.items()}},
            keys_there={**whole.keys_there, **each.keys_there},
            damage=(*whole.damage, *each.damage),
        )
    return whole


async def bring_ids(ids: Sequence[SchemaName], mirroring: SubjectMirroring, *, named: Collection[str]) -> Brought:
    """Brings what holds the schemas of some ids and GUIDs: subjects that the mirror names, or else the first by name.

    An id may stand in hundreds of subjects where they share a schema; its readers need it in one. A GUID is known where
    a version has it that the source's registry names for it.

    Args:
        ids: of the source.
        mirroring: between which registries, and how.
        named: subjects that the mirror takes along anyway.

    Raises:
        MirrorlakeError: a registry did not tell or refuses; nothing is concluded of any id.
    """
    places = await subjects_of_ids(ids, mirroring.source)
    subjects = subjects_for(places.values(), named)
    brought = Brought()
    if subjects:
        brought = await bring(await mirroring.plan(sorted(subjects)), mirroring)
    refused, absent = dict(brought.refused), set[SchemaName]()
    for id_, held in places.items():
        if id_ in brought.pairs or id_ in refused or id_ in brought.unnamed:
            continue
        if id_ in brought.meanings if isinstance(id_, UUID) else await is_known(id_, held, mirroring.source):
            refused[id_] = _LEFT_OUT
        else:
            absent.add(id_)
    return replace(brought, refused=refused, absent=frozenset(absent), subjects=frozenset(subjects))


def subjects_for(places: Iterable[Sequence[tuple[str, int]]], named: Collection[str]) -> set[str]:
    """Returns the subjects that hold the schemas of some ids: those that are named, or else the first by name. Pure.

    Args:
        places: by id, subject and version of all that is registered under it.
        named: subjects that the mirror takes along anyway.
    """
    return {
        name
        for each in places
        for name in ([subject for subject, _ in each if subject in named] or [subject for subject, _ in each[:1]])
    }


def refusals_of(plan: MirrorPlan) -> list[MirrorlakeError]:
    """Returns why subjects cannot be mirrored, an error each, with both histories."""
    return [SubjectRefusedError(_reason(each), subject=each.source.subject) for each in plan.refused]


def meanings_of(versions: Iterable[tuple[str, str, SchemaVersion]]) -> dict[SchemaName, Meaning]:
    """Returns what the ids and GUIDs of some versions mean. Pure.

    Args:
        versions: a subject of the source, the destination's, and the version at the source, each.
    """
    found: dict[SchemaName, Meaning] = {}
    for subject, there, each in versions:
        for name in names_of(each):
            before = found.get(name)
            found[name] = Meaning(
                keys=frozenset({each.key}) | (before.keys if before else frozenset()),
                source=f"version {each.version} of {subject}",
                destination=there,
            )
    return found


def _both(one: Meaning, other: Meaning | None) -> Meaning:
    return one if other is None else replace(one, keys=one.keys | other.keys)


def names_of(version: SchemaVersion) -> tuple[SchemaName, ...]:
    """Returns what records may name a version's schema by: its id, and its GUID where it has one. Pure."""
    return (version.id,) if version.guid is None else (version.id, UUID(version.guid))


def _refused(plan: SubjectPlan) -> dict[SchemaName, str]:
    return {name: _reason(plan) for version in plan.source.versions for name in names_of(version)}


def _reason(plan: SubjectPlan) -> str:
    assert plan.refusal is not None
    return (
        f"{plan.refusal.reason}; source: {shown_history(plan, of_source=True)}; "
        f"destination: {shown_history(plan, of_source=False)} ({plan.refusal.hint})"
    )
