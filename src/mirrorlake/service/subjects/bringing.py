"""Brings subjects of the source's registry to the destination's, and tells which ids their schemas have there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
        damage: what was seen to be damaged in archives, of the subjects that were looked at.
    """

    pairs: Mapping[SchemaName, SchemaName] = field(default_factory=dict)
    refused: Mapping[SchemaName, str] = field(default_factory=dict)
    absent: frozenset[SchemaName] = frozenset()
    unnamed: frozenset[UUID] = frozenset()
    done: tuple[Action, ...] = ()
    meanings: Mapping[SchemaName, Meaning] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()


async def bring(plan: MirrorPlan, mirroring: SubjectMirroring) -> Brought:
    """Does what is possible of a plan. Idempotent; of what is refused nothing is changed.

    Raises:
        MirrorlakeError: a registry does not answer, or refuses; what was done until then stays.
    """
    possible, done = plan.possible, tuple[Action, ...]()
    seen = {each.source.subject: each for each in plan.plans}
    # Of refused subjects too: what is there already can be read there.
    pairs = plan.name_pairs
    if possible.wanted:
        applied = await mirror_subjects(mirroring, sorted(possible.wanted), first=possible)
        done = applied.done
        pairs |= applied.plan.name_pairs
        seen |= {each.source.subject: each for each in applied.plan.plans}
    refused = {id_: reason for each in plan.refused for id_, reason in _refused(each).items() if id_ not in pairs}
    versions = ((p.source.subject, p.destination.subject, each) for p in seen.values() for each in p.source.versions)
    return Brought(
        pairs={name: there for name, there in pairs.items() if there is not None},
        refused=refused,
        unnamed=frozenset(name for name, there in pairs.items() if there is None and isinstance(name, UUID)),
        done=done,
        meanings=meanings_of(versions),
        damage=tuple(plan.damage),
    )


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
    return Brought(
        pairs=brought.pairs,
        refused=refused,
        absent=frozenset(absent),
        unnamed=brought.unnamed,
        done=brought.done,
        meanings=brought.meanings,
        damage=brought.damage,
    )


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
