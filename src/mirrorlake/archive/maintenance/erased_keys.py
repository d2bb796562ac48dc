"""Which records an erasure leaves out: those of some keys, found as the records pass."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.archive.formats.log_batches import LogBatch, log_batch, made_of
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.kafka.records.batches import Batch
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.decode import decode_batches
from mirrorlake.offsets import Gap, GapKind

Key = bytes | None
"""A record's key; None is the null key, which is not the empty one."""


class KeySet:
    """Keys that columns of keys are compared with."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._wanted = pa.array(list(dict.fromkeys(keys)), pa.large_binary())

    def rows(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Tells of each key of a binary column whether it is one of them; null is equal to the null key alone."""
        found = pc.is_in(keys.cast(pa.large_binary()), value_set=self._wanted)
        rows: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return rows


class WithoutKeys:
    """Leaves out the records of some keys; see `making.RecordFilter`.

    Attributes:
        found: the keys that records were left out of.
        records: how many were left out.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self.found: set[Key] = set()
        self.records = 0
        self._keys = KeySet(keys)
        self._erased: list[npt.NDArray[np.int64]] = []

    @property
    def keeps_all(self) -> bool:
        """False: each record's key is looked at."""
        return False

    @property
    def runs(self) -> OffsetRuns:
        """The offsets of what was left out so far, in whatever order it came: a view's is that of keys."""
        return OffsetRuns.of_offsets(np.sort(np.concatenate([np.empty(0, np.int64), *self._erased])))

    @property
    def gaps(self) -> Sequence[Gap]:
        """The same as gaps, in offset order."""
        return self.runs.gaps(GapKind.ERASED)

    def columns(self, columns: RecordColumns) -> RecordColumns:
        """Returns the records of other keys."""
        erased = self._keys.rows(columns.keys)
        if not erased.any():
            return columns
        self.found.update(pc.unique(columns.keys.filter(pa.array(erased))).to_pylist())
        self.records += int(erased.sum())
        self._erased.append(columns.offsets[erased])
        rows = np.flatnonzero(~erased)
        return columns.relocated(rows, columns.offsets[rows])

    def batches(self, batches: Sequence[Batch]) -> list[LogBatch]:
        """Returns the batches as they are, but for those with such a key: what is left of one is a batch of its own.

        Raises:
            CorruptBatchError: one cannot be read.
        """
        kept: list[LogBatch] = []
        for batch in batches:
            columns = decode_batches([batch])
            left = self.columns(columns)
            if len(left) == len(columns):
                kept.append(log_batch(batch))
            elif len(left):
                kept.append(made_of(batch, left))
        return kept
