"""The route of a delivery: what its batches become at a destination, decided once and for every kind of it.

The reader states facts (`ClassifiedBatch`). A route makes output batches and gaps of them, each when it is asked for:

1. the destination's transform is applied (`transform.py`);
2. a batch that is dense, large and not too large, and begins where the one before ended, passes through as its bytes;
3. single messages of old formats become one batch, and small batches in a row are coalesced (`coalescing.py`);
4. the rest is taken apart into batches the destination takes: split, dense, of its compression (`output_batches.py`);
5. offsets of which nothing is left are gaps, those behind the last batch too.

Archives take batches with records as they are, and find the gaps between them by themselves: for them there is only the
first step. All of it is pure; a `SizedRoute` alone changes, with what the topic takes while a lease lasts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mirrorlake.clock import Clock
from mirrorlake.destinations.coalescing import NOT_COALESCED_BYTES_MIN, coalesce
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery, Progress
from mirrorlake.destinations.output_batches import (
    NOT_COVERED,
    Output,
    OutputGap,
    coalesce_messages,
    outputs_of,
    passthrough,
)
from mirrorlake.destinations.schema_batches import Part, Unreadable, parts_with_ids
from mirrorlake.destinations.size_limit import ReadLimit, SizeLimit
from mirrorlake.destinations.transform import AS_IT_IS, Transform
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.batches import DENSE, Batch, Path
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import OffsetRange, TopicPartition

_NO_END = 1 << 62
_DENSE_PATH, _DENSE_REASON = DENSE.path, DENSE.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How one destination partition takes batches.

    Attributes:
        batch_bytes_max: the largest batch it takes, inclusive.
        packs: False where every record keeps its offset: an output batch then has a record at each of its offsets.
            True where they may be packed, whatever offsets lie between.
        transform: what the copy changes of records.
        record_bytes_max: a single record's batch may be so large; as ``batch_bytes_max`` where that is more.
    """

    batch_bytes_max: int
    packs: bool
    transform: Transform = AS_IT_IS
    record_bytes_max: int = 0

    def outputs(
        self,
        items: Sequence[ClassifiedBatch],
        *,
        position: int,
        covered_end: int,
        now_ms: int = 0,
        coalesced_bytes: int = 0,
        unreadable: Unreadable | None = None,
        in_place: bool = False,
    ) -> Iterator[Output]:
        """Yields batches and gaps that account for ``[position, covered_end)`` in order, without a hole and none twice.

        They are made as they are asked for, from the bytes of the fetch answer, which must stay where they are
        until the last one.

        Args:
            items: the batches of a delivery, in order; their checksums were verified.
            position: the next offset the destination needs; records before it are left out.
            covered_end: where the delivery ends; a batch may reach past it, and its records then are not left out.
            now_ms: Unix milliseconds, for the transform.
            coalesced_bytes: up to this size batches of any size are coalesced; 0 for small ones only.
            unreadable: takes batches with records that name no schema; None where they stop the delivery.
            in_place: whether the bytes of the items may be changed where they are, see ``with_ids``.

        Raises:
            RecordTooLargeError: a single record makes a batch above ``batch_bytes_max`` and ``record_bytes_max``. What
                is before it has been yielded.
            CorruptBatchError: the records of a batch are not right. What is before it has been yielded.
            SchemaUnknownError, SchemaUnreadableError: see ``with_ids``. What is before it has been yielded.
        """
        ids = self.transform.schema_ids
        if ids is None:
            return self._outputs(items, position, covered_end, now_ms, coalesced_bytes)
        # In parts: what is changed is a copy, unless in place, and so many of them are there at a time.
        parts = parts_with_ids(items, ids, covered_end=covered_end, unreadable=unreadable, in_place=in_place)
        return self._outputs_of_parts(parts, position, now_ms, coalesced_bytes)

    def _outputs_of_parts(
        self, parts: Iterator[Part], position: int, now_ms: int, coalesced_bytes: int
    ) -> Iterator[Output]:
        for part, part_end, failure in parts:
            for output in self._outputs(part, position, part_end, now_ms, coalesced_bytes):
                yield output
                position = output.end_offset
            if failure is not None:
                raise failure

    def _outputs(
        self,
        items: Sequence[ClassifiedBatch],
        position: int,
        covered_end: int,
        now_ms: int,
        coalesced_bytes: int,
    ) -> Iterator[Output]:
        if self.transform.changes_batches:
            items = self.transform.batches(items, now_ms=now_ms)
        taken, limit = 0, self.batch_bytes_max
        alone_bytes_min = max(NOT_COALESCED_BYTES_MIN, coalesced_bytes // 2 + 1)
        for item in items:
            # It finds what `outputs_of` finds, in a tenth of the time: large batches come by thousands a second.
            header = item.batch.header
            if (
                item.path != _DENSE_PATH
                or item.reason != _DENSE_REASON
                or header.base_offset != position
                or not alone_bytes_min <= header.batch_bytes <= limit
            ):
                break
            position += header.record_count
            yield passthrough(item.batch, header, position)
            taken += 1
        if taken < len(items):
            for output in self._rest(items[taken:], position, coalesced_bytes):
                yield output
                position = output.end_offset
        if covered_end > position:
            yield OutputGap(offsets=OffsetRange(start_offset=position, end_offset=covered_end), reason=NOT_COVERED)

    def _rest(self, items: Sequence[ClassifiedBatch], position: int, coalesced_bytes: int) -> Iterator[Output]:
        limit, packs, keeps = self.batch_bytes_max, self.packs, self.transform.sets_times
        for item in coalesce(
            coalesce_messages(items),
            batch_bytes_max=limit,
            packs=packs,
            keeps_log_append_time=keeps,
            coalesced_bytes=coalesced_bytes,
        ):
            for output in outputs_of(
                item,
                position=position,
                end_offset=_NO_END,
                batch_bytes_max=limit,
                record_bytes_max=self.record_bytes_max,
                packs=packs,
                keeps_log_append_time=keeps,
            ):
                yield output
                position = output.end_offset


class SizedRoute:
    """The route of one sink, to a topic of which a lease may learn that it takes smaller batches.

    Args:
        limit: how large a batch the topic takes, as far as it is known when the lease begins.
        progress: of the sink; it takes what a refusal has told.
        clock: the wall clock is the transform's.
        packs: see ``Route``.
        transform: what the copy changes of records.
    """

    def __init__(
        self, limit: SizeLimit, *, progress: Progress, clock: Clock, packs: bool, transform: Transform
    ) -> None:
        self._limit = limit
        self._progress = progress
        self._clock = clock
        self._packs = packs
        self._transform = transform
        self._route = self._made()

    @property
    def schema_ids(self) -> SchemaIdMap | None:
        """What schema ids of records become; None where they stay."""
        return self._transform.schema_ids

    @property
    def split_bytes(self) -> int:
        """No batch of several records is made larger."""
        return self._limit.split_bytes

    def outputs(
        self, delivery: Delivery, *, position: int, coalesced_bytes: int, unreadable: Unreadable | None
    ) -> Iterator[Output]:
        """Yields batches and gaps that account for a delivery from ``position`` on, see ``Route.outputs``."""
        return self._route.outputs(
            delivery.batches,
            position=position,
            covered_end=delivery.covered.end_offset,
            now_ms=int(self._clock.now_seconds() * 1000),
            coalesced_bytes=coalesced_bytes,
            unreadable=unreadable,
            in_place=delivery.may_be_changed,
        )

    async def read_limit_again(self, read_limit: ReadLimit) -> None:
        """Reads how large a batch the topic takes, where it has refused one since that was read.

        Raises:
            RecordTooLargeError: a single record was refused for its size.
            MirrorlakeError: the topic's configuration could not be read.
        """
        if self._limit.refusal is not None:
            self._set_limit(self._limit.read_again(await read_limit()))

    def append_failed(self, error: MirrorlakeError, where: TopicPartition) -> None:
        """Remembers that the topic has refused a batch for its size, where an append failed because of that."""
        if (limit := self._limit.after(error, where)) is not self._limit:
            self._set_limit(limit)

    def _set_limit(self, limit: SizeLimit) -> None:
        self._limit = self._progress.size_limit = limit
        self._route = self._made()

    def _made(self) -> Route:
        return Route(
            batch_bytes_max=self._limit.split_bytes,
            record_bytes_max=self._limit.bytes_max,
            packs=self._packs,
            transform=self._transform,
        )


def with_records(items: Sequence[ClassifiedBatch], *, transform: Transform = AS_IT_IS, now_ms: int = 0) -> list[Batch]:
    """Returns what an archive takes of a delivery: the batches that hold records a consumer is shown, in order.

    Args:
        items: as they were classified; their checksums were verified.
        transform: what the copy changes of records.
        now_ms: Unix milliseconds, for the transform.
    """
    if transform.changes_batches:
        items = transform.batches(items, now_ms=now_ms)
    return [item.batch for item in items if item.path != Path.SKIP]
