"""What a comparison says of one partition, and how it comes to it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.diff.values import LAST_END, Difference, How, Result, Unread

Json = str | int | bool | None | list[dict[str, str | int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One partition of two sides, compared over ``offsets``.

    Attributes:
        a: what the one side is called, a topic or folder of a cluster or store; ``b`` the other.
        partition: its number; None where a topic is on neither side.
        result: in a word.
        offsets: what was read of both sides; None where it did not come to that.
        records_a: records of A in it; ``records_b`` of B. None where not all of it was read.
        differences: runs that nothing explains, ascending; the first has the first offset that differs.
        is_complete: False where more may differ behind the last of ``differences``.
        explained: runs that something explains, one for each way and reason, from its first to its last offset.
        unread: what could not be read, with which side.
        error: why nothing at all was compared.
    """

    a: str
    b: str
    partition: int | None
    result: Result
    offsets: OffsetRange | None = None
    records_a: int | None = None
    records_b: int | None = None
    differences: tuple[Difference, ...] = ()
    is_complete: bool = True
    explained: tuple[Difference, ...] = ()
    unread: tuple[tuple[str, Unread], ...] = ()
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Json]:
        """Returns the row of ``archive diff --format json``; ``error`` is there where nothing was compared."""
        first = self.differences[0] if self.differences else None
        row: dict[str, Json] = {
            "a": self.a,
            "b": self.b,
            "partition": self.partition,
            "start": None if self.offsets is None else self.offsets.start_offset,
            "end": None if self.offsets is None else self.offsets.end_offset,
            "records_a": self.records_a,
            "records_b": self.records_b,
            "result": self.result.value,
            "first_difference": None if first is None else first.offsets.start_offset,
            "difference": None if first is None else first.how.value,
            "differences": [_run(each) for each in self.differences],
            "complete": self.is_complete,
            "explained": [_run(each) for each in self.explained],
            "unread": [
                {
                    "side": side,
                    "start": each.offsets.start_offset,
                    "end": None if each.offsets.end_offset == LAST_END else each.offsets.end_offset,
                    "error": str(each.error),
                }
                for side, each in self.unread
            ],
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


def _run(each: Difference) -> dict[str, str | int | None]:
    return {
        "start": each.offsets.start_offset,
        "end": each.offsets.end_offset,
        "records": each.records,
        "how": each.how.value,
        "why": each.why or None,
    }


def result_of(
    *,
    is_nothing_compared: bool,
    differences: Sequence[Difference],
    explained: Sequence[Difference],
    unread: Sequence[tuple[str, Unread]],
) -> Result:
    """Returns the result in a word: a difference counts more than what is not known, and that more than all else."""
    if differences:
        return Result.DIFFERS
    if unread:
        return Result.UNKNOWN
    if is_nothing_compared:
        return Result.EMPTY
    return Result.EXPLAINED if explained else Result.EQUAL


class Tally:
    """Adds up explained differences, one run for each way and reason, in bounded memory."""

    def __init__(self) -> None:
        self._runs: dict[tuple[How, str], Difference] = {}

    def add(self, run: Difference) -> None:
        """Takes the next run."""
        known = self._runs.get((run.how, run.why))
        if known is not None:
            start = min(known.offsets.start_offset, run.offsets.start_offset)
            end = max(known.offsets.end_offset, run.offsets.end_offset)
            offsets = OffsetRange(start_offset=start, end_offset=end)
            run = Difference(offsets, known.records + run.records, run.how, run.why)
        self._runs[run.how, run.why] = run

    def runs(self) -> tuple[Difference, ...]:
        """Returns the runs, ascending."""
        return tuple(sorted(self._runs.values()))
