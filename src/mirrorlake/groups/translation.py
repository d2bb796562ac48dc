"""Where a group goes on at another cluster, from where it stood at the first. Pure.

The rule for both modes: no record that the group has not read lies before the offset it gets, and it reads again no
more than it must. Where that cannot be told, no offset is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirrorlake.destinations.map.offset_map import OffsetMap
from mirrorlake.offsets import OffsetRange, TopicPartition


class Placed(NamedTuple):
    """The offset a group gets; ``note`` says what is not as it was, empty where all is.

    A tuple, as there is one for each group and partition.
    """

    offset: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Which offset it should get cannot be told, and why."""

    why: str


Translation = Placed | Unknown


def translate_equal(offset: int, held: OffsetRange) -> Placed:
    """Returns where a group goes on in a copy with equal offsets.

    Args:
        offset: that the group has committed at the source.
        held: from the copy's log start to its end.
    """
    return _within(Placed(offset=offset), held)


def translate_mapped(offset: int, mapping: OffsetMap | None, held: OffsetRange) -> Translation:
    """Returns where a group goes on in a copy whose offsets are mapped.

    That is where the record at its offset lies, else the next one that was copied, or one that follows where that was
    copied before it; behind the last one where there is none.

    Args:
        offset: that the group has committed at the source.
        mapping: of the source partition; None where nothing is known of a copy.
        held: from the log start to the end of the destination partition, other writers' records included.
    """
    if mapping is None:
        return Unknown(why="no offset map names its records")
    found = _in_map(offset, mapping, held)
    if isinstance(found, Placed) and found.offset > held.end_offset:
        return Unknown(why=f"the destination ends at offset {held.end_offset}, and its place there is {found.offset}")
    return _within(found, held) if isinstance(found, Placed) else found


def _in_map(offset: int, mapping: OffsetMap, held: OffsetRange) -> Translation:
    place, exact = mapping.place_from(offset), mapping.destination_of(offset)
    if exact is not None and place is not None:
        note = "" if place == exact else "records that follow its own were copied before it"
        return Placed(offset=place, note=note)
    covered = mapping.covered
    note = ""
    if offset < covered.start_offset:
        note = f"the copy begins {covered.start_offset - offset} offset(s) later"
    elif offset > covered.end_offset:
        note = _lacks(offset - covered.end_offset)
    if place is not None:
        return Placed(offset=place, note=note)
    if mapping.runs:
        return Placed(offset=mapping.destination_range.end_offset, note=note)
    if held.start_offset == held.end_offset:
        return Placed(offset=held.end_offset, note=note)
    return Unknown(why="none of its records was copied, and the destination partition holds others")


def _within(placed: Placed, held: OffsetRange) -> Placed:
    """Returns an offset that a consumer finds: it would begin anew at one outside the log, or pass over all of it."""
    if placed.offset > held.end_offset:
        return Placed(offset=held.end_offset, note=_lacks(placed.offset - held.end_offset))
    if placed.offset < held.start_offset:
        gone = f"the log begins {held.start_offset - placed.offset} offset(s) later"
        return Placed(offset=held.start_offset, note="; ".join(filter(None, (placed.note, gone))))
    return placed


def _lacks(offsets: int) -> str:
    return f"the group had read {offsets} offset(s) more than there are"


def together(translations: Mapping[TopicPartition, Translation | None]) -> Translation:
    """Returns where a group goes on in a partition that holds records of several source partitions.

    That is the lowest of their places, so that no record is passed over; those it has read of the others it reads
    again.

    Args:
        translations: by source partition, all that are copied there; None where the group has no offset of one.
    """
    placed: list[Placed] = []
    for source, found in translations.items():
        if found is None:
            return Unknown(why=f"records of {source} lie there too, and the group had no offset of it")
        if isinstance(found, Unknown):
            return Unknown(why=found.why if len(translations) == 1 else f"of {source}: {found.why}")
        placed.append(found)
    lowest = min(placed, key=lambda each: each.offset)
    if len({each.offset for each in placed}) == 1:
        return lowest
    note = f"the lowest of {len(placed)} source partitions"
    return Placed(offset=lowest.offset, note="; ".join(filter(None, (lowest.note, note))))
