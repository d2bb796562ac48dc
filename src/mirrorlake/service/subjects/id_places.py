"""What both registries say of schema ids and GUIDs that records have. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.mirroring import MirrorPlan, SchemaReader, SubjectMirroring
from mirrorlake.together import all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class IdPlace:
    """What the registries say of one id or GUID of the source.

    Attributes:
        is_known: whether the source's registry knows it.
        subjects: subject and version of all that is registered under it there.
        there: the id or GUID its schema has at the destination; None where the destination's subjects do not hold it,
            or its registry gives no GUIDs.
        is_unnamed: whether it is a GUID, and the destination's registry holds its schema and gives no GUIDs.
    """

    is_known: bool
    subjects: tuple[tuple[str, int], ...] = ()
    there: SchemaName | None = None
    is_unnamed: bool = False


async def find_id_places(ids: Sequence[SchemaName], mirroring: SubjectMirroring) -> dict[SchemaName, IdPlace]:
    """Returns what the registries say of ids and GUIDs: the source's of each, both of all their subjects together.

    Raises:
        MirrorlakeError: a registry did not tell; nothing is concluded of any.
    """
    found = await subjects_of_ids(ids, mirroring.source)
    subjects = sorted({subject for each in found.values() for subject, _ in each})
    plan = await mirroring.plan(subjects) if subjects else MirrorPlan(plans=(), wanted=frozenset())
    pairs = plan.name_pairs
    guids = {UUID(v.guid) for each in plan.plans for v in each.source.versions if v.guid is not None}
    return {
        id_: IdPlace(
            is_known=id_ in guids if isinstance(id_, UUID) else await is_known(id_, places, mirroring.source),
            subjects=places,
            there=pairs.get(id_),
            is_unnamed=id_ in pairs and pairs[id_] is None,
        )
        for id_, places in found.items()
    }


async def subjects_of_ids(
    ids: Sequence[SchemaName], source: SchemaReader
) -> dict[SchemaName, tuple[tuple[str, int], ...]]:
    """Returns subject and version of all that the source's registry has under each id or GUID; none where it has none.

    A GUID's are those of its ids: whether their versions have the GUID, the subjects say.
    """
    found = await all_of(_places_of(id_, source) for id_ in ids)
    return {id_: tuple(places) for id_, places in zip(ids, found, strict=True)}


async def _places_of(name: SchemaName, source: SchemaReader) -> list[tuple[str, int]]:
    return await (source.places_of_guid(name) if isinstance(name, UUID) else source.places_of_id(name))


async def is_known(id_: int, places: Sequence[tuple[str, int]], source: SchemaReader) -> bool:
    """Tells whether the source's registry knows an id: its subjects may be gone for good and it is still given out."""
    return bool(places) or await source.schema_of_id(id_) is not None
