"""``verify``: proves that copies equal their sources, or names the first offset that differs.

Digests are made by Spark tasks next to each side (``mirror.verify_worker``); the driver compares them, and asks
for one block in detail where two differ.
"""

import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.reading import check_archived_content
from mirrorlake.config.resolved import ArchiveDestination, KafkaDestination
from mirrorlake.errors import DestinationAheadError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.mirror.digest import BLOCK_OFFSETS, Block, first_differing_block, first_differing_offset
from mirrorlake.mirror.verify_worker import ArchiveSide, DigestResult, DigestTask, KafkaSide
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.states import archived_partition, store_root
from mirrorlake.service.status import StatusRow
from mirrorlake.service.targets import cluster_settings

WORK = "mirrorlake.mirror.verify_worker:work"

SLICE_OFFSETS = 256 * BLOCK_OFFSETS
"""What one task reads: about a million offsets, so that tasks stay short and a progress bar moves."""

RunTask = Callable[[str, bytes, str], list[LeaseRow]]
"""Runs ``work(plan)`` with a description as one Spark task and returns its rows."""


class Result(StrEnum):
    """What a verification says of one partition at one destination."""

    EQUAL = "equal"
    DIFFERS = "differs"
    EMPTY = "empty"
    """The source has records and the copy has none: nothing could be compared."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One partition at one destination, compared over ``offsets``.

    ``first_difference`` is the lowest offset at which the two sides differ, and ``difference`` how: ``missing``
    at the copy, ``extra`` there, or ``different``. ``lag`` is what the source has beyond the compared range.
    """

    row: StatusRow
    result: Result
    offsets: OffsetRange | None = None
    records: int | None = None
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
    blocks: dict[int, Block] = field(default_factory=dict)
    error: MirrorlakeError | None = None

    def take(self, result: DigestResult) -> None:
        self.records += result.records
        self.blocks.update(result.blocks or {})
        self.error = self.error or result.error


def verify_names(rows: Sequence[StatusRow]) -> list[Verdict]:
    """Compares positions only: chains hold together and copies stand within their source. Reads no record."""
    return [_by_position(row) for row in rows]


def verify_checksums(rows: Sequence[StatusRow], *, progressed: Callable[[int], None]) -> list[Verdict]:
    """Compares positions, and checks every archive file's own checksum."""
    verdicts = []
    for verdict in verify_names(rows):
        target = verdict.row.target
        if verdict.error is None and target.is_archive:
            try:
                check_archived_content(archived_partition(target))
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
    """

    def __init__(
        self,
        rows: Sequence[StatusRow],
        *,
        run_task: RunTask,
        tasks_at_once: int,
        progressed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._rows = rows
        self._run_task = run_task
        self._tasks_at_once = tasks_at_once
        self._progressed = progressed

    @property
    def offsets_to_read(self) -> int:
        """Offsets of both sides of all rows together."""
        return sum(2 * len(offsets) for row in self._rows if (offsets := _range(row)) is not None)

    def run(self) -> list[Verdict]:
        """Returns one verdict per row."""
        sides: dict[tuple[int, str], _Side] = {}
        with ThreadPoolExecutor(self._tasks_at_once, thread_name_prefix="verify") as pool:
            running: dict[Future[DigestResult], tuple[tuple[int, str], OffsetRange]] = {}
            for index, row in enumerate(self._rows):
                offsets = _range(row)
                if offsets is None:
                    continue
                for name, side in (("source", _source_side(row)), ("copy", _copy_side(row))):
                    sides[index, name] = _Side()
                    for part in _slices(offsets):
                        running[pool.submit(self._digest, DigestTask(side=side, offsets=part))] = (index, name), part
            for future in as_completed(running):
                key, part = running[future]
                sides[key].take(future.result())
                self._progressed(len(part))
            return list(pool.map(lambda n: self._verdict(n, sides), range(len(self._rows))))

    def _digest(self, task: DigestTask) -> DigestResult:
        what = task.side.partition
        try:
            rows = self._run_task(WORK, pickle.dumps(task), f"verify {what} {task.offsets}")
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
        source, copy = sides[index, "source"], sides[index, "copy"]
        if error := source.error or copy.error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        block = first_differing_block(source.blocks, copy.blocks)
        if block is None and row.error is not None:
            return _by_position(row)
        if block is None and not len(offsets) and row.lag:
            return Verdict(row=row, result=Result.EMPTY, offsets=offsets, records=0)
        if block is None:
            return Verdict(row=row, result=Result.EQUAL, offsets=offsets, records=source.records)
        return self._difference(row, offsets, block)

    def _difference(self, row: StatusRow, offsets: OffsetRange, block: int) -> Verdict:
        part = OffsetRange(
            start_offset=max(offsets.start_offset, block * BLOCK_OFFSETS),
            end_offset=min(offsets.end_offset, (block + 1) * BLOCK_OFFSETS),
        )
        source = self._digest(DigestTask(side=_source_side(row), offsets=part, in_detail=True))
        copy = self._digest(DigestTask(side=_copy_side(row), offsets=part, in_detail=True))
        if error := source.error or copy.error:
            return Verdict(row=row, result=Result.FAILED, offsets=offsets, error=error)
        found = first_differing_offset(source.pairs, copy.pairs)
        offset, how = found if found is not None else (part.start_offset, "different")
        return Verdict(
            row=row,
            result=Result.DIFFERS,
            offsets=offsets,
            first_difference=offset,
            difference=how,
            error=row.error,
        )


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


def _range(row: StatusRow) -> OffsetRange | None:
    """Returns what both sides should hold: from the source's log start to the copy's position, or the source's end."""
    if row.position is None or row.source_start is None or row.source_end is None:
        return None
    if row.error is not None and not isinstance(row.error, DestinationAheadError):
        return None
    end = min(row.position, row.source_end)
    return OffsetRange(start_offset=min(row.source_start, end), end_offset=end)


def _slices(offsets: OffsetRange) -> Iterable[OffsetRange]:
    """Cuts a range at multiples of ``SLICE_OFFSETS``, so that no block is split."""
    start = offsets.start_offset
    while start < offsets.end_offset:
        end = min(offsets.end_offset, (start // SLICE_OFFSETS + 1) * SLICE_OFFSETS)
        yield OffsetRange(start_offset=start, end_offset=end)
        start = end


def _source_side(row: StatusRow) -> KafkaSide:
    return KafkaSide(cluster=row.target.source_cluster, partition=row.target.source)


def _copy_side(row: StatusRow) -> KafkaSide | ArchiveSide:
    destination = row.target.destination
    if isinstance(destination, KafkaDestination):
        return KafkaSide(cluster=cluster_settings(destination.cluster), partition=row.target.destination_partition)
    assert isinstance(destination, ArchiveDestination)
    return ArchiveSide(
        root=store_root(destination),
        destination_name=row.target.destination_topic,
        partition=row.target.source.partition,
        extension=extension_of(destination.format.value),
    )
