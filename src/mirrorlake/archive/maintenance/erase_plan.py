"""Which segments an erasure rewrites: a pure function of a look at a folder, of which hold the keys, and the time.

A name means one content for ever, to readers, mergers and whoever remembers one. So no segment is replaced under its
own name: one that holds a key goes together with a neighbour into a segment of a new name, as in a merge.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.look import MERGE_SECONDS_MAX, FolderLook, overlap
from mirrorlake.archive.maintenance.merge_plan import MERGED_BYTES_MAX, announced_spans
from mirrorlake.archive.maintenance.on_hold import HoldsOf, no_holds
from mirrorlake.archive.names import SegmentName
from mirrorlake.offsets import OffsetRange

NEWEST = "it is the newest segment, which is the position: as soon as the next one is written, run again"
RETIRED = "retention has passed it and has not deleted it yet: run again, which deletes it"
NO_NEIGHBOUR = "it has no neighbour but the newest segment: as soon as the next one is written, run again"

NEIGHBOURS_STAY = "its neighbours have to stay as they are, or are of another source: once that has changed, run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseGroup:
    """Neighbours, two at least, that become one segment; or a snapshot alone.

    ``holding`` are those with a key: none where it is for an eraser that may be dead and has announced the range.
    ``note`` is what is to be said of it.
    """

    inputs: tuple[Segment, ...]
    holding: tuple[SegmentName, ...] = ()
    note: str = ""

    @property
    def offsets(self) -> OffsetRange:
        """The range of what is made of them."""
        return OffsetRange(start_offset=self.inputs[0].name.from_offset, end_offset=self.inputs[-1].name.end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of the inputs as they lie in the store."""
        return sum(each.size_bytes for each in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A segment that holds a key and stays for now; ``reason`` says why, and what has to happen.

    ``until_seconds`` is when it can be erased, in Unix seconds; None where no time is known.
    """

    segment: Segment
    reason: str
    until_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePlan:
    """What is rewritten, and what waits, both in offset order. Every segment that holds a key is in one of them."""

    groups: tuple[EraseGroup, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class _Unit:
    """Segments that go together or not at all; ``closed`` says why they cannot go, None where they can."""

    segments: tuple[Segment, ...]
    holding: tuple[SegmentName, ...]
    closed: Waiting | None = None
    is_announced: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.segments)


def plan_erasure(
    look: FolderLook,
    holding: Collection[SegmentName],
    *,
    now_seconds: float,
    keep_seconds: float = 0.0,
    holds: HoldsOf = no_holds,
    barriers: Iterable[int] = (),
    bytes_max: int = MERGED_BYTES_MAX,
) -> ErasePlan:
    """Returns what is rewritten, and what has to wait.

    Each segment that holds a key goes with the next one where that holds one too, else with its smaller neighbour.
    Never the newest segment. What other erasers have announced is rewritten whole, with or without a key in it: what
    one of them publishes late is covered then.

    Args:
        look: the folder.
        holding: the names of the segments that hold a key, of covered and retired ones too.
        now_seconds: the wall clock, in Unix seconds.
        keep_seconds: how long what is covered stays.
        holds: asked for the holds of what is to be rewritten; to a pure plan it answers from what was read.
        barriers: offsets that no group may reach across, as where the source changes.
        bytes_max: what the inputs of a group may be together.
    """
    held = frozenset(holding)
    waiting = list(_newest_covered_and_retired(look, held, now_seconds=now_seconds, keep_seconds=keep_seconds))
    groups: list[EraseGroup] = []
    for run in _runs(_units(look, held, now_seconds, holds, bytes_max), set(barriers)):
        taken = _grouped(run, bytes_max)
        groups += [_group(each) for each in taken]
        done = {name for unit in itertools.chain(*taken) for name in unit.holding}
        for unit in run:
            waiting += [
                Waiting(segment=each, reason=_alone(run, bytes_max, is_alone=len(look.chain) <= 2))
                for each in unit.segments
                if each.name in unit.holding and each.name not in done
            ]
    for unit in _units(look, held, now_seconds, holds, bytes_max):
        if (why := unit.closed) is not None:
            waiting += [
                Waiting(segment=each, reason=why.reason, until_seconds=why.until_seconds)
                for each in unit.segments
                if each.name in held
            ]
    return ErasePlan(
        groups=tuple(sorted(groups, key=lambda each: each.offsets)),
        waiting=tuple(sorted(waiting, key=lambda each: each.segment.name)),
    )


def _newest_covered_and_retired(
    look: FolderLook, holding: frozenset[SegmentName], *, now_seconds: float, keep_seconds: float
) -> Iterator[Waiting]:
    if look.newest is not None and look.newest.name in holding:
        yield Waiting(segment=look.newest, reason=NEWEST)
    for each in look.covered:
        if each.segment.name in holding:
            # What covers it may be rewritten now, and is as young as that then.
            yield Waiting(
                segment=each.segment,
                reason="a larger segment holds it, and `keep-inputs` keeps it for a while: run again then",
                until_seconds=now_seconds + keep_seconds,
            )
    for retired in look.retired:
        if retired.name in holding:
            yield Waiting(segment=retired, reason=RETIRED)


def _units(
    look: FolderLook, holding: frozenset[SegmentName], now_seconds: float, holds: HoldsOf, bytes_max: int
) -> list[_Unit]:
    """Returns the chain without its newest segment, what was announced as one."""
    spans = announced_spans(look) if look.chain else []
    units: list[_Unit] = []
    for _, found in itertools.groupby(look.chain, key=lambda each: _span_of(each, spans) or each.name.offsets):
        segments = tuple(each for each in found if each != look.newest)
        if segments:
            span = _span_of(segments[0], spans)
            units.append(
                _Unit(
                    segments,
                    tuple(each.name for each in segments if each.name in holding),
                    closed=_closed(look, segments, span, now_seconds, holds, bytes_max),
                    is_announced=span is not None,
                )
            )
    return units


def _span_of(segment: Segment, spans: Sequence[OffsetRange]) -> OffsetRange | None:
    return next((each for each in spans if overlap(segment.name.offsets, each)), None)


def _closed(
    look: FolderLook,
    segments: Sequence[Segment],
    span: OffsetRange | None,
    now_seconds: float,
    holds: HoldsOf,
    bytes_max: int,
) -> Waiting | None:
    labels = dict.fromkeys(label for each in segments for label in holds(each.name.offsets))
    if labels:
        return Waiting(segment=segments[0], reason=f"held by {', '.join(labels)}: once that is lifted, run again")
    if span is None:
        return None
    merging = [time for name, time in look.live_merges(now_seconds) if not name.erases and overlap(name.offsets, span)]
    if merging:
        known = [time for time in merging if time is not None]
        return Waiting(
            segment=segments[0],
            reason="a merger has announced its range: once that is done (`archive merge` finishes what one left), or "
            "is a day old, run again",
            until_seconds=max(known) + MERGE_SECONDS_MAX if known else None,
        )
    if look.parts_of(span) != tuple(segments) or len(segments) < 2:
        reason = "a range that was announced and holds it was retired in part: once retention has passed it, run again"
        return Waiting(segment=segments[0], reason=reason)
    if sum(each.size_bytes for each in segments) > bytes_max:
        # Each may yet be published by who announced it, with the records in it: only all of them at once are safe.
        names = [
            str(each) for each in look.merges if overlap(each.offsets, span) and look.holding(each.offsets) is None
        ]
        return Waiting(
            segment=segments[0],
            reason=f"ranges that were announced overlap, and reach over more than {bytes_max} bytes, which no store "
            f"takes at once: where who announced them is certainly dead, delete {', '.join(names)}, and run again",
        )
    return None


def _runs(units: Sequence[_Unit], barriers: set[int]) -> Iterator[list[_Unit]]:
    """Yields the units that can be rewritten, in runs of neighbours that may become one."""
    run: list[_Unit] = []
    for unit in units:
        if run and (unit.closed is not None or unit.segments[0].name.from_offset in barriers):
            yield run
            run = []
        if unit.closed is None:
            run.append(unit)
    if run:
        yield run


def _grouped(run: Sequence[_Unit], bytes_max: int) -> list[list[_Unit]]:
    """Returns which units of a run become one segment: as few of each as there can be."""
    groups: list[list[_Unit]] = []
    place: dict[int, list[_Unit]] = {}

    def fits(index: int, size_bytes: int) -> bool:
        return 0 <= index < len(run) and run[index].size_bytes + size_bytes <= bytes_max

    for index, unit in enumerate(run):
        if index in place or not (unit.holding or unit.is_announced):
            continue
        group = [unit]
        if len(unit.segments) < 2:
            free = [at for at in (index + 1, index - 1) if at not in place and fits(at, unit.size_bytes)]
            free.sort(key=lambda at: (not run[at].holding or at < index, run[at].size_bytes))
            if free:
                group = [run[at] for at in sorted((index, free[0]))]
                place[free[0]] = group
            elif (before := place.get(index - 1)) and _size(before) + unit.size_bytes <= bytes_max:
                before.append(unit)
                place[index] = before
                continue
            else:
                continue
        place[index] = group
        groups.append(group)
    return groups


def _size(units: Sequence[_Unit]) -> int:
    return sum(each.size_bytes for each in units)


def _group(units: Sequence[_Unit]) -> EraseGroup:
    return EraseGroup(
        inputs=tuple(each for unit in units for each in unit.segments),
        holding=tuple(name for unit in units for name in unit.holding),
    )


def _alone(run: Sequence[_Unit], bytes_max: int, *, is_alone: bool) -> str:
    """Returns why a segment of a run that can be rewritten is in no group."""
    if len(run) > 1:
        return f"it would become larger than {bytes_max} bytes with either neighbour, which no store takes at once"
    return NO_NEIGHBOUR if is_alone else NEIGHBOURS_STAY
