"""Records that carry the time at which they are copied, onto a topic that keeps whatever time a producer gives.

As if the source's brokers had stamped them at this moment: a batch whose header says so is taken apart on its way, and
its records get that one time (`output_batches.py`). Nothing else of a record changes.
"""

import contextlib
from collections.abc import Sequence

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batch_header import LOG_APPEND_TIME_BIT
from mirrorlake.kafka.records.batches import LOG_APPEND_TIME, OLD_FORMAT, Batch, Path
from mirrorlake.kafka.records.old_formats import as_v2


def stamped(items: Sequence[ClassifiedBatch], now_ms: int) -> list[ClassifiedBatch]:
    """Returns the items of a delivery in order, those with records as batches that were stamped at ``now_ms``.

    The bytes are shared with those given; only headers differ from them.

    Args:
        items: as they were classified.
        now_ms: Unix milliseconds.
    """
    return [_stamped(item, now_ms) for item in items]


def _stamped(item: ClassifiedBatch, now_ms: int) -> ClassifiedBatch:
    if item.path == Path.SKIP:
        return item
    batch = item.batch
    if batch.header.magic == 0:
        # Messages of v0 know no times, nor can their header say that a broker set one.
        with contextlib.suppress(CorruptBatchError):  # said when it is its turn
            return _stamped(item._replace(batch=as_v2(batch), path=Path.RAW, reason=LOG_APPEND_TIME.reason), now_ms)
    header = batch.header._replace(attributes=batch.header.attributes | LOG_APPEND_TIME_BIT, max_timestamp=now_ms)
    if header.magic < 2:
        reason = OLD_FORMAT.reason
    else:
        reason = item.reason if item.path == Path.RECORDS else LOG_APPEND_TIME.reason
    return item._replace(batch=Batch(header, batch.view), path=Path.RECORDS, reason=reason)
