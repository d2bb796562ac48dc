"""All kinds of destination there are: those that the rows of the types name."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pkgutil import resolve_name
from typing import TypeVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.registry import DESTINATION_TYPES
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.kind import Kind, Look
from mirrorlake.kinds.standing import Position, Standing
from mirrorlake.together import all_of
from mirrorlake.topics.targets import Target

T = TypeVar("T")

LOOKS_AT_ONCE = 8


def kinds_of(type_name: str) -> tuple[Kind, ...]:
    """Returns the kinds of a type, the same objects every time, in the order of its row.

    Raises:
        TypeError: the row names something else; a mistake of ours.
    """
    return tuple(map(_kind, DESTINATION_TYPES[type_name].kinds))


def kind_of(destination: Destination) -> Kind:
    """Returns the kind of a configured destination: the first of its type that takes it.

    Raises:
        TypeError: no kind takes it; a mistake of ours.
    """
    for kind in kinds_of(destination.type_in_file):
        if kind.takes(destination):
            return kind
    raise TypeError(f"destination {destination.label} is of no kind")


@cache
def _kind(name: str) -> Kind:
    kind = resolve_name(name)()
    if not isinstance(kind, Kind):
        raise TypeError(f"{name} is no kind of destination")
    return kind


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
