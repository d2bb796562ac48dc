"""Brings subjects of the source's registry to the destination's, and tells which ids their schemas have there."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.errors import MirrorlakeError, SubjectRefusedError
from mirrorlake.schemas.applying import mirror_subjects
from mirrorlake.schemas.history import Damage, SchemaVersion
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring, shown_history
from mirrorlake.schemas.plan import Action, SubjectPlan
from mirrorlake.service.subjects.id_places import is_known, subjects_of_ids

_LEFT_OUT = "the destination's registry holds it in none of its subjects; `deleted-versions: skip` leaves some out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an id of the source means.

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
        pairs: by ids of the source, which id means the same schema at the destination; of whole subjects.
        refused: ids of the source whose schemas do not come to the destination, with the reason.
        absent: ids that the source's registry does not know.
        done: what was changed, in order.
        meanings: by ids of the source, which schemas they are; of whole subjects.
        damage: what was seen to be damaged in archives, of the subjects that were looked at.
    """

    pairs: Mapping[int, int] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()
    done: tuple[Action, ...] = ()
    meanings: Mapping[int, Meaning] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()


async def bring(plan: MirrorPlan, mirroring: SubjectMirroring) -> Brought:
    """Does what is possible of a plan. Idempotent; of what is refused nothing is changed.

    Raises:
        MirrorlakeError: a registry does not answer, or refuses; what was done until then stays.
    """
    possible, done = plan.possible, tuple[Action, ...]()
    seen = {each.source.subject: each for each in plan.plans}
    pairs = plan.id_pairs  # of refused subjects too: what is there already can be read there
    if possible.wanted:
        applied = await mirror_subjects(mirroring, sorted(possible.wanted), first=possible)
        done = applied.done
        pairs |= applied.plan.id_pairs
        seen |= {each.source.subject: each for each in applied.plan.plans}
    refused = {id_: reason for each in plan.refused for id_, reason in _refused(each).items() if id_ not in pairs}
    versions = ((p.source.subject, p.destination.subject, each) for p in seen.values() for each in p.source.versions)
    return Brought(pairs=pairs, refused=refused, done=done, meanings=meanings_of(versions), damage=tuple(plan.damage))


async def bring_ids(ids: Sequence[int], mirroring: SubjectMirroring, *, named: Collection[str]) -> Brought:
    """Brings what holds the schemas of some ids: the subjects that the mirror names, or else the first by name.

    An id may stand in hundreds of subjects where they share a schema; its readers need it in one.

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
    refused, absent = dict(brought.refused), set[int]()
    for id_, held in places.items():
        if id_ in brought.pairs or id_ in refused:
            continue
        if await is_known(id_, held, mirroring.source):
            refused[id_] = _LEFT_OUT
        else:
            absent.add(id_)
    return Brought(
        pairs=brought.pairs,
        refused=refused,
        absent=frozenset(absent),
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


def meanings_of(versions: Iterable[tuple[str, str, SchemaVersion]]) -> dict[int, Meaning]:
    """Returns what the ids of some versions mean. Pure.

    Args:
        versions: a subject of the source, the destination's, and the version at the source, each.
    """
    found: dict[int, Meaning] = {}
    for subject, there, each in versions:
        before = found.get(each.id)
        found[each.id] = Meaning(
            keys=frozenset({each.key}) | (before.keys if before else frozenset()),
            source=f"version {each.version} of {subject}",
            destination=there,
        )
    return found


def _refused(plan: SubjectPlan) -> dict[int, str]:
    return {version.id: _reason(plan) for version in plan.source.versions}


def _reason(plan: SubjectPlan) -> str:
    assert plan.refusal is not None
    return (
        f"{plan.refusal.reason}; source: {shown_history(plan, of_source=True)}; "
        f"destination: {shown_history(plan, of_source=False)} ({plan.refusal.hint})"
    )
