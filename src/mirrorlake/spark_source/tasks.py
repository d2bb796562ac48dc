"""Which pieces of partitions one Spark task reads. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mirrorlake.offsets import OffsetRange

FILE_COST_BYTES = 256 << 10
"""What opening one more file costs, as bytes read: some milliseconds."""

TASK_BYTES_MAX = 128 << 20
"""What one task reads of an archive at most, to within one file; Spark's own file sources have the same."""

NO_LIMIT = 2**63
"""Of a task that costs no memory however long it reads."""

TASK_OFFSETS_MIN = 100_000
"""A range of live Kafka below which another task costs more than it gains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some offsets of one partition, in one file of an archive, or in a log.

    Attributes:
        topic: what the column says.
        partition: likewise.
        offsets: which.
        folder: of the topic in an archive; empty for live Kafka.
        file: the segment's name as it was planned; a larger one may cover it by now. Empty for live Kafka.
        is_snapshot: whether the file is a view and not a range.
        topic_id: what the topic must have still when a log is read; empty where it was not told.
        cost: bytes of a file, or offsets of a log.
    """

    topic: str
    partition: int
    offsets: OffsetRange
    folder: str = ""
    file: str = ""
    is_snapshot: bool = False
    topic_id: str = ""
    cost: int = 0


def grouped(pieces: Sequence[Piece], *, tasks: int, cost_max: int, piece_cost: int = 0) -> list[tuple[Piece, ...]]:
    """Returns the pieces as tasks, in order: ``tasks`` of them or more, none above ``cost_max`` but for one piece.

    Args:
        pieces: in the order of topics, partitions, offsets.
        tasks: how many there should be, where there is enough to read.
        cost_max: of a task.
        piece_cost: of each piece, beside its own.
    """
    whole = sum(piece.cost + piece_cost for piece in pieces)
    limit = max(1, min(cost_max, -(-whole // max(1, tasks))))
    found: list[tuple[Piece, ...]] = []
    task: list[Piece] = []
    cost = 0
    for piece in pieces:
        more = piece.cost + piece_cost
        if task and cost + more > limit:
            found.append(tuple(task))
            task, cost = [], 0
        task.append(piece)
        cost += more
    return [*found, tuple(task)] if task else found


def grouped_for_counting(pieces: Sequence[Piece], *, tasks: int) -> list[tuple[Piece, ...]]:
    """Returns the pieces as tasks, in order, ``tasks`` of them or fewer: only the ends of files are read, of any size.

    Args:
        pieces: in the order of topics, partitions, offsets.
        tasks: how many there should be, where there are as many files.
    """
    return grouped([replace(piece, cost=0) for piece in pieces], tasks=tasks, cost_max=NO_LIMIT, piece_cost=1)


def split(pieces: Iterable[Piece], *, tasks: int) -> list[Piece]:
    """Returns ranges of logs cut so that ``tasks`` can read them side by side; short ones are left whole."""
    pieces = list(pieces)
    whole = sum(len(piece.offsets) for piece in pieces)
    step = max(TASK_OFFSETS_MIN, -(-whole // max(1, tasks)))
    found: list[Piece] = []
    for piece in pieces:
        start, end = piece.offsets.start_offset, piece.offsets.end_offset
        count = -(-(end - start) // step)
        for part in range(count):
            low = start + (end - start) * part // count
            high = start + (end - start) * (part + 1) // count
            offsets = OffsetRange(start_offset=low, end_offset=high)
            found.append(replace(piece, offsets=offsets, cost=high - low))
    return found
