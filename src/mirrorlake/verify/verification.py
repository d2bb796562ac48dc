"""``verify``: proves that copies equal their sources, or names the first offset that differs.

Digests are made by Spark tasks next to each side (``verify.worker``); the driver compares them, and asks
for some blocks in detail where two differ. Where a topic is compacted, what the cleaner took on one side only is no
difference (``verify.cleaned``).
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mirrorlake.destinations.transform import Times, Transform
from mirrorlake.errors import DestinationAheadError, DestinationForeignError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, unknown_ids
from mirrorlake.kinds.copies import ArchiveSide, KafkaSide, MappedSide, SnapshotSide
from mirrorlake.kinds.kafka import provenance_of
from mirrorlake.kinds.registry import kind_of
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.cleaned import Compacted, Suspect, compare, first_unexplained, without_erased
from mirrorlake.verify.digest import BLOCK_OFFSETS, Block, differing_blocks
from mirrorlake.verify.lettered import LetteredRows, LettersTask, letters_task
from mirrorlake.verify.unnamed import UnnamedTask
from mirrorlake.verify.view_verification import compare_view, holds_view
from mirrorlake.verify.worker import DigestResult, DigestTask, SourceSide

WORK = "mirrorlake.verify.worker:work"

SLICE_OFFSETS = 256 * BLOCK_OFFSETS
"""What one task reads: about a million offsets, so that tasks stay short and a progress bar moves."""

BLOCKS_IN_DETAIL = 16
"""What one task looks at record by record: memory stays small, and a cleaned topic does not take a task a block."""

Side = SourceSide | KafkaSide | MappedSide | ArchiveSide

RunTask = Callable[[BatchTask], list[LeaseRow]]
"""Runs one batch task and returns its rows (see `BatchJobs.run`)."""


IdsOf = Callable[[StatusRow, Sequence[int]], SchemaIdMap | None]
"""A row, and ids that its records have → what schema ids are at its destination; None where records keep theirs."""


def kept(_row: StatusRow, _ids: Sequence[int]) -> None:
    """Stands for rows whose records all keep their schema ids."""


class Result(StrEnum):
    """What a verification says of one partition at one destination."""

    EQUAL = "equal"
    DIFFERS = "differs"
    EMPTY = "empty"
    """Nothing could be compared: the copy has no record of those the source has, or the source has deleted them all."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One partition at one destination, compared over ``offsets``.

    ``first_difference`` is the lowest offset at which the two sides differ, and ``difference`` how: ``missing``
    at the copy, ``extra`` there, or ``different``. ``lag`` is what the source has beyond the compared range.
    ``records`` are the source's; ``erased`` says how many of them the copy says were erased from it, which is no
    difference. It is None where that was not counted: records were not compared, or a difference was found.
    ``repeated`` says how many of the mirror's records in the destination partition its offset map names as copied once
    more, after a position was moved back by hand; None where that was not counted, or offsets are not mapped.
    ``dead_lettered`` says how many of the source's records in the range have a dead letter, which are not among
    ``records``; None where that was not counted, or there are none of that mirror. ``dead_lettered_copied`` says how
    many of these are in the copy as well; what they hold there was not compared.
    """

    row: StatusRow
    result: Result
    offsets: OffsetRange | None = None
    records: int | None = None
    erased: int | None = None
    repeated: int | None = None
    dead_lettered: int | None = None
    dead_lettered_copied: int | None = None
    first_difference: int | None = None
    difference: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of ``verify --format json``; ``error`` is present exactly when it could not be compared."""
        row: dict[str, str | int | None] = {
            **self.row.target.as_json(),
            "start": None if self.offsets is None else self.offsets.start_offset,
            "end": None if self.offsets is None else self.offsets.end_offset,
            "records": self.records,
            "erased": self.erased,
            "repeated": self.repeated,
            "dead_lettered": self.dead_lettered,
            "dead_lettered_copied": self.dead_lettered_copied,
            "lag": self.row.lag,
            "result": self.result.value,
            "first_difference": self.first_difference,
            "difference": self.difference or None,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


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


def verify_names(rows: Sequence[StatusRow]) -> list[Verdict]:
    """Compares positions only: chains hold together and copies stand within their source. Reads no record."""
    return [_with_names(_by_position(row)) for row in rows]


def verify_checksums(rows: Sequence[StatusRow], *, progressed: Callable[[int], None]) -> list[Verdict]:
    """Compares positions, and checks every archive file's own checksum."""
    verdicts = []
    for verdict in verify_names(rows):
        target = verdict.row.target
        if verdict.error is None:
            try:
                kind_of(target.destination).check_content(target)
            except MirrorlakeError as error:
                verdict = Verdict(row=verdict.row, result=Result.DIFFERS, offsets=verdict.offsets, error=error)
        verdicts.append(verdict)
        progressed(1)
    return verdicts


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
        self._ids_of = ids_of
        self._letters = LetteredRows()
        with ThreadPoolExecutor(tasks_at_once, thread_name_prefix="verify-floors") as pool:
            self._rows = list(pool.map(_from_floor, rows))
        self._run_task = run_task
        self._tasks_at_once = tasks_at_once
        self._progressed = progressed
        self._largest_batch_bytes = largest_batch_bytes

    @property
    def offsets_to_read(self) -> int:
        """Offsets of both sides of all rows together."""
        return sum(2 * len(offsets) for row in self._rows if (offsets := _range(row)) is not None)

    def run(self) -> list[Verdict]:
        """Returns one verdict per row."""
        sides: dict[tuple[int, str], _Side] = {}
        with ThreadPoolExecutor(self._tasks_at_once, thread_name_prefix="verify") as pool:
            self._read_letters(pool)
            running: dict[Future[DigestResult], tuple[tuple[int, str], OffsetRange]] = {}
            for index, row in enumerate(self._rows):
                offsets = _range(row)
                if offsets is None or holds_view(row):
                    continue
                for name, side_of in (("source", _source_side), ("copy", _copy_side)):
                    sides[index, name] = _Side()
                    # A mapped copy that was not begun has no destination partition yet, and nothing to be read there.
                    for part in slices(offsets):
                        task = DigestTask(side=side_of(row), offsets=part)
                        running[pool.submit(self._digest, row, task)] = (index, name), part
            unnamed = {task: pool.submit(self._digest_unnamed, task) for task in self._unnamed_tasks().values()}
            for future in as_completed(running):
                key, part = running[future]
                sides[key].take(future.result())
                self._progressed(len(part))
            verdicts = list(pool.map(lambda n: self._verdict(n, sides), range(len(self._rows))))
        found = {index: unnamed[task].result() for index, task in self._unnamed_tasks().items()}
        verdicts = [_with_unnamed(v, found[n]) if n in found else v for n, v in enumerate(verdicts)]
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
        what, seconds_max = f"verify dead letters in {task.topic}", seconds_for(offsets=offsets)
        return self._run(BatchTask(work=WORK, plan=plan_bytes(task), description=what, seconds_max=seconds_max))

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
        sides = {n: _copy_side(row) for n, row in enumerate(self._rows) if row.mapped is not None and row.error is None}
        return {
            index: UnnamedTask(
                cluster=side.cluster,
                partition=side.partition,
                topics=side.topics,
                own_producer_ids=self._rows[index].target.own_producer_ids,
                largest_batch_bytes=self._largest_batch_bytes,
            )
            for index, side in sides.items()
            if isinstance(side, MappedSide) and self._rows[index].target.progress_topic_id
        }

    def _digest_unnamed(self, task: UnnamedTask) -> DigestResult:
        # Nobody knows how much it holds: the records of rows here, and what made way for them.
        offsets = 2 * sum(row.source_end or 0 for row in self._rows)
        what = f"verify what no offset map names at {task.partition}"
        seconds_max = seconds_for(offsets=offsets)
        return self._run(BatchTask(work=WORK, plan=plan_bytes(task), description=what, seconds_max=seconds_max))

    def _view_verdict(self, row: StatusRow, offsets: OffsetRange) -> Verdict:
        def latest_past(keys: frozenset[int]) -> dict[int, int]:
            rest = OffsetRange(start_offset=offsets.end_offset, end_offset=row.source_end or offsets.end_offset)
            parts = (self._asked(row, _source_side(row), part, latest_of=keys) for part in slices(rest))
            return {key: offset for part in parts for key, offset in part.latest.items()}

        try:
            views = compare_view(
                row,
                offsets,
                ask=self._run,
                latest_past=latest_past,
                largest_batch_bytes=self._largest_batch_bytes,
            )
        except MirrorlakeError as error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        self._progressed(2 * len(offsets))
        found = min(views.differences, default=None)
        if found is None and row.error is not None:
            return _by_position(row)
        if found is None:
            return Verdict(
                row=row,
                result=Result.EMPTY if _is_empty(row, offsets) else Result.EQUAL,
                offsets=offsets,
                records=views.source_records,
                erased=len(views.erased),
            )
        return Verdict(
            row=row,
            result=Result.DIFFERS,
            offsets=offsets,
            first_difference=found[0],
            difference=found[1],
            error=row.error,
        )

    def _digest(self, row: StatusRow, task: DigestTask) -> DigestResult:
        task = replace(task, largest_batch_bytes=self._largest_batch_bytes)
        what, seconds_max = f"verify {task.side.partition} {task.offsets}", seconds_for(offsets=len(task.offsets))
        unknown: tuple[int, ...] = ()
        while True:
            try:
                lettered = self._letters.of(row, task.offsets)
                task = replace(task, transform=self._transform(row, unknown), lettered=lettered)
            except MirrorlakeError as error:
                return DigestResult(error=error)
            plan = plan_bytes(task)
            result = self._run(BatchTask(work=WORK, plan=plan, description=what, seconds_max=seconds_max))
            # Each round asks about ids that none before has asked about, so there is an end.
            unknown = unknown_ids(result.error)
            if not unknown:
                return result

    def _transform(self, row: StatusRow, ids: Sequence[int]) -> Transform:
        """Returns what the copy changes of records, as far as it matters to who compares them.

        Raises:
            MirrorlakeError: what schema ids mean could not be found out.
        """
        keeps_times = kind_of(row.target.destination).keeps_times(row.target)
        times = Times.SOURCE if keeps_times else Times.BROKERS
        return Transform(
            times=times,
            schema_ids=self._ids_of(row, ids),
            compares_ids=True,
            keeps=row.target.keeps,
            provenance=provenance_of(row.target),
        )

    def _run(self, task: BatchTask) -> DigestResult:
        try:
            rows = self._run_task(task)
        except MirrorlakeError as error:
            return DigestResult(error=error)
        found = rows[0].get("result") if rows else None
        if isinstance(found, DigestResult):
            return found
        return DigestResult(error=OutcomeUnknownError(f"a verification task was lost: {rows}"))

    def _verdict(self, index: int, sides: dict[tuple[int, str], _Side]) -> Verdict:
        row = self._rows[index]
        offsets = _range(row)
        if offsets is None:
            return Verdict(row=row, result=Result.FAILED, error=row.error)
        if holds_view(row):
            return self._view_verdict(row, offsets)
        source, copy = sides[index, "source"], sides[index, "copy"]
        if error := source.error or copy.error or _unread(row, offsets, source=source.covered, copy=copy.covered):
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        blocks = differing_blocks(source.blocks, copy.blocks)
        try:
            found, erased = self._difference(row, offsets, blocks)
        except MirrorlakeError as error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        if found is None and row.error is not None:
            return _by_position(row)
        if found is None and _is_empty(row, offsets):
            return Verdict(row=row, result=Result.EMPTY, offsets=offsets, records=0, erased=0)
        if found is None:
            return _with_names(
                Verdict(row=row, result=Result.EQUAL, offsets=offsets, records=source.records, erased=erased)
            )
        return Verdict(
            row=row,
            result=Result.DIFFERS,
            offsets=offsets,
            first_difference=found[0],
            difference=found[1],
            error=row.error,
        )

    def _difference(
        self, row: StatusRow, offsets: OffsetRange, blocks: Sequence[int]
    ) -> tuple[tuple[int, str] | None, int]:
        """Returns the first offset that differs and how; None where log cleaner and erasure explain all there is.

        With it, how many of the source's records were erased from the copy; of those up to the difference.

        Raises:
            MirrorlakeError: a side could not be read again.
        """
        compacted = Compacted(source=row.target.source_is_compacted, copy=row.target.destination_is_compacted)
        suspects: list[Suspect] = []
        found, erased = None, 0
        for part in parts_of(blocks, offsets):
            source, copy = (self._asked(row, side, part) for side in (_source_side(row), _copy_side(row)))
            left = without_erased(source.traces, copy.erased)
            erased += len(source.traces) - len(left)
            found, more = compare(left, copy.traces, compacted)
            suspects += more
            if found is not None:
                break
        unexplained = self._unexplained(row, offsets, suspects)
        return (unexplained.offset, unexplained.how) if unexplained is not None else found, erased

    def _unexplained(self, row: StatusRow, offsets: OffsetRange, suspects: Sequence[Suspect]) -> Suspect | None:
        if not suspects:
            return None
        keys = frozenset(suspect.key_hash for suspect in suspects)
        start, end = suspects[0].offset, offsets.end_offset
        # What the cleaner took at the source may be for a later record that a copy which is behind has not got yet.
        source_end = max(end, row.source_end or end)
        latest: dict[int, int] = {}
        for side, until in ((_source_side(row), source_end), (_copy_side(row), end)):
            for part in slices(OffsetRange(start_offset=start, end_offset=until)):
                for key, offset in self._asked(row, side, part, latest_of=keys).latest.items():
                    latest[key] = max(offset, latest.get(key, -1))
        return first_unexplained(suspects, latest)

    def _asked(
        self, row: StatusRow, side: Side, offsets: OffsetRange, *, latest_of: frozenset[int] = frozenset()
    ) -> DigestResult:
        """Returns what one task finds in detail; raises its error."""
        task = DigestTask(side=side, offsets=offsets, in_detail=not latest_of, latest_of=latest_of)
        result = self._digest(row, task)
        if result.error is not None:
            raise result.error
        return result


def _unread(row: StatusRow, offsets: OffsetRange, *, source: int, copy: int) -> MirrorlakeError | None:
    """Returns what it means that a side did not read as many offsets as are compared; None where both did."""
    if source == copy == len(offsets):
        return None
    return OutcomeUnknownError(
        f"offsets {offsets} of source {row.target.source} are {len(offsets)}: {source} were read of it, and {copy} of "
        f"its copy at {row.target.destination.label}, so nothing is known of the rest"
    )


def _with_unnamed(verdict: Verdict, found: DigestResult) -> Verdict:
    """Returns the verdict on a mapped copy beside which nothing of the mirror's own may stand that no map names."""
    verdict = replace(verdict, repeated=found.repeated if found.error is None else None)
    if verdict.error is not None or (found.error is None and not found.records):
        return verdict
    if found.error is not None:
        return replace(verdict, result=Result.FAILED, error=found.error)
    target = verdict.row.target
    return replace(
        verdict,
        result=Result.DIFFERS,
        difference=verdict.difference or "extra",
        error=DestinationForeignError(
            f"{found.records} records of mirror {target.mirror.name}'s own producers are at destination "
            f"{target.destination_topic} that its offset map does not name, the first at destination offset "
            f"{found.first_unnamed}: copied twice?",
            hint="its progress was lost once, or its position moved back by a version that did not map second copies; "
            "readers of the topic see these records beside those the map names",
            records=found.records,
            first_offset=found.first_unnamed,
        ),
    )


def _is_empty(row: StatusRow, offsets: OffsetRange) -> bool:
    """Tells whether there is nothing to compare, although there was a record once: the first offset is 0."""
    return not len(offsets) and bool(row.lag or offsets.end_offset)


def _by_position(row: StatusRow) -> Verdict:
    """Returns what the ends alone say: a copy that goes on where its source ends holds records it should not."""
    offsets = _range(row)
    if row.error is None:
        return Verdict(row=row, result=Result.EQUAL, offsets=offsets)
    if offsets is None:
        return Verdict(row=row, result=Result.FAILED, error=row.error)
    return Verdict(
        row=row,
        result=Result.DIFFERS,
        offsets=offsets,
        first_difference=offsets.end_offset,
        difference="extra",
        error=row.error,
    )


def _with_names(verdict: Verdict) -> Verdict:
    """Returns the verdict after what names tell of the whole copy was read; ``status`` may have read its end."""
    row = verdict.row
    if row.error is not None:
        return verdict
    try:
        kind_of(row.target.destination).check_names(row.target)
    except MirrorlakeError as error:
        return Verdict(row=row, result=Result.FAILED, error=error)
    return verdict


def _range(row: StatusRow) -> OffsetRange | None:
    """Returns what both sides should hold: from the source's log start to the copy's position, or the source's end."""
    if row.position is None or row.source_start is None or row.source_end is None:
        return None
    if row.error is not None and not _is_ahead(row):
        return None
    end = min(row.position, row.source_end)
    start = max(row.source_start, row.mapped.start_offset) if row.mapped else row.source_start
    return OffsetRange(start_offset=min(start, end), end_offset=end)


def _is_ahead(row: StatusRow) -> bool:
    """Tells whether a row's error is that its copy goes on where the source ends, whoever wrote there."""
    if isinstance(row.error, DestinationForeignError):
        return row.position is not None and row.source_end is not None and row.position > row.source_end
    return isinstance(row.error, DestinationAheadError)


def _from_floor(row: StatusRow) -> StatusRow:
    """Returns a row to be compared from where its copy begins: what retention took of it is missing by intention."""
    if row.position is None or row.source_start is None:
        return row
    try:
        start = kind_of(row.target.destination).floor(row.target)
    except MirrorlakeError:
        return row  # whoever compares meets the same error, and says so
    return replace(row, source_start=max(row.source_start, start))


def slices(offsets: OffsetRange) -> Iterable[OffsetRange]:
    """Yields a range, cut at multiples of ``SLICE_OFFSETS``, so that no block is split."""
    start = offsets.start_offset
    while start < offsets.end_offset:
        end = min(offsets.end_offset, (start // SLICE_OFFSETS + 1) * SLICE_OFFSETS)
        yield OffsetRange(start_offset=start, end_offset=end)
        start = end


def parts_of(blocks: Sequence[int], offsets: OffsetRange) -> Iterable[OffsetRange]:
    """Yields ranges that hold all of ``blocks``, each of a bounded length, within ``offsets``."""
    first = None
    for block in blocks:
        if first is not None and block - first < BLOCKS_IN_DETAIL:
            continue
        first = block
        last = max(each for each in blocks if each - first < BLOCKS_IN_DETAIL)
        yield OffsetRange(
            start_offset=max(offsets.start_offset, first * BLOCK_OFFSETS),
            end_offset=min(offsets.end_offset, (last + 1) * BLOCK_OFFSETS),
        )


def _source_side(row: StatusRow) -> SourceSide:
    return SourceSide(source_work=row.target.source_work, partition=row.target.source)


def _copy_side(row: StatusRow) -> Side:
    side = kind_of(row.target.destination).copy_side(row)
    assert not isinstance(side, SnapshotSide), "views are compared apart"
    return side
