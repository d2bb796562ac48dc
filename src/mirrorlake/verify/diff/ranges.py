"""Which offsets of two sides are compared, and which only one of them has. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.diff.values import LAST_END, Difference, How, Unread, Why

EVERYTHING = OffsetRange(start_offset=0, end_offset=LAST_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at a partition of one side has found; no record was read.

    Attributes:
        begin: retention has taken everything below.
        start: the first offset that may hold a record: an archive that was begun late says that its source had lost
            what lies below.
        end: where it ends, exclusive.
        identity: whose records it holds; another one where a topic or an archive was made anew.
        is_compacted: whether Kafka's log cleaner takes records of it, or took them before they were archived.
        snapshot: the file's name, of a partition that holds snapshots; empty where it has none yet, None of others.
        unread: what is known to be missing or cannot be made sense of.
    """

    begin: int
    start: int
    end: int
    identity: str
    is_compacted: bool = False
    snapshot: str | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """What is compared of a partition.

    ``compared`` is read of both sides. ``tail`` is what the longer side has behind the other's end, and which side that
    is, None where both end alike; ``retired`` are offsets that one side has and retention took of the other.
    """

    compared: OffsetRange
    tail: tuple[How, OffsetRange] | None
    retired: tuple[Difference, ...]
    unread: tuple[tuple[str, Unread], ...]


def ranges_of(a: Look, b: Look, asked: OffsetRange = EVERYTHING) -> Ranges:
    """Returns what is compared of two sides, within the offsets that were asked for."""
    end = min(a.end, b.end, asked.end_offset)
    start = max(a.begin, b.begin, min(a.start, b.start), asked.start_offset)
    compared = OffsetRange(start_offset=min(start, end), end_offset=end)
    retired = [
        Difference(offsets, 0, how, Why.RETIRED.value)
        for how, has, lacks in ((How.ONLY_A, a, b), (How.ONLY_B, b, a))
        if (offsets := _clipped(has.start, min(lacks.begin, has.end), asked))
    ]
    longer, how = (a, How.ONLY_A) if a.end > b.end else (b, How.ONLY_B)
    tail = _clipped(max(min(a.end, b.end), longer.start), longer.end, asked) if a.end != b.end else None
    shorter_begin = b.begin if longer is a else a.begin
    if tail is not None:
        tail = _clipped(max(tail.start_offset, shorter_begin), tail.end_offset, asked)
    unread = [(side, each) for side, look in (("a", a), ("b", b)) for each in _asked(look.unread, asked)]
    return Ranges(
        compared=compared,
        tail=None if tail is None else (how, tail),
        retired=tuple(retired),
        unread=tuple(unread),
    )


def _asked(unread: Sequence[Unread], asked: OffsetRange) -> Sequence[Unread]:
    return [each for each in unread if _clipped(each.offsets.start_offset, each.offsets.end_offset, asked)]


def _clipped(start: int, end: int, asked: OffsetRange) -> OffsetRange | None:
    start, end = max(start, asked.start_offset), min(end, asked.end_offset)
    return OffsetRange(start_offset=start, end_offset=end) if start < end else None
