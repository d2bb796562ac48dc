"""All kinds of destination there are: one row each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.archive import ArchiveKind
from mirrorlake.kinds.kind import Kind, Look
from mirrorlake.kinds.mapped import MapKind
from mirrorlake.kinds.preserve import PreserveKind
from mirrorlake.kinds.snapshots import SnapshotKind
from mirrorlake.kinds.standing import Position, Standing
from mirrorlake.together import all_of
from mirrorlake.topics.targets import Target

T = TypeVar("T")

LOOKS_AT_ONCE = 8

KINDS: tuple[Kind, ...] = (
    PreserveKind(),
    MapKind(),
    ArchiveKind(),
    SnapshotKind(),
)
"""The first that takes a destination has it: a kind of some destinations of a type comes before the type's own."""


def kind_of(destination: Destination) -> Kind:
    """Returns the kind of a configured destination: the first that takes it.

    Raises:
        TypeError: no kind takes it; a mistake of ours.
    """
    for kind in KINDS:
        if kind.takes(destination):
            return kind
    raise TypeError(f"destination {destination.label} is of no kind")


async def read_positions(targets: Sequence[Target], clients: WorkerCache) -> Mapping[int, Position | MirrorlakeError]:
    """Returns where targets stand, by their index, all kinds side by side; those that cannot be asked are left out."""
    groups = _by_kind((target, target) for target in targets)
    return _merged(await all_of(kind.positions(group, clients) for kind, group in groups))


async def look_at_destinations(rows: Sequence[Standing], clients: WorkerCache) -> list[Look]:
    """Returns a look for each row: one of its own where a destination holds something that can be compared.

    Rows with an error have one already, and are not looked at.
    """
    groups = _by_kind((row.target, row) for row in rows)
    found = _merged(
        await all_of(
            kind.looks({n: row for n, row in group.items() if row.error is None}, clients, at_once=LOOKS_AT_ONCE)
            for kind, group in groups
        )
    )
    return [found.get(n, Look(is_new=row.position == 0 and row.mapped is None)) for n, row in enumerate(rows)]


def _by_kind(pairs: Iterable[tuple[Target, T]]) -> list[tuple[Kind, dict[int, T]]]:
    """Returns numbered values by the kind of their target's destination."""
    groups: dict[Kind, dict[int, T]] = defaultdict(dict)
    for number, (target, value) in enumerate(pairs):
        groups[kind_of(target.destination)][number] = value
    return list(groups.items())


def _merged(parts: Iterable[Mapping[int, T]]) -> dict[int, T]:
    return {number: value for part in parts for number, value in part.items()}
