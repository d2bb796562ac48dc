"""What a segment says of the schema ids of its records, as JSON: `schema_ids` of ``docs/archive-format.md``."""

from uuid import UUID

from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.schema_ids.counts import NAMELESS, NAMES_MAX, SchemaIdCounts, Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import ID_MAX, ID_MIN, SchemaName

_IDS, _GUIDS = "ids", "guids"
_FIELDS = {_IDS, _GUIDS, *NAMELESS}

_NAMES_SHOWN_MAX = 10
"""Ids and GUIDs of a side that an error names: a segment may have a thousand."""


def fields_of(counts: SchemaIdCounts) -> dict[str, object]:
    """Returns the counts as JSON has them: ids ascending, GUIDs by their texts."""
    return {name: _side_fields(counts[name]) for name in SIDE_NAMES if name in counts}


def _side_fields(counts: SideCounts) -> dict[str, object]:
    ids = sorted((name, *seen) for name, seen in counts.names.items() if isinstance(name, int))
    guids = sorted((str(name), *seen) for name, seen in counts.names.items() if isinstance(name, UUID))
    return {
        **{framing.value: list(counts.nameless[framing]) for framing in NAMELESS if framing in counts.nameless},
        **({_IDS: [list(each) for each in ids]} if ids else {}),
        **({_GUIDS: [list(each) for each in guids]} if guids else {}),
    }


def counts_in(
    fields: object, *, records: int, first_offset: int | None, last_offset: int | None
) -> SchemaIdCounts | None:
    """Returns what `fields_of` wrote; None where that is nothing this version knows.

    A side with a field that a later version gave it is left out: what is counted there is not known here.

    Args:
        fields: as JSON has them.
        records: how many the segment holds: every side that was counted has as many.
        first_offset: the lowest offset of a record in it, None where it has none.
        last_offset: likewise the highest.

    Raises:
        TypeError, ValueError, AttributeError: they are not of a segment like this.
    """
    if not isinstance(fields, dict):
        raise TypeError(f"not an object: {fields!r}")
    counts = {name: _side(fields[name]) for name in SIDE_NAMES if _is_known(fields.get(name))}
    for name, side in counts.items():
        if side.records != records:
            raise ValueError(f"schema ids of {side.records} {name}s, and {records} records")
        for seen in (*side.nameless.values(), *side.names.values()):
            if first_offset is None or last_offset is None or not first_offset <= seen.first_offset <= last_offset:
                raise ValueError(f"a schema id at offset {seen.first_offset}, where no record is")
    return counts or None


def _is_known(side: object) -> bool:
    """Tells whether a side is there and counts nothing that this version does not know."""
    return side is not None and not (isinstance(side, dict) and set(side) - _FIELDS)


def check_schema_ids(said: SchemaIdCounts | None, counted: SchemaIdCounts | None, *, where: str) -> None:
    """Compares what a segment says of its schema ids with what its records have.

    Args:
        said: by the segment.
        counted: of the same sides, but for those that name more than ``NAMES_MAX`` schemas.
        where: names it in messages.

    Raises:
        ChainBrokenError: they differ. It names what differs, at most ten ids and GUIDs of each side.
    """
    if said == counted:
        return
    said, counted = said or {}, counted or {}
    raise ChainBrokenError(
        f"{where} says that its records have the schema ids {_shown(said, counted)}, "
        f"and they have {_shown(counted, said)}",
        hint="its records are those it was written with, and can be restored; `mirrorlake schemas check` is wrong "
        "about them: copy the topic to another archive (a mirror with `source: {store: …}`), which counts them anew",
        key=where,
    )


def _shown(counts: SchemaIdCounts, others: SchemaIdCounts) -> str:
    """Returns what of some counts is not in others as text, without all that both have."""
    differing = {name: _without(counts[name], others[name]) for name in SIDE_NAMES if name in counts and name in others}
    differing |= {name: counts[name] for name in counts if name not in others}
    differing = {name: side for name, side in differing.items() if side.names or side.nameless}
    texts = [str(fields_of({name: _first(side) for name, side in differing.items()}))] if differing else []
    if (left := sum(max(0, len(side.names) - _NAMES_SHOWN_MAX) for side in differing.values())) > 0:
        texts.append(f"{left} more")
    texts += [f"more than {NAMES_MAX} {name} schemas" for name in SIDE_NAMES if name in others and name not in counts]
    return " and ".join(texts) or "no others"


def _without(counts: SideCounts, others: SideCounts) -> SideCounts:
    return SideCounts(
        nameless={framing: seen for framing, seen in counts.nameless.items() if others.nameless.get(framing) != seen},
        names={name: seen for name, seen in counts.names.items() if others.names.get(name) != seen},
    )


def _first(counts: SideCounts) -> SideCounts:
    names = sorted(counts.names.items(), key=lambda item: item[1].first_offset)[:_NAMES_SHOWN_MAX]
    return SideCounts(nameless=counts.nameless, names=dict(names))


def _side(fields: object) -> SideCounts:
    if not isinstance(fields, dict):
        raise TypeError(f"not an object: {fields!r}")
    nameless = {Framing(name): _seen(value) for name, value in fields.items() if name not in (_IDS, _GUIDS)}
    names: dict[SchemaName, Seen] = {_id(name): _seen(seen) for name, *seen in fields.get(_IDS, [])}
    names |= {UUID(name): _seen(seen) for name, *seen in fields.get(_GUIDS, [])}
    if len(names) != len(fields.get(_IDS, [])) + len(fields.get(_GUIDS, [])):
        raise ValueError("a schema id twice")
    return SideCounts(nameless=nameless, names=names)


def _id(value: object) -> int:
    if type(value) is not int or not ID_MIN <= value <= ID_MAX:
        raise ValueError(f"not a schema id: {value!r}")
    return value


def _seen(value: list[object]) -> Seen:
    records, first_offset = value
    if type(records) is not int or type(first_offset) is not int or records < 1:
        raise ValueError(f"not a number of records with their first offset: {value!r}")
    return Seen(records, first_offset)
