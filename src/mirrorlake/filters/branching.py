"""Which records a branch of a route takes, over columns. Pure."""

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.filters.branch import Branch
from mirrorlake.filters.evaluation import Failures, bytes_of
from mirrorlake.kafka.records.columns import RecordColumns

Bools = npt.NDArray[np.bool_]

_NAME = re.compile(rb"[A-Za-z0-9._-]{1,249}")
"""What could be a topic: another text is a mistake of the expression's, and may be anything that a record holds."""


class UnroutedError(Exception):
    """No topic of a route is named for a record; with the record's row, and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row, self.why = row, why


def taken_rows(
    branch: Branch, records: RecordColumns, *, partition: int, asked: Bools, is_strict: bool = True
) -> Bools:
    """Returns True for each record that goes to the branch's topic.

    Args:
        branch: the topic's.
        records: as the source has them.
        partition: of the source, that they are of.
        asked: which records the route is asked for; the others go nowhere.
        is_strict: False where a record that no topic is named for is in none, whatever the route says of it.

    Raises:
        UnroutedError: the partition is to stop at a record; it is the first one.
    """
    failures = Failures(len(records))
    named = bytes_of(branch.to.condition, records, partition=partition, failures=failures, asked=asked)
    is_declared = _is_one_of(named, branch.topics)
    if is_strict:
        _check(branch, named, is_unnamed=asked & ~is_declared, failures=failures)
    takes = _is_one_of(named, (branch.topic,))
    if branch.fallback == branch.topic:
        takes |= ~is_declared
    takes &= asked
    return takes & ~failures.is_failed


def _is_one_of(texts: pa.LargeBinaryArray, topics: tuple[str, ...]) -> Bools:
    known = pa.array([topic.encode() for topic in topics], pa.large_binary())
    found: Bools = pc.is_in(texts, value_set=known).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _check(branch: Branch, named: pa.LargeBinaryArray, *, is_unnamed: Bools, failures: Failures) -> None:
    """Raises where a strict caller has to stop: at the first record without a value, or without a declared topic."""
    stops: list[tuple[int, str]] = []
    if failures.row is not None:
        stops.append((failures.row, failures.why))
    unnamed = np.flatnonzero(is_unnamed)
    if branch.parks and len(unnamed):
        stops.append((int(unnamed[0]), _said(named[int(unnamed[0])].as_py())))
    if stops:
        # A record that fails has no topic either: why it failed says more.
        raise UnroutedError(*min(stops, key=lambda stop: stop[0]))


def _said(value: bytes | None) -> str:
    """Returns what an expression gave, without what a record may hold."""
    if value is None:
        return "it is NULL"
    if not _NAME.fullmatch(value):
        return f"it is a text of {len(value)} bytes that is no topic's name"
    return f"it is `{value.decode()}`, which is not among `topics`"
