"""Which moves are asked for, and what stands against each: all of it is known before the first is written. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.destinations.map.moves import ProgressMove, begun_at, moved
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.errors import DestinationAheadError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.service.positions.files import Fault, PositionLine
from mirrorlake.service.positions.listing import is_unread, name_of, offset_of
from mirrorlake.service.status import StatusRow

Cell = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A row that is to stand at ``offset``; None forgets the position: the copy begins where `start` says.

    ``line`` of the file that asks for it, 0 without one.
    """

    row: StatusRow
    offset: int | None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A position that is moved from ``before``, None where nothing was begun, to ``after``."""

    row: StatusRow
    before: int | None
    after: int

    @property
    def action(self) -> str:
        """What is done, in a word or two."""
        if self.before is None:
            return "begin"
        return "move forward" if self.after > self.before else "move back"

    @property
    def note(self) -> str:
        """What becomes of the records between."""
        if self.before is None:
            return "the copy begins there"
        if self.after > self.before:
            return f"offsets {self.before}…{self.after - 1} are skipped: they are not copied, and the map has a hole"
        return (
            f"offsets {self.after}…{self.before - 1} are copied once more, at new offsets; the map keeps naming the "
            "first copies"
            if self._has_copied
            else "nothing was copied yet"
        )

    @property
    def _has_copied(self) -> bool:
        progress = self.progress
        return progress is not None and progress.destination_end > 0

    @property
    def progress(self) -> MapProgress | None:
        """The progress as it was read, None where there is none."""
        return self.row.mapped.progress if self.row.mapped is not None else None

    @property
    def key(self) -> ProgressKey:
        """Whose progress it is."""
        return ProgressKey(destination_topic=self.row.target.destination_topic, source=self.row.target.source)

    @property
    def written(self) -> ProgressMove:
        """What is to be written."""
        target, progress = self.row.target, self.progress
        after = (
            moved(progress, self.after)
            if progress is not None
            else begun_at(
                self.after,
                source_cluster_id=target.source_cluster_id,
                source_topic_id=target.topic_id,
                destination_topic_id=target.destination_topic_id,
                destination_partition=target.destination_partition.partition,
            )
        )
        return ProgressMove(key=self.key, before=progress, after=after)

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of a table, or of ``--format json``; ``before`` is null where nothing was begun."""
        return {
            **self.row.target.as_json(),
            "before": self.before,
            "after": self.after,
            "action": self.action,
            "note": self.note,
        }


def wishes_of(lines: Sequence[PositionLine], rows: Sequence[StatusRow]) -> tuple[list[Wish], list[Fault]]:
    """Returns what the lines of a file ask for, and those that name what is not there, or name it twice.

    Args:
        lines: of the file.
        rows: of all mirrors, as they stand.
    """
    by_place = {(name_of(row.target), row.target.source.topic, row.target.source.partition): row for row in rows}
    wishes: list[Wish] = []
    faults: list[Fault] = []
    seen: dict[tuple[str, str, int], int] = {}
    for each in lines:
        place = each.name, each.topic, each.partition
        if place in seen:
            faults.append(Fault(line=each.line, text=f"says again what line {seen[place]} is about"))
        elif place not in by_place:
            faults.append(Fault(line=each.line, text=_what_is_unknown(each, rows)))
        else:
            wishes.append(Wish(row=by_place[place], offset=each.offset, line=each.line))
        seen.setdefault(place, each.line)
    return wishes, faults


def _what_is_unknown(line: PositionLine, rows: Sequence[StatusRow]) -> str:
    of_name = [row.target for row in rows if name_of(row.target) == line.name]
    if not of_name:
        meant = sorted({name_of(row.target) for row in rows if row.target.mirror.name == line.name})
        if meant:
            return f"mirror {line.name} has several destinations: write {' or '.join(meant)}"
        return f"there is no mirror {line.name} that is enabled"
    if all(target.source.topic != line.topic for target in of_name):
        return f"{line.name} does not copy topic {line.topic}"
    return f"topic {line.topic} has no partition {line.partition} that {line.name} copies"


def judged(wish: Wish, starts: Mapping[int, int | str]) -> Move | Fault | None:
    """Returns the move that fulfils a wish, None where it stands there, or what stands against it.

    Args:
        wish: that is asked for.
        starts: by the identity of the wish's row, where `start` has a copy begin, or why that is not known.
    """
    row, before = wish.row, offset_of(wish.row)
    if is_unread(row):
        return _fault(wish, f"where it stands could not be read: {row.error}")
    if wish.offset == before:
        return None
    if (immovable := kind_of(row.target.destination).immovable(row.target)) is not None:
        asked = "none" if wish.offset is None else str(wish.offset)
        return _fault(wish, f"asked for {asked}, it stands at {before}: {immovable}")
    if why := _why_not_now(row):
        return _fault(wish, why)
    after = wish.offset if wish.offset is not None else starts[id(row)]
    if isinstance(after, str):
        return _fault(wish, after)
    start, end = row.source_start, row.source_end
    if start is None or end is None:
        return _fault(wish, f"where {row.target.source} begins and ends could not be read")
    if not start <= after <= end:
        return _fault(wish, f"offset {after} of {row.target.source} is outside of the source, which has {start}…{end}")
    return None if after == before else Move(row=row, before=before, after=after)


def _why_not_now(row: StatusRow) -> str:
    """Returns why a position that could be moved is not, as things stand; empty where it is."""
    target = row.target
    if row.error is not None and not isinstance(row.error, DestinationAheadError):
        return f"it is not moved while this stands against it: {row.error}"
    if target.is_to_be_made or not target.destination_topic_id:
        return (
            f"destination topic {target.destination_topic} is not there yet: make it first, or give the mirror `start`"
        )
    if not target.is_due:
        return f"{target.source} has no record for this mirror yet"
    return ""


def _fault(wish: Wish, text: str) -> Fault:
    return Fault(line=wish.line, text=f"{name_of(wish.row.target)} {wish.row.target.source}: {text}")
