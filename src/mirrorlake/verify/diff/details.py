"""What differs between two sides, record by record, in a range short enough to hold. Pure."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.verify.cleaned import NULL_KEY, Compacted, Suspect, Trace, lies_in, side_by_side
from mirrorlake.verify.diff.values import Difference, How, Why

_KINDS = list(GapKind)
_UNSAID, _RECORD = 254, 255
_MAY_BE_CLEANED = ("", GapKind.ABSENT.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One side of a range.

    ``gaps`` are those that are not ``absent``. Of ``unsaid`` offsets the side does not say why they hold no record,
    ``unread`` ones it could not show. ``cleaned`` are those where its log shows that a cleaner has taken records.
    """

    traces: Sequence[Trace] = ()
    gaps: Sequence[Gap] = ()
    unsaid: Sequence[OffsetRange] = ()
    unread: Sequence[OffsetRange] = ()
    cleaned: Sequence[OffsetRange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What differs, ascending; ``suspects`` are differences that the log cleaner explains if their keys came again."""

    differences: tuple[Difference, ...]
    suspects: tuple[Suspect, ...]


def differences_in(offsets: OffsetRange, a: Detail, b: Detail, compacted: Compacted) -> Found:
    """Returns what differs within ``offsets``, without what either side could not show.

    Args:
        offsets: what was read of both sides.
        a: one side.
        b: the other.
        compacted: on which sides the log cleaner works: ``source`` is A, ``copy`` is B.
    """
    is_unread = np.zeros(len(offsets), bool)
    for each in (*a.unread, *b.unread):
        is_unread[_within(each, offsets)] = True
    kinds = _kinds(offsets, a), _kinds(offsets, b)
    shows = lies_in(a.cleaned), lies_in(b.cleaned)
    runs, suspects = _Runs(), []
    for offset, at_a, at_b in side_by_side(a.traces, b.traces):
        row = offset - offsets.start_offset
        if is_unread[row]:
            runs.interrupt()
        elif at_a is not None and at_b is not None:
            if at_a.record_hash == at_b.record_hash:
                runs.interrupt()
            else:
                runs.add(offset, How.DIFFERENT, "")
        else:
            how, only, other = (How.ONLY_A, at_a, kinds[1]) if at_b is None else (How.ONLY_B, at_b, kinds[0])
            assert only is not None
            why = _why(int(other[row]))
            is_cleaned = compacted.copy or shows[1](offset) if at_b is None else compacted.source or shows[0](offset)
            if why in _MAY_BE_CLEANED and is_cleaned and only.key_hash != NULL_KEY:
                if not only.is_tombstone:
                    suspects.append(Suspect(offset, only.key_hash, how.value))
                    continue
                why = Why.CLEANED.value
            runs.add(offset, how, why)
    found = [*runs.ended(), *_gaps(offsets, *kinds, is_unread)]
    return Found(differences=tuple(sorted(found)), suspects=tuple(suspects))


def _within(each: OffsetRange, offsets: OffsetRange) -> slice:
    start = offsets.start_offset
    return slice(max(0, each.start_offset - start), max(0, min(each.end_offset, offsets.end_offset) - start))


def _kinds(offsets: OffsetRange, side: Detail) -> npt.NDArray[np.uint8]:
    """Returns for each offset the place of its gap's kind in `GapKind`, or that it is a record, or not said."""
    kinds = np.full(len(offsets), _KINDS.index(GapKind.ABSENT), np.uint8)
    for gap in side.gaps:
        kinds[_within(gap.offsets, offsets)] = _KINDS.index(gap.kind)
    for each in side.unsaid:
        kinds[_within(each, offsets)] = _UNSAID
    if side.traces:
        kinds[np.array([trace.offset for trace in side.traces], np.int64) - offsets.start_offset] = _RECORD
    return kinds


def _why(kind: int) -> str:
    return _KINDS[kind].value if kind < len(_KINDS) else ""


def _gaps(
    offsets: OffsetRange, a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], is_unread: npt.NDArray[np.bool_]
) -> Iterable[Difference]:
    """Yields the runs of offsets where both sides say why there is no record, and not the same."""
    differs = (a != b) & (a < len(_KINDS)) & (b < len(_KINDS)) & ~is_unread
    pairs = np.where(differs, 1 + a.astype(np.int64) * len(_KINDS) + b, 0)
    edges = [0, *(np.flatnonzero(np.diff(pairs)) + 1).tolist(), len(pairs)]
    for first, end in itertools.pairwise(edges):
        if end > first and pairs[first]:
            start = offsets.start_offset
            run = OffsetRange(start_offset=start + first, end_offset=start + end)
            yield Difference(run, 0, How.GAP, f"{_why(int(a[first]))} in A, {_why(int(b[first]))} in B")


class _Runs:
    """Puts differences that follow one another into runs."""

    def __init__(self) -> None:
        self._ended: list[Difference] = []
        self._open: Difference | None = None

    def add(self, offset: int, how: How, why: str) -> None:
        known = self._open
        if known is not None and (known.how, known.why) == (how, why):
            grown = OffsetRange(start_offset=known.offsets.start_offset, end_offset=offset + 1)
            self._open = Difference(grown, known.records + 1, how, why)
            return
        self.interrupt()
        self._open = Difference(OffsetRange(start_offset=offset, end_offset=offset + 1), 1, how, why)

    def interrupt(self) -> None:
        if self._open is not None:
            self._ended.append(self._open)
        self._open = None

    def ended(self) -> list[Difference]:
        self.interrupt()
        return self._ended
