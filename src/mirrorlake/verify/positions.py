"""What is compared of a row, and what positions, names and files alone say of it: no record is read here.

The range that both sides should hold begins at the source's log start, or where retention or an offset map lets the
copy begin, and ends at the copy's position.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mirrorlake.errors import DestinationAheadError, DestinationForeignError, MirrorlakeError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.verdict import Result, Verdict


def verify_names(rows: Sequence[StatusRow]) -> list[Verdict]:
    """Compares positions only: chains hold together and copies stand within their source. Reads no record."""
    return [with_names(by_position(row)) for row in rows]


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


def compared_range(row: StatusRow) -> OffsetRange | None:
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


def from_floor(row: StatusRow) -> StatusRow:
    """Returns a row to be compared from where its copy begins: what retention took of it is missing by intention."""
    if row.position is None or row.source_start is None:
        return row
    try:
        start = kind_of(row.target.destination).floor(row.target)
    except MirrorlakeError:
        return row  # whoever compares meets the same error, and says so
    return replace(row, source_start=max(row.source_start, start))


def if_comparable(row: StatusRow) -> StatusRow:
    """Returns a row with the reason, where its destination holds nothing that could be compared: others still are."""
    if not compared_range(row):
        return row  # nothing is read of it; a mapped copy that was not begun has no partition to be read
    try:
        kind_of(row.target.destination).copy_side(row)
    except MirrorlakeError as error:
        return replace(row, error=error)
    return row


def is_empty(row: StatusRow, offsets: OffsetRange) -> bool:
    """Tells whether there is nothing to compare, although there was a record once: the first offset is 0."""
    return not len(offsets) and bool(row.lag or offsets.end_offset)


def by_position(row: StatusRow) -> Verdict:
    """Returns what the ends alone say: a copy that goes on where its source ends holds records it should not."""
    offsets = compared_range(row)
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


def with_names(verdict: Verdict) -> Verdict:
    """Returns the verdict after what names tell of the whole copy was read; ``status`` may have read its end."""
    row = verdict.row
    if row.error is not None:
        return verdict
    try:
        kind_of(row.target.destination).check_names(row.target)
    except MirrorlakeError as error:
        return Verdict(row=row, result=Result.FAILED, error=error)
    return verdict
