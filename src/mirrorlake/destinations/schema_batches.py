"""Batches of a delivery with the destination's schema ids, a part at a time."""

from collections.abc import Callable, Iterator, Sequence

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import MirrorlakeError, SchemaUnreadableError
from mirrorlake.kafka.records.batches import Path
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.kafka.schema_ids.rewriting import counted_ids, with_ids

PART_BYTES = 4 * 1024 * 1024
"""What is copied at a time, to within one batch."""

OLD_FORMAT_REASON = "old-format-schema-ids"
"""Of what was a message of v0 or v1, and is a v2 batch of records now."""

Unreadable = Callable[[ClassifiedBatch, SchemaUnreadableError], ClassifiedBatch]
"""Takes a batch that has records nobody can read, and why; returns what is left of it without them, or raises."""

Part = tuple[list[ClassifiedBatch], int, MirrorlakeError | None]


def parts_with_ids(
    items: Sequence[ClassifiedBatch],
    ids: SchemaIdMap,
    *,
    covered_end: int,
    unreadable: Unreadable | None = None,
    in_place: bool = False,
) -> Iterator[Part]:
    """Yields items with their ids changed, up to which offset (exclusive) they account for, and what stopped the last.

    Args:
        items: of a delivery, in order, their checksums verified.
        ids: the map.
        covered_end: where the delivery ends.
        unreadable: takes batches with records that cannot be read, each before anything of its part is yielded; None
            where they stop it.
        in_place: whether the bytes of the items may be changed where they are, see ``with_ids``.
    """
    part: list[ClassifiedBatch] = []
    size = 0
    end = 0
    for item in items:
        if size >= PART_BYTES:
            yield part, end, None
            part, size = [], 0
        try:
            part.append(_changed(item, ids, unreadable, in_place=in_place))
        except MirrorlakeError as failure:
            yield part, end, failure
            return
        size += item.batch.header.batch_bytes
        end = item.batch.header.next_offset
    yield part, covered_end, None


def count_ids(items: Sequence[ClassifiedBatch], ids: SchemaIdMap) -> list[SchemaIdCounts]:
    """Checks as `check_ids`, and returns for each batch that holds records which schemas they name.

    Args:
        items: of a delivery, their checksums verified.
        ids: what is there.

    Raises:
        SchemaUnknownError, SchemaUnreadableError, CorruptBatchError, BatchTooLargeError: as `check_ids`.
    """
    return [counted_ids(item.batch, ids) for item in items if item.path != Path.SKIP]


def check_ids(items: Sequence[ClassifiedBatch], ids: SchemaIdMap | None) -> None:
    """Checks, for a copy whose records keep their ids, that the schemas of all of them are there already.

    Args:
        items: of a delivery, their checksums verified.
        ids: what is there, each id with itself; None where nobody asks for it.

    Raises:
        SchemaUnknownError: an id is not in the map.
        SchemaUnreadableError: an id's schema does not come to the destination.
        CorruptBatchError, BatchTooLargeError: the records of a batch are not right.
    """
    if ids is not None:
        for item in items:
            if item.path != Path.SKIP:
                with_ids(item.batch, ids)


def _changed(
    item: ClassifiedBatch, ids: SchemaIdMap, unreadable: Unreadable | None, *, in_place: bool
) -> ClassifiedBatch:
    if item.path == Path.SKIP:
        return item
    try:
        batch = with_ids(item.batch, ids, in_place=in_place)
    except SchemaUnreadableError as error:
        if unreadable is None:
            raise
        return _changed(unreadable(item, error), ids, None, in_place=False)
    if batch is item.batch:
        return item
    if batch.header.magic != item.batch.header.magic:
        return item._replace(batch=batch, path=Path.RECORDS.value, reason=OLD_FORMAT_REASON)
    return item._replace(batch=batch)
