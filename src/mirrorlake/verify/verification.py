"""``verify``: proves that copies equal their sources, or names the first offset that differs.

Digests are made by Spark tasks next to each side (``verify.worker``); the driver compares them, and asks
for some blocks in detail where two differ. Where a topic is compacted, what the cleaner took on one side only is no
difference (``verify.cleaned``).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.causes import cause_of, cause_of_cleaned
from mirrorlake.verify.digest import Block, differing_blocks
from mirrorlake.verify.digest_tasks import DigestTasks, IdsOf, RunTask, copy_side, kept, source_side
from mirrorlake.verify.first_difference import Explained, first_difference
from mirrorlake.verify.lettered import LetteredRows, LettersTask, letters_task
from mirrorlake.verify.positions import by_position, compared_range, from_floor, if_comparable, is_empty, with_names
from mirrorlake.verify.slices import slices
from mirrorlake.verify.unnamed import UnnamedTask
from mirrorlake.verify.unnamed_verdict import unnamed_task, with_unnamed
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.view_verification import compare_view, holds_view
from mirrorlake.verify.worker import DigestResult, DigestTask


@dataclass(slots=True)
class _Side:
    """One side of one comparison, as its slices come in."""

    records: int = 0
    covered: int = 0
    lettered: int = 0
    blocks: dict[int, Block] = field(default_factory=dict)
    error: MirrorlakeError | None = None

    def take(self, result: DigestResult) -> None:
        self.records += result.records
        self.covered += result.covered
        self.lettered += result.lettered
        self.blocks.update(result.blocks or {})
        self.error = self.error or result.error


class RecordVerification:
    """Compares every record of every row.

    Args:
        rows: what ``status`` says; each is compared up to the copy's position.
        run_task: runs one task.
        tasks_at_once: how many run side by side.
        progressed: called with the number of offsets just read on one side.
        largest_batch_bytes: what one record batch may decompress to.
        ids_of: what schema ids of a row's records are at its destination, the ids that are given among them; None where
            records keep theirs.
    """

    def __init__(
        self,
        rows: Sequence[StatusRow],
        *,
        run_task: RunTask,
        tasks_at_once: int,
        progressed: Callable[[int], None] = lambda _: None,
        largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX,
        ids_of: IdsOf = kept,
    ) -> None:
        self._letters = LetteredRows()
        self._tasks = DigestTasks(run_task, self._letters, largest_batch_bytes=largest_batch_bytes, ids_of=ids_of)
        with ThreadPoolExecutor(tasks_at_once, thread_name_prefix="verify-floors") as pool:
            self._rows = [if_comparable(row) for row in pool.map(from_floor, rows)]
        self._tasks_at_once = tasks_at_once
        self._progressed = progressed
        self._largest_batch_bytes = largest_batch_bytes

    @property
    def offsets_to_read(self) -> int:
        """Offsets of both sides of all rows together."""
        return sum(2 * len(offsets) for row in self._rows if (offsets := compared_range(row)) is not None)

    def run(self) -> list[Verdict]:
        """Returns one verdict per row."""
        sides: dict[tuple[int, str], _Side] = {}
        with ThreadPoolExecutor(self._tasks_at_once, thread_name_prefix="verify") as pool:
            self._read_letters(pool)
            running: dict[Future[DigestResult], tuple[tuple[int, str], OffsetRange]] = {}
            for index, row in enumerate(self._rows):
                offsets = compared_range(row)
                if offsets is None or holds_view(row):
                    continue
                for name, side_of in (("source", source_side), ("copy", copy_side)):
                    sides[index, name] = _Side()
                    # A mapped copy that was not begun has no destination partition yet, and nothing to be read there.
                    for part in slices(offsets):
                        task = DigestTask(side=side_of(row), offsets=part)
                        running[pool.submit(self._tasks.digest, row, task)] = (index, name), part
            unnamed = {task: pool.submit(self._digest_unnamed, task) for task in self._unnamed_tasks().values()}
            for future in as_completed(running):
                key, part = running[future]
                sides[key].take(future.result())
                self._progressed(len(part))
            verdicts = list(pool.map(lambda n: self._verdict(n, sides), range(len(self._rows))))
        found = {index: unnamed[task].result() for index, task in self._unnamed_tasks().items()}
        verdicts = [with_unnamed(v, found[n]) if n in found else v for n, v in enumerate(verdicts)]
        return [self._with_letters(v, sides.get((n, "copy"))) for n, v in enumerate(verdicts)]

    def _read_letters(self, pool: Executor) -> None:
        """Reads the dead letters of all rows: after the rows, so that those below their positions are there."""
        groups: dict[LettersTask, list[StatusRow]] = {}
        for row in self._rows:
            if task := letters_task(row, largest_batch_bytes=self._largest_batch_bytes):
                groups.setdefault(task, []).append(row)
        for rows, result in zip(groups.values(), pool.map(self._ask_letters, groups), strict=True):
            for row in rows:
                self._letters.take(row, result.letters if result.error is None else result.error)

    def _ask_letters(self, task: LettersTask) -> DigestResult:
        offsets = sum(row.source_end or 0 for row in self._rows)
        return self._tasks.run_plan(task, f"verify dead letters in {task.topic}", offsets=offsets)

    def _with_letters(self, verdict: Verdict, copy: _Side | None) -> Verdict:
        if verdict.offsets is None or verdict.result is Result.FAILED or not self._letters.has(verdict.row):
            return verdict
        return replace(
            verdict,
            dead_lettered=len(self._letters.of(verdict.row, verdict.offsets)),
            dead_lettered_copied=None if copy is None else copy.lettered,
        )

    def _unnamed_tasks(self) -> dict[int, UnnamedTask]:
        """Returns what to ask about the destination partitions of mapped rows, by row; rows may share a partition."""
        asked = {
            index: unnamed_task(row, largest_batch_bytes=self._largest_batch_bytes)
            for index, row in enumerate(self._rows)
        }
        return {index: task for index, task in asked.items() if task is not None}

    def _digest_unnamed(self, task: UnnamedTask) -> DigestResult:
        # Nobody knows how much it holds: the records of rows here, and what made way for them.
        offsets = 2 * sum(row.source_end or 0 for row in self._rows)
        return self._tasks.run_plan(task, f"verify what no offset map names at {task.partition}", offsets=offsets)

    def _view_verdict(self, row: StatusRow, offsets: OffsetRange) -> Verdict:
        def latest_past(keys: frozenset[int]) -> dict[int, int]:
            rest = OffsetRange(start_offset=offsets.end_offset, end_offset=row.source_end or offsets.end_offset)
            parts = (self._tasks.asked(row, source_side(row), part, latest_of=keys) for part in slices(rest))
            return {key: offset for part in parts for key, offset in part.latest.items()}

        try:
            views = compare_view(
                row,
                offsets,
                ask=self._tasks.run,
                latest_past=latest_past,
                largest_batch_bytes=self._largest_batch_bytes,
            )
        except MirrorlakeError as error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        self._progressed(2 * len(offsets))
        found = min(views.differences, default=None)
        if found is None and row.error is not None:
            return by_position(row)
        if found is None:
            return with_names(
                Verdict(
                    row=row,
                    result=Result.EMPTY if is_empty(row, offsets) else Result.EQUAL,
                    offsets=offsets,
                    records=views.source_records,
                    erased=len(views.erased),
                )
            )
        return Verdict(
            row=row,
            result=Result.DIFFERS,
            offsets=offsets,
            first_difference=found[0],
            difference=found[1],
            error=row.error,
        )

    def _verdict(self, index: int, sides: dict[tuple[int, str], _Side]) -> Verdict:
        row = self._rows[index]
        offsets = compared_range(row)
        if offsets is None:
            return Verdict(row=row, result=Result.FAILED, error=row.error)
        if holds_view(row):
            return self._view_verdict(row, offsets)
        source, copy = sides[index, "source"], sides[index, "copy"]
        if error := source.error or copy.error or _unread(row, offsets, source=source.covered, copy=copy.covered):
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        blocks = differing_blocks(source.blocks, copy.blocks)
        try:
            explained = first_difference(self._tasks, row, offsets, blocks)
        except MirrorlakeError as error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        found = explained.difference
        if found is None and row.error is not None:
            return by_position(row)
        if found is None and is_empty(row, offsets):
            return with_names(Verdict(row=row, result=Result.EMPTY, offsets=offsets, records=0, erased=0, cleaned=0))
        if found is None:
            return with_names(_explained_verdict(row, offsets, explained, records=source.records))
        return Verdict(
            row=row,
            result=Result.DIFFERS,
            offsets=offsets,
            first_difference=found[0],
            difference=found[1],
            cause=cause_of(row.target, found[1], was_cleaned=explained.was_cleaned),
            error=row.error,
        )


def _explained_verdict(row: StatusRow, offsets: OffsetRange, explained: Explained, *, records: int) -> Verdict:
    """Returns the verdict on a copy that nothing but erasure and cleaners has made another than its source."""
    found = Verdict(
        row=row,
        result=Result.EQUAL,
        offsets=offsets,
        records=records,
        erased=explained.erased,
        cleaned=explained.taken,
    )
    target = row.target
    if not explained.taken or not target.source_keeps_all_keys or target.asks_for_compaction:
        return found
    return replace(
        found,
        result=Result.DIFFERS,
        first_difference=explained.first_taken,
        difference="cleaned",
        cause=cause_of_cleaned(target, explained.taken),
    )


def _unread(row: StatusRow, offsets: OffsetRange, *, source: int, copy: int) -> MirrorlakeError | None:
    """Returns what it means that a side did not read as many offsets as are compared; None where both did."""
    if source == copy == len(offsets):
        return None
    return OutcomeUnknownError(
        f"offsets {offsets} of source {row.target.source} are {len(offsets)}: {source} were read of it, and {copy} of "
        f"its copy at {row.target.destination.label}, so nothing is known of the rest"
    )
