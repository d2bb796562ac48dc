"""Reads blocks that differ record by record, as many as it takes to name what differs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.cleaned import Compacted, Suspect
from mirrorlake.verify.diff.details import Detail, differences_in
from mirrorlake.verify.diff.ranges import Look, Ranges
from mirrorlake.verify.diff.task import SideResult
from mirrorlake.verify.diff.values import Difference, How, Unread, Why
from mirrorlake.verify.diff.verdict import Tally
from mirrorlake.verify.slices import parts_of, slices
from mirrorlake.verify.worker import DigestTask, SourceSide

RUNS_MAX = 20
"""Differences that are named."""

PARTS_BEHIND_FIRST = 8
"""Parts of 16 blocks that are read behind the first difference: to name more, where they are not all different."""

SUSPECTS_MAX = 200_000
"""Records whose keys are looked for in the rest of both sides at one time: some 50 MB."""

Ask = Callable[[DigestTask], SideResult]
"""Runs one task; what goes wrong is in its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far each side goes, and what is compared."""

    a: Look
    b: Look
    ranges: Ranges


class BlockDetails:
    """What differs in some blocks of a pair, and behind the end of the shorter side.

    Args:
        sides: A and B.
        bounds: theirs.
        ask: runs a task.

    Attributes:
        unread: what could not be read in detail.
        is_complete: False where there may be more differences.
    """

    def __init__(self, sides: tuple[SourceSide, SourceSide], bounds: Bounds, *, ask: Ask) -> None:
        self.unread: list[tuple[str, Unread]] = []
        self.is_complete = True
        self._sides = sides
        self._bounds = bounds
        self._ask = ask
        self._compacted = Compacted(source=bounds.a.is_compacted, copy=bounds.b.is_compacted)
        self._found: list[Difference] = []
        self._explained = Tally()
        self._suspects: list[Suspect] = []

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What nothing explains, ascending, no more than are named."""
        return tuple(self._found)

    @property
    def explained(self) -> tuple[Difference, ...]:
        """What something explains."""
        return self._explained.runs()

    def run(self, blocks: Sequence[int]) -> None:
        """Reads blocks, and what the longer side has behind the end of the other."""
        behind = 0
        for offsets in parts_of(sorted(set(blocks)), self._bounds.ranges.compared):
            if len(self._found) >= RUNS_MAX or behind > PARTS_BEHIND_FIRST:
                self.is_complete = False
                break
            self._read(offsets)
            behind += bool(self._found)
        self._settle()
        self._read_tail()

    def _read(self, offsets: OffsetRange) -> None:
        a, b = (
            self._asked(number, DigestTask(side=side, offsets=offsets, in_detail=True))
            for number, side in _both(self._sides)
        )
        found = differences_in(offsets, _detail(a), _detail(b), self._compacted)
        for each in found.differences:
            self._take(each)
        self._suspects += found.suspects
        self._keep_first()
        if len(self._suspects) >= SUSPECTS_MAX:
            self._settle()

    def _take(self, each: Difference) -> None:
        if each.is_explained:
            self._explained.add(each)
            return
        last = self._found[-1] if self._found else None
        # One that goes on in the next part, which may lie right behind this one.
        if last is not None and (last.how, last.why, last.offsets.end_offset) == (
            each.how,
            each.why,
            each.offsets.start_offset,
        ):
            grown = OffsetRange(start_offset=last.offsets.start_offset, end_offset=each.offsets.end_offset)
            self._found[-1] = Difference(grown, last.records + each.records, each.how, each.why)
        else:
            self._found.append(each)

    def _settle(self) -> None:
        """Looks whether the keys of suspects came again; where they did, the cleaner explains what is missing."""
        suspects, self._suspects = self._suspects, []
        if not suspects:
            return
        keys, known_unread = frozenset(suspect.key_hash for suspect in suspects), len(self.unread)
        latest: dict[int, int] = {}
        for number, side in _both(self._sides):
            look = (self._bounds.a, self._bounds.b)[number]
            start = max(look.begin, suspects[0].offset)
            for part in slices(OffsetRange(start_offset=start, end_offset=max(start, look.end))):
                result = self._asked(number, DigestTask(side=side, offsets=part, latest_of=keys))
                for key, offset in result.digest.latest.items():
                    latest[key] = max(offset, latest.get(key, -1))
        is_whole = len(self.unread) == known_unread
        for suspect in suspects:
            came_again = latest.get(suspect.key_hash, -1) > suspect.offset
            if not (came_again or is_whole):
                continue  # it may come again in what could not be read
            run = OffsetRange(start_offset=suspect.offset, end_offset=suspect.offset + 1)
            self._take(Difference(run, 1, How(suspect.how), Why.CLEANED.value if came_again else ""))
        self._keep_first()

    def _keep_first(self) -> None:
        """Forgets what is not named: suspects are settled late, and may lie before what was found."""
        self._found.sort()
        if len(self._found) > RUNS_MAX:
            self._found, self.is_complete = self._found[:RUNS_MAX], False

    def _read_tail(self) -> None:
        """Looks for the first record that the longer side has behind the end of the other."""
        if self._bounds.ranges.tail is None:
            return
        how, tail = self._bounds.ranges.tail
        number = 0 if how is How.ONLY_A else 1
        for part in slices(tail):
            result = self._asked(number, DigestTask(side=self._sides[number], offsets=part))
            if result.unread:
                return
            if result.digest.records:
                self._found_behind(how, number, tail, min(result.digest.blocks or {}), part)
                return
        self._explained.add(Difference(tail, 0, How.GAP, f"beyond the end of {'BA'[number]}"))

    def _found_behind(self, how: How, number: int, tail: OffsetRange, block: int, part: OffsetRange) -> None:
        offsets = next(iter(parts_of([block], part)))
        result = self._asked(number, DigestTask(side=self._sides[number], offsets=offsets, in_detail=True))
        first = min((trace.offset for trace in result.digest.traces), default=offsets.start_offset)
        # How many there are is not counted: all of it would have to be read.
        self._found.append(
            Difference(OffsetRange(start_offset=first, end_offset=tail.end_offset), 0, how, Why.BEYOND.value)
        )

    def _asked(self, number: int, task: DigestTask) -> SideResult:
        result = self._ask(task)
        self.unread += [("ab"[number], each) for each in result.unread]
        return result


def _both(sides: tuple[SourceSide, SourceSide]) -> Iterable[tuple[int, SourceSide]]:
    return enumerate(sides)


def _detail(result: SideResult) -> Detail:
    return Detail(
        traces=result.digest.traces,
        gaps=result.gaps,
        unsaid=result.unsaid,
        unread=[each.offsets for each in result.unread],
        cleaned=result.digest.cleaned,
    )
