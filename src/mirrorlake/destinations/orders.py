"""What the driver tells a lease of one destination of one source partition, and no other lease."""

from dataclasses import dataclass, replace

from mirrorlake.archive.chain import Segment
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.destinations.transform import Transform
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.travelling import travelling


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What only one lease is told; each kind takes what concerns it. Settings say what the configuration wants.

    ``schema_ids`` is what schema ids of records become, as far as it is known by now; None where nothing is.
    ``last_position`` is where this process last saw the destination stand, None where it has not. ``size_limit`` is how
    large a batch the destination takes, None where that is still as the work says. ``needs_tail_check``
    is False only where its last lease ended without anything unknown; a log that ends elsewhere than at
    ``last_position`` is checked all the same. ``hand_off`` is what that lease left, None unless it ended cleanly.

    Of archives: ``known_tail`` is the newest segment as last seen, ``read_end_offset`` (exclusive) how far to read at
    most, ``flushes_rest`` whether what is left below it becomes a segment too, for the reason ``rest_trigger``;
    ``claim_looks`` counts the leases in a row that found a claim past the source's end; ``archive_id`` is the id of the
    archive that was seen in the root, empty where none was.

    Of a `WrittenPartition`: ``own_producer_ids`` are those the shard wrote under before its transactional id was given
    another one. ``fill_wait_seconds`` is how long after the lease's start the first gap may be filled: the owner before
    may have read the source when the gap was not there yet, and is past its deadline then. ``not_owner_because`` is why
    this process could not take the mirror over, and no gap is filled; empty where it has, or has not tried yet.
    """

    last_position: int | None = None
    size_limit: SizeLimit | None = None
    needs_tail_check: bool = True
    hand_off: ProducerHandOff | None = None
    known_tail: Segment | None = None
    read_end_offset: int = 0
    flushes_rest: bool = False
    rest_trigger: str = ""
    claim_looks: int = 0
    archive_id: str = ""
    own_producer_ids: frozenset[int] = frozenset()
    fill_wait_seconds: float = 0.0
    not_owner_because: str = ""
    schema_ids: SchemaIdMap | None = None

    def with_ids(self, transform: Transform) -> Transform:
        """Returns what the copy changes of records by the settings, with the schema ids that are known by now."""
        if transform.schema_ids is None or self.schema_ids is None:
            return transform
        return replace(transform, schema_ids=self.schema_ids)


NO_ORDERS = Orders()
"""Of a work that no lease was told of yet: what is not known is not assumed."""
