"""Compares partitions of two sides: digests first, side by side; then record by record where they differ.

1. Both sides are looked at: where each begins and ends, and what is missing (`looks`, `ranges`).
2. What both hold is digested in slices by tasks next to each side; the driver keeps which blocks differ, no more.
3. Those blocks are read in detail, as many as it takes to name what differs (`details`).
4. Both sides are looked at again: what was compared must still be what was looked at first.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from mirrorlake.destinations.transform import AS_IT_IS, Transform
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError, PositionMovedError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchTask
from mirrorlake.pipeline.lease_job import EngineDiedError, LeaseRow
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.sources.source import SourceWork
from mirrorlake.verify.diff.block_details import BlockDetails, Bounds
from mirrorlake.verify.diff.gap_digests import blocks_of, differing_gaps
from mirrorlake.verify.diff.looks import LookedAt, look_at
from mirrorlake.verify.diff.ranges import EVERYTHING, Look, Ranges, ranges_of
from mirrorlake.verify.diff.side import Pair, alone
from mirrorlake.verify.diff.task import WORK, SideResult, SideTask, unread_whole
from mirrorlake.verify.diff.values import Result, Unread
from mirrorlake.verify.diff.verdict import Verdict, result_of
from mirrorlake.verify.diff.views import compare_snapshots, refuse_to_mix
from mirrorlake.verify.digest import differing_blocks
from mirrorlake.verify.slices import slices
from mirrorlake.verify.worker import DigestTask, SourceSide

LookAtSides = Callable[[Sequence[SourceSide]], Mapping[SourceSide, LookedAt]]
"""Returns what there is of partitions of any sides."""

DETAILS_AT_ONCE = 4
"""Partitions whose differences are looked at side by side: one reads 16 blocks of records at a time."""


@dataclass(slots=True)
class _Compared:
    """What is known of a pair so far; one number a block that differs, and nothing of those that do not."""

    ranges: Ranges
    records: list[int] = field(default_factory=lambda: [0, 0])
    blocks: "array[int]" = field(default_factory=lambda: array("q"))
    unread: list[tuple[str, Unread]] = field(default_factory=list)

    def take(self, a: SideResult, b: SideResult) -> None:
        """Takes both sides of a slice."""
        for number, (name, side) in enumerate((("a", a), ("b", b))):
            self.records[number] += side.digest.records
            self.unread += [(name, each) for each in side.unread]
        suspect = {*differing_blocks(a.digest.blocks or {}, b.digest.blocks or {})}
        suspect.update(differing_gaps(a.gap_blocks, b.gap_blocks))
        for each in (*a.unread, *b.unread):
            # Of a block that was read in part the rest is looked at; what was not read at all need not be read again.
            held = blocks_of(each.offsets)
            suspect.update(held[:1], held[-1:])
            suspect.difference_update(held[1:-1])
        self.blocks.extend(sorted(suspect))


class Comparison:
    """Compares pairs of partitions.

    Args:
        pairs: which.
        jobs: run the tasks.
        progressed: called with offsets done, and offsets to do in all.
        transform: what is not compared of records.
        asked: the offsets that are compared of each partition.
        largest_batch_bytes: what one record batch may decompress to.
        look: looks at the sides, first and last; `look_at_sides` where it is left out.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        *,
        jobs: BatchJobs,
        progressed: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
        transform: Transform = AS_IT_IS,
        asked: OffsetRange = EVERYTHING,
        largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX,
        look: LookAtSides | None = None,
    ) -> None:
        self._pairs = pairs
        self._jobs = jobs
        self._progressed = progressed
        self._transform = transform
        self._asked = asked
        self._largest_batch_bytes = largest_batch_bytes
        self._look = look or look_at_sides
        self._numbers = 0
        self._done = self._total = 0

    def run(self) -> list[Verdict]:
        """Returns one verdict per pair, in their order.

        Raises:
            EngineDiedError: the engine is gone.
        """
        sides = [side for pair in self._pairs for side in pair.sides]
        before = self._look(sides)
        compared = {
            number: _Compared(ranges=ranges_of(*looks, self._asked), unread=[])
            for number, pair in enumerate(self._pairs)
            if (looks := _looks(pair, before)) is not None and not any(look.snapshot is not None for look in looks)
        }
        self._total = sum(2 * len(each.ranges.compared) for each in compared.values())
        self._digest(compared)
        with ThreadPoolExecutor(DETAILS_AT_ONCE, thread_name_prefix="diff") as pool:
            verdicts = list(
                pool.map(
                    lambda number: self._verdict(self._pairs[number], compared.get(number), before),
                    range(len(self._pairs)),
                )
            )
        after = self._look(sides)
        return [unmoved(verdict, pair, before, after) for verdict, pair in zip(verdicts, self._pairs, strict=True)]

    def _digest(self, compared: Mapping[int, _Compared]) -> None:
        waiting: dict[BatchTask, tuple[int, OffsetRange, int]] = {}
        halves: dict[tuple[int, OffsetRange], dict[int, SideResult]] = {}
        for found in self._jobs.results(self._tasks(compared, waiting)):
            pair, offsets, which = waiting.pop(found.task)
            half = halves.setdefault((pair, offsets), {})
            half[which] = side_result(found.outcome, offsets)
            self._done += len(offsets)
            self._progressed(self._done, self._total)
            if len(half) == 2:
                compared[pair].take(half[0], half[1])
                del halves[pair, offsets]

    def _tasks(
        self, compared: Mapping[int, _Compared], waiting: dict[BatchTask, tuple[int, OffsetRange, int]]
    ) -> Iterator[BatchTask]:
        """Yields the tasks of all slices, both sides of one next to one another, noting in ``waiting`` what each is."""
        for pair, each in compared.items():
            for offsets in slices(each.ranges.compared):
                for which, side in enumerate(self._pairs[pair].sides):
                    task = self._task(DigestTask(side=side, offsets=offsets))
                    waiting[task] = pair, offsets, which
                    yield task

    def _task(self, digest: DigestTask) -> BatchTask:
        self._numbers += 1
        assert isinstance(digest.side, SourceSide)
        known = replace(
            digest,
            side=alone(digest.side),
            transform=self._transform,
            largest_batch_bytes=self._largest_batch_bytes,
        )
        plan = plan_bytes(SideTask(number=self._numbers, digest=known))
        what = f"compare {digest.side.partition} {digest.offsets}"
        return BatchTask(work=WORK, plan=plan, description=what, seconds_max=seconds_for(offsets=len(digest.offsets)))

    def _ask(self, digest: DigestTask) -> SideResult:
        try:
            outcome: list[LeaseRow] | MirrorlakeError = self._jobs.run(self._task(digest))
        except EngineDiedError:
            raise
        except MirrorlakeError as error:
            outcome = error
        return side_result(outcome, digest.offsets)

    def _verdict(self, pair: Pair, compared: _Compared | None, before: Mapping[SourceSide, LookedAt]) -> Verdict:
        if compared is None:
            return self._without_digests(pair, before)
        a, b = (_known(before[side]) for side in pair.sides)
        ranges = compared.ranges
        details = BlockDetails(pair.sides, Bounds(a=a, b=b, ranges=ranges), ask=self._ask)
        details.run(compared.blocks)
        unread = [*ranges.unread, *compared.unread, *details.unread]
        explained = (*ranges.retired, *details.explained)
        is_nothing = not ranges.compared and bool(max(a.end, b.end) or self._asked != EVERYTHING)
        is_whole = not compared.unread
        return Verdict(
            a=pair.a.label,
            b=pair.b.label,
            partition=pair.partition,
            result=result_of(
                is_nothing_compared=is_nothing, differences=details.differences, explained=explained, unread=unread
            ),
            offsets=ranges.compared,
            records_a=compared.records[0] if is_whole else None,
            records_b=compared.records[1] if is_whole else None,
            differences=details.differences,
            is_complete=details.is_complete,
            explained=explained,
            unread=without_repeats(unread),
        )

    def _without_digests(self, pair: Pair, before: Mapping[SourceSide, LookedAt]) -> Verdict:
        for side in pair.sides:
            if isinstance(error := before[side], MirrorlakeError):
                return _unknown(pair, error)
        looks = [_known(before[side]) for side in pair.sides]
        refusal = refuse_to_mix(pair, *looks, asked=self._asked)
        if refusal is not None:
            return _unknown(pair, refusal)
        return compare_snapshots(pair, *looks, run_task=self._jobs.run, largest_batch_bytes=self._largest_batch_bytes)


def look_at_sides(sides: Sequence[SourceSide]) -> Mapping[SourceSide, LookedAt]:
    """Looks at partitions, all of one archive or cluster together."""
    works: dict[SourceWork, list[SourceSide]] = {}
    for side in sides:
        works.setdefault(side.source_work, []).append(side)

    async def look() -> dict[SourceSide, LookedAt]:
        found: dict[SourceSide, LookedAt] = {}
        for work, asked in works.items():
            looks = await look_at(work, list(dict.fromkeys(side.partition for side in asked)))
            found |= {side: looks[side.partition] for side in asked}
        return found

    return asyncio.run(look())


def side_result(outcome: list[LeaseRow] | MirrorlakeError, offsets: OffsetRange) -> SideResult:
    """Returns what a task found; one that has failed or was lost has read nothing."""
    if isinstance(outcome, MirrorlakeError):
        return unread_whole(offsets, outcome)
    result = outcome[0].get("result") if outcome else None
    if isinstance(result, SideResult):
        return result
    return unread_whole(offsets, OutcomeUnknownError(f"a task of the comparison was lost: {outcome}"))


def unmoved(
    verdict: Verdict, pair: Pair, before: Mapping[SourceSide, LookedAt], after: Mapping[SourceSide, LookedAt]
) -> Verdict:
    """Returns the verdict where both sides still are what was looked at first; else that nothing is known.

    A side may have grown, and what was compared of it may have been retired since: both leave what was read true.
    """
    if verdict.error is not None:
        return verdict
    for side in pair.sides:
        then, now = before[side], after[side]
        assert isinstance(then, Look)
        if isinstance(now, MirrorlakeError):
            return _unknown(pair, now)
        if now.identity != then.identity or now.end < then.end:
            what = (
                "is another one now"
                if now.identity != then.identity
                else f"ends at {now.end} now, and did at {then.end}"
            )
            return _unknown(
                pair,
                PositionMovedError(
                    f"{side.partition} of {side.source_work.label} {what}: it moved while it was compared",
                    hint="compare again once nothing deletes, recreates or replaces it",
                ),
            )
    return verdict


def without_repeats(unread: Sequence[tuple[str, Unread]]) -> tuple[tuple[str, Unread], ...]:
    """Returns what could not be read, each once; what a look or a slice has told, details may tell again."""
    kept: list[tuple[str, Unread]] = []
    for side, each in unread:
        if not any(side == name and _covers(known.offsets, each.offsets) for name, known in kept):
            kept.append((side, each))
    return tuple(sorted(kept, key=lambda pair: (pair[1].offsets, pair[0])))


def _covers(large: OffsetRange, small: OffsetRange) -> bool:
    return large.start_offset <= small.start_offset and small.end_offset <= large.end_offset


def _looks(pair: Pair, looks: Mapping[SourceSide, LookedAt]) -> tuple[Look, Look] | None:
    a, b = (looks[side] for side in pair.sides)
    return None if isinstance(a, MirrorlakeError) or isinstance(b, MirrorlakeError) else (a, b)


def _known(look: LookedAt) -> Look:
    assert isinstance(look, Look)
    return look


def _unknown(pair: Pair, error: MirrorlakeError) -> Verdict:
    return Verdict(a=pair.a.label, b=pair.b.label, partition=pair.partition, result=Result.UNKNOWN, error=error)
