"""What ``verify`` says of one partition at one destination."""

from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.status import StatusRow


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
    at the copy, ``extra`` there, or ``different``; or ``cleaned``, where nothing differs but what the destination's
    cleaner took and the source keeps. ``cause`` is what may have made it so and what to do, where that is known.
    ``lag`` is what the source has beyond the compared range.
    ``records`` are the source's; ``erased`` says how many of them the copy says were erased from it, which is no
    difference. It is None where that was not counted: records were not compared, or a difference was found.
    ``cleaned`` says how many of them a log cleaner took from the copy, likewise; where the source is compacted too, or
    the file has the copy compacted, that is no difference.
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
    cleaned: int | None = None
    repeated: int | None = None
    dead_lettered: int | None = None
    dead_lettered_copied: int | None = None
    first_difference: int | None = None
    difference: str = ""
    cause: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of ``verify --format json``; ``error`` is present exactly when it could not be compared.

        ``cause`` is there where it is known what may have made a difference.
        """
        row: dict[str, str | int | None] = {
            **self.row.target.as_json(),
            "start": None if self.offsets is None else self.offsets.start_offset,
            "end": None if self.offsets is None else self.offsets.end_offset,
            "records": self.records,
            "erased": self.erased,
            "cleaned": self.cleaned,
            "repeated": self.repeated,
            "dead_lettered": self.dead_lettered,
            "dead_lettered_copied": self.dead_lettered_copied,
            "lag": self.row.lag,
            "result": self.result.value,
            "first_difference": self.first_difference,
            "difference": self.difference or None,
        }
        if self.cause:
            row["cause"] = self.cause
        if self.error is not None:
            row["error"] = str(self.error)
        return row
