"""The search for the schema ids of a batch, in memory that one batch after another uses.

Half of what a search costs from Python is memory for what it finds. In a copy nearly all batches have nothing but ids
that are known, and of those no more is asked than what changes.
"""

import threading

import numpy as np

from mirrorlake.kafka.records import decode_kernels
from mirrorlake.kafka.records.batch_header import BatchHeader
from mirrorlake.kafka.records.decode import record_error
from mirrorlake.kafka.records.kernels import UInt8s
from mirrorlake.kafka.schema_ids import id_kernels as kernels
from mirrorlake.kafka.schema_ids.id_map import SIDES, UNKNOWN_IDS_MAX, SchemaIdMap

SEEN_MAX = 32
"""Ids and GUIDs of one batch that are counted in the search; a batch with more of them is decoded for it."""

_NOTHING_SEEN = np.empty((0, kernels.SEEN_FIELDS), np.int64)
_RECORDS = 1024
_RECORDS_KEPT = 64 * 1024


class Search(threading.local):
    """One search per thread. What it found is good until the thread's next one.

    Attributes:
        patches: a row for each id or GUID that changes, as `id_kernels.py` lays it out, and more that mean nothing.
        counts: records by side and framing.
        first_deltas: the offset delta of the first record of each; without meaning where there is none.
        unknown: ids that the map does not hold, and more that mean nothing.
        unknown_guids: GUIDs likewise, each in two words.
        seen: a row for each id and GUID, as `id_kernels.py` lays it out, where that was asked for; and more that mean
            nothing.
        outcome: how many there are of these, as `id_kernels.py` lays it out.
    """

    def __init__(self) -> None:
        self._reserve(_RECORDS)
        self.counts = np.zeros((SIDES, kernels.KINDS), np.int64)
        self.first_deltas = np.zeros((SIDES, kernels.KINDS), np.int64)
        self.unknown = np.empty(UNKNOWN_IDS_MAX, np.int64)
        self.unknown_guids = np.empty((UNKNOWN_IDS_MAX, 2), np.int64)
        self.seen = np.empty((SEEN_MAX, kernels.SEEN_FIELDS), np.int64)
        self.outcome = np.zeros(kernels.OUTCOME_FIELDS, np.int64)

    def _reserve(self, records: int) -> None:
        self._records = records
        self.patches = np.empty((SIDES * records, kernels.PATCH_FIELDS), np.int64)

    @property
    def patch_count(self) -> int:
        """How many ids and GUIDs change."""
        return self.outcome.item(kernels.PATCHES)

    def run(self, header: BatchHeader, payload: UInt8s, ids: SchemaIdMap, *, counts_names: bool = False) -> bool:
        """Searches a batch's records; returns whether each has an id or GUID that is known, or is null.

        Args:
            header: of a v2 batch.
            payload: its records, decompressed.
            ids: the map.
            counts_names: whether to count how many records name which id or GUID.

        Raises:
            CorruptBatchError: a record is not right.
        """
        count = header.record_count
        # So that one large batch does not hold its memory for ever.
        if count > self._records or self._records > _RECORDS_KEPT:
            self._reserve(max(count, _RECORDS))
        status = kernels.find_ids(
            payload.ctypes.data,
            len(payload),
            count,
            header.last_offset_delta,
            ids.source_ids,
            ids.destination_ids,
            ids.source_guids,
            ids.destination_guids,
            ids.guid_states,
            ids.sides,
            self.patches,
            self.counts,
            self.first_deltas,
            self.unknown,
            self.unknown_guids,
            self.seen if counts_names else _NOTHING_SEEN,
            self.outcome,
        )
        if status != decode_kernels.OK:
            raise record_error(header, status, self.outcome.item(kernels.FAILED_RECORD))
        return self.outcome.item(kernels.OTHERS) == 0


SEARCH = Search()
