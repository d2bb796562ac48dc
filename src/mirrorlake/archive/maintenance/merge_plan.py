"""Which neighbouring segments become one: a pure function of one look at a folder, the rules, and the time.

There are no levels. A step says how old files must be and how large what is made of them may be; the largest step goes
first, so that what is old enough is written once. A file goes into another only where that makes it at least twice as
large, so a record is rewritten at most as often as its file can double before it reaches a step's size, and as every
merge leaves fewer files, it comes to an end.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.look import FolderLook, are_at_odds, holds, overlap
from mirrorlake.archive.names import MergeName
from mirrorlake.offsets import OffsetRange

MERGED_BYTES_MAX = 4 << 30
"""What a step may make at most: one conditional put holds 5 GiB on S3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStep:
    """Files that were published ``min_age_seconds`` ago or earlier become files of at most ``bytes_max``.

    Bytes are those of the inputs as they lie in the store.

    Raises:
        ValueError: a negative age, or a size that is none.
    """

    min_age_seconds: float
    bytes_max: int

    def __post_init__(self) -> None:
        if self.min_age_seconds < 0 or not 1 <= self.bytes_max <= MERGED_BYTES_MAX:
            raise ValueError(f"not a step: {self.min_age_seconds} s, {self.bytes_max} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """What is merged: ``files_min`` to ``files_max`` neighbours of together at least ``bytes_min``, by ``steps``.

    ``keep_inputs_seconds`` is how long inputs stay beside what was made of them.

    Raises:
        ValueError: no step, or bounds that nothing can keep.
    """

    steps: tuple[MergeStep, ...]
    files_min: int = 3
    files_max: int = 1000
    bytes_min: int = 1 << 20
    keep_inputs_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("merging needs at least one step")
        if not 2 <= self.files_min <= self.files_max:
            raise ValueError(f"no number of files lies between {self.files_min} (at least 2) and {self.files_max}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeGroup:
    """Neighbours that become one segment. ``is_unfinished`` where a merger announced it, or part of it, and died."""

    inputs: tuple[Segment, ...]
    is_unfinished: bool = False

    @property
    def offsets(self) -> OffsetRange:
        """The range of what is made of them."""
        return OffsetRange(start_offset=self.inputs[0].name.from_offset, end_offset=self.inputs[-1].name.end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of the inputs as they lie in the store."""
        return sum(each.size_bytes for each in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What to merge, in offset order; ``reason`` says why not more where there is nothing, else it is empty."""

    groups: tuple[MergeGroup, ...] = ()
    reason: str = ""


def plan_merge(look: FolderLook, rules: MergeRules, *, now_seconds: float, barriers: Iterable[int] = ()) -> MergePlan:
    """Returns which segments of a folder become one.

    Never the newest segment. Groups are disjoint, each a whole run of neighbours, none larger than the largest step.
    What a merger announced and did not finish comes first, whatever the rules say of ages and numbers: until it is done
    nothing that overlaps it can be. Only what is larger than a step together is left: its segments are merged by the
    rules, where that is no harm to whoever announced it.

    Args:
        look: the folder.
        rules: what is merged.
        now_seconds: the wall clock, in Unix seconds.
        barriers: offsets that no group may reach across, as where the source changes.
    """
    older = look.chain[:-1]
    if not older:
        return MergePlan(reason="there is nothing but the newest segment")
    bytes_max = max(step.bytes_max for step in rules.steps)
    unfinished, held, cuts = _announced(look, now_seconds, bytes_max=bytes_max)
    taken = {segment.name.from_offset for group in unfinished for segment in group.inputs} | held
    groups = list(unfinished)
    for step in sorted(rules.steps, key=lambda each: each.bytes_max, reverse=True):
        oldest_allowed = now_seconds - step.min_age_seconds
        for run in _runs(older, taken, {*barriers, *cuts}):
            for aged in _aged_runs(run, step, oldest_allowed):
                for group in _windows(aged, step, rules):
                    groups.append(group)
                    taken |= {segment.name.from_offset for segment in group.inputs}
    if groups:
        return MergePlan(groups=tuple(sorted(groups, key=lambda each: each.offsets.start_offset)))
    return MergePlan(reason=_reason(older, rules, now_seconds=now_seconds))


def _announced(look: FolderLook, now_seconds: float, *, bytes_max: int) -> tuple[list[MergeGroup], set[int], set[int]]:
    """Returns what is to be finished, the starts of segments that have to stay meanwhile, and where no group may cross.

    Whoever announced something may still publish it, however late. What holds all of it is no harm then, nor is what
    lies inside of it, nor beside; what overlaps it in part would be. So overlapping announcements become one group, out
    to where segments begin and end. An eraser that may live is waited for.
    """
    groups, held, cuts = [], set[int](), set[int]()
    erasing = [name.offsets for name, _ in look.live_merges(now_seconds) if name.erases]
    for span in announced_spans(look):
        touched = [each for each in look.chain if overlap(each.name.offsets, span)]
        parts = look.parts_of(span)
        is_waited_for = any(overlap(span, each) for each in erasing)
        if parts is None or parts[-1] == look.newest or len(parts) < 2 or is_waited_for:
            # Retired in part, or into the newest segment: to be left until retention or the source has moved on.
            held |= {each.name.from_offset for each in touched}
        elif sum(each.size_bytes for each in parts) > bytes_max:
            held |= {each.name.from_offset for each in parts if _reaches(look, each) is None}
            cuts |= {each.name.from_offset for one, each in itertools.pairwise(parts) if _differ(look, one, each)}
            cuts.add(span.start_offset)
            cuts.add(span.end_offset)
        else:
            groups.append(MergeGroup(inputs=parts, is_unfinished=True))
    return groups, held, cuts


def _differ(look: FolderLook, one: Segment, other: Segment) -> bool:
    """Tells whether two neighbours together overlap something in part that was announced."""
    return _reaches(look, one) != _reaches(look, other)


def _reaches(look: FolderLook, segment: Segment) -> frozenset[MergeName] | None:
    """Returns the announcements that hold a segment; None where one overlaps it in part."""
    touching = [each for each in look.merges if overlap(each.offsets, segment.name.offsets)]
    if any(are_at_odds(each.offsets, segment.name.offsets) for each in touching):
        return None
    return frozenset(each for each in touching if holds(each.offsets, segment.name.offsets))


def announced_spans(look: FolderLook) -> list[OffsetRange]:
    """Returns what was announced and is not done, out to whole segments, what overlaps as one; in order and apart."""
    spans = [
        each.offsets
        for each in look.merges
        if look.holding(each.offsets) is None and each.offsets.end_offset > look.chain[0].name.from_offset
    ]
    while (wider := _joined(_widened(look, spans))) != spans:
        spans = wider
    return spans


def _widened(look: FolderLook, spans: list[OffsetRange]) -> list[OffsetRange]:
    """Returns the spans out to the ends of the segments they touch."""
    wider = []
    for span in spans:
        inside = [each.name for each in look.chain if overlap(each.name.offsets, span)]
        start = min([span.start_offset, *(name.from_offset for name in inside)])
        end = max([span.end_offset, *(name.end_offset for name in inside)])
        wider.append(OffsetRange(start_offset=start, end_offset=end))
    return wider


def _joined(spans: list[OffsetRange]) -> list[OffsetRange]:
    """Returns the spans in order, those that overlap as one."""
    joined: list[OffsetRange] = []
    for span in sorted(spans, key=lambda each: each.start_offset):
        if joined and span.start_offset < joined[-1].end_offset:
            end = max(joined[-1].end_offset, span.end_offset)
            joined[-1] = OffsetRange(start_offset=joined[-1].start_offset, end_offset=end)
        else:
            joined.append(span)
    return joined


def _runs(segments: Sequence[Segment], taken: set[int], barriers: set[int]) -> Iterator[list[Segment]]:
    """Yields the segments that nobody has taken, in runs of neighbours that may become one."""
    run: list[Segment] = []
    for segment in segments:
        start = segment.name.from_offset
        if run and (start in taken or start in barriers):
            yield run
            run = []
        if start not in taken:
            run.append(segment)
    if run:
        yield run


def _aged_runs(run: Sequence[Segment], step: MergeStep, oldest_allowed: float) -> Iterator[list[Segment]]:
    """Yields the parts of a run in which every segment is old and small enough for a step."""

    def is_taken(segment: Segment) -> bool:
        when = segment.modified_seconds
        is_old = step.min_age_seconds == 0 or (when is not None and when <= oldest_allowed)
        return is_old and segment.size_bytes < step.bytes_max

    for is_wanted, part in itertools.groupby(run, key=is_taken):
        if is_wanted:
            yield list(part)


def _windows(run: Sequence[Segment], step: MergeStep, rules: MergeRules) -> Iterator[MergeGroup]:
    """Yields groups from left to right, each as large as step and rules let it be."""
    ends = list(itertools.accumulate(each.size_bytes for each in run))
    start = 0
    while start + rules.files_min <= len(run):
        before = ends[start - 1] if start else 0
        stop = min(bisect_right(ends, before + step.bytes_max), start + rules.files_max)
        total = ends[stop - 1] - before if stop > start else 0
        inputs = tuple(run[start:stop])
        is_enough = len(inputs) >= rules.files_min and total >= rules.bytes_min
        if is_enough and total >= 2 * max(each.size_bytes for each in inputs):
            yield MergeGroup(inputs=inputs)
            start = stop
        else:
            start += 1


def _reason(older: Sequence[Segment], rules: MergeRules, *, now_seconds: float) -> str:
    """Returns why nothing is merged, in words."""
    small = [each for each in older if any(each.size_bytes < step.bytes_max for step in rules.steps)]
    if not small:
        return "every segment is as large as the largest step"
    aged = [each for each in small if any(_is_aged(each, step, now_seconds) for step in rules.steps)]
    if not aged:
        return "no segment is old enough yet"
    if len(aged) < rules.files_min:
        return f"fewer than {rules.files_min} segments are old enough"
    return "no neighbours are together large enough, and twice as large as the largest of them"


def _is_aged(segment: Segment, step: MergeStep, now_seconds: float) -> bool:
    when = segment.modified_seconds
    return step.min_age_seconds == 0 or (when is not None and when <= now_seconds - step.min_age_seconds)
