"""How many records name which schema, and where the first one is: of a segment, or of any other run of records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirrorlake.kafka.schema_ids.framing import SIDE_NAMES, Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaName

NAMES_MAX = 1000
"""Ids and GUIDs that are counted of one side. Of a side with more nothing is said: what looks like ids is none."""

NAMELESS = (Framing.NULL, Framing.SHORT, Framing.NOT_FRAMED)
"""What can be told of a record that names no schema. All else depends on a registry, and on when it is asked."""


class Seen(NamedTuple):
    """How many records have something, at least one, and the lowest offset of such a record."""

    records: int
    first_offset: int

    def joined(self, other: "Seen | None") -> "Seen":
        """Returns this with what was seen elsewhere."""
        if other is None:
            return self
        return Seen(self.records + other.records, min(self.first_offset, other.first_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCounts:
    """What one side, keys or values, of some records has where a schema is named.

    Attributes:
        nameless: records that name no schema, by why; only of `NAMELESS`, and only what was seen.
        names: records by the id or GUID that they name.
    """

    nameless: Mapping[Framing, Seen]
    names: Mapping[SchemaName, Seen]

    @property
    def records(self) -> int:
        """How many records these are."""
        return sum(each.records for each in (*self.nameless.values(), *self.names.values()))


SchemaIdCounts = Mapping[str, SideCounts]
"""By ``key`` and ``value``; a side that is not there was not counted, and nothing is known of it."""


def sides_of(counts: SchemaIdCounts | None) -> int:
    """Returns which sides were counted: bit 0 for keys, bit 1 for values."""
    return sum(1 << side for side, name in enumerate(SIDE_NAMES) if counts is not None and name in counts)


def common_sides(parts: Iterable[SchemaIdCounts | None]) -> int:
    """Returns which sides were counted of each of several parts, likewise; none where there is no part."""
    sides = [sides_of(each) for each in parts]
    found = sides[0] if sides else 0
    for each in sides:
        found &= each
    return found
