"""Which versions of two histories are the same schema, and what stands in the way. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.schemas.history import SchemaVersion, SubjectHistory
from mirrorlake.schemas.rules import DeletedVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A schema that the destination's subject is to hold.

    Attributes:
        version: the source's version it comes from. Where that is soft-deleted, the destination is to know the schema;
            where it stands there does not matter.
        key: as the destination words it.
        is_deleted: whether it is to be soft-deleted there.
        is_optional: whether it is not registered, and may be there.
    """

    version: SchemaVersion
    key: str
    is_deleted: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """What of one history stands in the other.

    Attributes:
        matches: by positions in what is wanted, the destination's versions that are it.
        missing: positions of what is wanted and not there, ascending.
        foreign: live versions of the destination that nothing wanted is.
        disordered: live versions of the destination that come later than the source has them.
        holes: positions of what is missing below something that is there, and cannot be put in its place any more.
    """

    matches: Mapping[int, SchemaVersion]
    missing: Sequence[int]
    foreign: Sequence[SchemaVersion]
    disordered: Sequence[SchemaVersion]
    holes: Sequence[int]


def wanted_of(source: SubjectHistory, deleted: DeletedVersions, same: Mapping[str, str]) -> list[Wanted]:
    """Returns what a destination is to hold of a subject, in the source's order.

    What was deleted and registered again is wanted once, where it is listed now.
    """
    listed = {each.key for each in source.live}
    wanted: list[Wanted] = []
    known: set[str] = set()
    for each in source.versions:
        if each.is_deleted and (each.key in listed or each.key in known):
            continue
        known.add(each.key)
        wanted.append(
            Wanted(
                version=each,
                key=same.get(each.key, each.key),
                is_deleted=each.is_deleted and deleted is DeletedVersions.MIRROR,
                is_optional=each.is_deleted and deleted is DeletedVersions.SKIP,
            )
        )
    return wanted


def aligned(wanted: Sequence[Wanted], destination: Sequence[SchemaVersion], *, is_ordered: bool) -> Alignment:
    """Returns how what is wanted and what is there stand to each other.

    A soft-deleted version of the destination is no live one; what it holds may be registered again behind it.

    Args:
        wanted: each schema once.
        destination: versions there, ascending.
        is_ordered: whether the order matters. If not, nothing is disordered, and there are no holes.
    """
    places = {item.key: position for position, item in enumerate(wanted)}
    matches: dict[int, SchemaVersion] = {}
    foreign: list[SchemaVersion] = []
    disordered: list[SchemaVersion] = []
    behind = 0
    for version in destination:
        place = places.get(version.key)
        if place is not None and wanted[place].version.is_deleted:
            if place not in matches or not version.is_deleted:
                matches[place] = version
        elif version.is_deleted:
            continue
        elif place is None or place in matches:
            foreign.append(version)
        elif place < behind and is_ordered:
            disordered.append(version)
        else:
            matches[place] = version
            behind = place + 1
    missing = [place for place, item in enumerate(wanted) if place not in matches and not item.is_optional]
    holes = [place for place in missing if place < behind and not wanted[place].version.is_deleted]
    return Alignment(
        matches=matches,
        missing=missing,
        foreign=foreign,
        disordered=disordered,
        holes=holes if is_ordered else [],
    )
