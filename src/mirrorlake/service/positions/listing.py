"""Which positions there are, as files and tables of them name them. Pure; `status` reads them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mirrorlake.config.asked import check_asked
from mirrorlake.config.resolved import Configuration
from mirrorlake.service.positions.files import PositionLine
from mirrorlake.service.status import StatusRow
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows are asked for; an empty collection is all. Partitions are of the topics that are asked for."""

    mirrors: Collection[str] = ()
    destinations: Collection[str] = ()
    topics: Collection[str] = ()
    partitions: Collection[int] = ()

    def includes(self, target: Target) -> bool:
        """Returns whether a target is asked for."""
        return (
            (not self.mirrors or target.mirror.name in self.mirrors)
            and (not self.destinations or target.destination.label in self.destinations)
            and (not self.topics or target.source.topic in self.topics)
            and (not self.partitions or target.source.partition in self.partitions)
        )

    def check(self, config: Configuration) -> None:
        """Checks that the mirrors and destinations that are named exist: a name misspelt would ask for nothing.

        Raises:
            ConfigurationError: one does not.
        """
        check_asked(config, mirrors=self.mirrors, destinations=self.destinations)


def name_of(target: Target) -> str:
    """Returns how files name a mirror at a destination: the destination is said where there are several."""
    name = target.mirror.name
    return name if len(target.mirror.destinations) == 1 else f"{name}/{target.destination.label}"


def offset_of(row: StatusRow) -> int | None:
    """Returns the position of a row that could be read; None where nothing was begun, and no position is kept."""
    is_begun = row.mapped is None or row.mapped.progress is not None
    return row.position if is_begun and not row.target.is_to_be_made else None


def is_unread(row: StatusRow) -> bool:
    """Returns whether the position of a row could not be read: that is no position of none."""
    return row.target.source.partition == UNKNOWN_PARTITION or (row.position is None and row.error is not None)


def lines_of(rows: Sequence[StatusRow]) -> list[PositionLine]:
    """Returns the positions of all rows that could be read, in their order."""
    return [
        PositionLine(
            name=name_of(row.target),
            topic=row.target.source.topic,
            partition=row.target.source.partition,
            offset=offset_of(row),
        )
        for row in rows
        if not is_unread(row)
    ]
