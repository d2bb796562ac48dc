"""The batches in flight to one partition whose copy keeps offsets: how many may be, and what each is addressed with."""

from collections import deque

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import Append
from mirrorlake.destinations.round_trips import REQUESTS_MAX
from mirrorlake.destinations.transactions.claim import PartitionClaim
from mirrorlake.kafka.records.batches import Batch, next_sequence, prepare_for_append

STATE_AGE_MS_MAX = 12 * 3600 * 1000
"""Half of ``producer.id.expiration.ms`` (1 day by default). A broker forgets a producer by its batches' *record*
timestamps, so after batches older than this the state may be gone at the next check."""


class AppendsInFlight:
    """What was sent under one claim and is not answered.

    Args:
        clock: the wall clock tells how old a batch is.

    Attributes:
        is_proven: whether the claim's first batch came to lie where it should; until then each is sent alone.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._appends: deque[Append] = deque()
        self._claim: PartitionClaim | None = None
        self._sequence = 0
        self.is_proven = False

    def __len__(self) -> int:
        return len(self._appends)

    def go_on_with(self, claim: PartitionClaim) -> None:
        """Addresses what is sent from now on with what a claim says."""
        self._claim = claim
        self._sequence = claim.next_sequence

    def holds(self, claim: PartitionClaim) -> bool:
        """Tells whether a claim read now, with nothing in flight, is what the next batch would be addressed with."""
        ours = self._claim
        return (
            ours is not None
            and claim.leader == ours.leader
            and (claim.producer_id, claim.producer_epoch) == (ours.producer_id, ours.producer_epoch)
            and claim.next_sequence == self._sequence
        )

    def has_room_for(self, append: Append) -> bool:
        """Tells whether a batch may be sent before one of those in flight is answered."""
        appends = self._appends
        if not appends:
            return True
        if not self.is_proven or len(appends) >= REQUESTS_MAX:
            return False
        # An old batch is sent alone, so of those in flight the first tells for all.
        oldest_ms = self._clock.now_seconds() * 1000 - STATE_AGE_MS_MAX
        return append.max_timestamp_ms >= oldest_ms and appends[0].max_timestamp_ms >= oldest_ms

    def put(self, append: Append) -> None:
        """Addresses a batch, which is sent now."""
        assert self._claim is not None, "it was claimed"
        # Only now: the epoch and the sequence are those of the claim, which a gap before this batch has changed.
        prepare_for_append(
            Batch(append.header, append.data),
            producer_id=self._claim.producer_id,
            producer_epoch=self._claim.producer_epoch,
            base_sequence=self._sequence,
        )
        self._sequence = next_sequence(self._sequence, append.records)
        self._appends.append(append)

    def take_out(self, append: Append) -> None:
        """Takes out a batch that was answered, or never will be."""
        self._appends.remove(append)
