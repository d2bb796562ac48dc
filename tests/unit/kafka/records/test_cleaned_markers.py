"""What the log cleaner leaves of a transaction marker: a control batch without a record."""

import struct

from mirrorlake.kafka.records.batches import CONTROL, AbortedTransactions, classify
from unit.kafka.records.record_samples import only_batch
from unit.kafka.records.written_by_kafka import WRITTEN_BY_KAFKA

EMPTIED = bytearray(WRITTEN_BY_KAFKA["abort"][:61])
struct.pack_into(">i", EMPTIED, 8, len(EMPTIED) - 12)
struct.pack_into(">i", EMPTIED, 57, 0)


def test_a_marker_the_cleaner_has_emptied_is_skipped_and_not_called_corrupt() -> None:
    batch = only_batch(EMPTIED)
    assert (batch.header.is_control, batch.header.record_count) == (True, 0)
    found = classify(batch, position=0, aborted=AbortedTransactions())
    assert found == CONTROL
