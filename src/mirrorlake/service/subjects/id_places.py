"""What both registries say of schema ids that records have. Reads only."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.schemas.mirroring import SchemaReader, SubjectMirroring


@dataclass(frozen=True, slots=True, kw_only=True)
class IdPlace:
    """What the registries say of one id of the source.

    Attributes:
        is_known: whether the source's registry knows it.
        subjects: subject and version of all that is registered under it there.
        there: the id its schema has at the destination; None where the destination's subjects do not hold it.
    """

    is_known: bool
    subjects: tuple[tuple[str, int], ...] = ()
    there: int | None = None


async def find_id_places(ids: Sequence[int], mirroring: SubjectMirroring) -> dict[int, IdPlace]:
    """Returns what the registries say of ids: the source's of each, both of all their subjects together.

    Raises:
        MirrorlakeError: a registry did not tell; nothing is concluded of any id.
    """
    found = await subjects_of_ids(ids, mirroring.source)
    subjects = sorted({subject for each in found.values() for subject, _ in each})
    pairs = (await mirroring.plan(subjects)).id_pairs if subjects else {}
    return {
        id_: IdPlace(is_known=await is_known(id_, places, mirroring.source), subjects=places, there=pairs.get(id_))
        for id_, places in found.items()
    }


async def subjects_of_ids(ids: Sequence[int], source: SchemaReader) -> dict[int, tuple[tuple[str, int], ...]]:
    """Returns subject and version of all that the source's registry has under each id; none where it has none."""
    found = await asyncio.gather(*(source.places_of_id(id_) for id_ in ids))
    return {id_: tuple(places) for id_, places in zip(ids, found, strict=True)}


async def is_known(id_: int, places: Sequence[tuple[str, int]], source: SchemaReader) -> bool:
    """Tells whether the source's registry knows an id: its subjects may be gone for good and it is still given out."""
    return bool(places) or await source.schema_of_id(id_) is not None
