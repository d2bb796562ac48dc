"""What must hold of a destination with equal offsets before anything is appended to it, or deleted from it.

`plan` looks by the same functions as a lease, so that what one refuses the other refuses too.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mirrorlake.destinations.letters.progress_store import committed_letters
from mirrorlake.destinations.preserve.log_start import LogStart
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.destinations.tail_check import MOVED_THERE, AskLettered, TailCheck
from mirrorlake.destinations.transactions.claim import PartitionClaim, claim_from
from mirrorlake.errors import BrokerNotReadyError, DestinationForeignError, MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity, TransactionState

_NOBODY = ProducerIdentity(producer_id=-1, producer_epoch=-1)
"""Stands for a transactional id that nobody has used yet, or that we may not ask about."""


def check_writers(settings: PreserveSettings, claim: PartitionClaim, own_producer_ids: frozenset[int]) -> None:
    """Checks that the partition's leader remembers no producer but ours. Pure.

    Raises:
        DestinationForeignError: somebody else writes there, or wrote there not long ago.
        BrokerNotReadyError: a transaction is open there.
    """
    unknown = [each for each in claim.other_producer_ids if each not in own_producer_ids]
    if unknown:
        is_known = claim.producer_id >= 0
        ours = f"ours is {claim.producer_id}" if is_known else "and this mirror has never written there"
        raise DestinationForeignError(
            f"destination {settings.destination} has another writer: producer id {unknown[0]}, {ours}",
            hint=(f"{MOVED_THERE}; " if is_known else "") + "if it is the copy of another mirror, write to another "
            "topic (`topic` of the destination, `--rename` of `restore`); else stop that producer and re-create the "
            "topic",
            position=claim.end_offset,
        )
    if claim.open_producer_ids:
        raise BrokerNotReadyError(
            f"a transaction is open on destination partition {settings.destination}",
            hint="it ends by itself at its time-out; kafka-transactions.sh find-hanging shows whose it is",
        )


def tail_check_of(
    settings: PreserveSettings,
    source_log: SourceLog,
    *,
    destination_client: ClusterClient,
    lettered: AskLettered | None = None,
) -> TailCheck:
    """Returns what compares the tails of a partition and its copy.

    Args:
        settings: of the partition.
        source_log: the source partition.
        destination_client: of the destination cluster.
        lettered: is asked what has a dead letter; None asks for what is committed now.
    """
    if lettered is None and settings.letters is not None:
        lettered = partial(committed_letters, destination_client, settings.letters)
    return TailCheck(
        source_log,
        destination_client,
        settings.destination,
        source_is_compacted=settings.source_is_compacted,
        destination_is_compacted=settings.destination_is_compacted,
        transform=settings.transform,
        lettered=lettered,
    )


class Looked(NamedTuple):
    """Whether a copy is new: its log is empty, or is being filled up to where the source's begins; see `look`.

    ``held_until_ms`` is how new its records are, as `TailCheck.check` says it.
    """

    is_new: bool
    held_until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a destination cluster says of a partition and of those who wrote to it.

    ``shard`` is what the coordinator says of the shard's transactional id, None where it was never used; ``former`` of
    those of other mirrors whose copy goes on under this one. ``state`` is what the partition's leader knows.
    """

    shard: TransactionState | MirrorlakeError | None
    former: tuple[TransactionState | MirrorlakeError | None, ...]
    state: AppendState | MirrorlakeError


async def look(
    settings: PreserveSettings,
    seen: Seen,
    *,
    source_log: SourceLog,
    destination_client: ClusterClient,
    own_producer_ids: frozenset[int],
    asks_whether_new: bool,
) -> Looked:
    """Does what a lease does before its first effect, and reads only: writers, then the tails, then the beginning.

    A transaction of ours that is open belongs to somebody who is filling a gap: what lies below it is looked at.
    Where this user may not ask for the shard's producer id, and the state record names none, no
    producer can be called unknown; the tails are compared all the same.

    Returns:
        What it has found. Whether the copy is being filled is not looked at unless ``asks_whether_new``.

    Raises:
        DestinationForeignError: somebody else writes there, or wrote there.
        DestinationAheadError: the source's log ends below the position.
        MirrorlakeError: a side could not be read; nothing is concluded.
    """
    shard, state = seen.shard, seen.state
    if isinstance(state, MirrorlakeError):
        raise state
    if isinstance(shard, MirrorlakeError) and not isinstance(shard, PermissionDeniedError):
        raise shard
    claim = claim_from(_identity(shard), state, leader=-1)
    known = {each.producer_id for each in (shard, *seen.former) if isinstance(each, TransactionState)}
    own = own_producer_ids | known
    if own or not isinstance(shard, PermissionDeniedError):
        check_writers(settings, replace(claim, open_producer_ids=tuple(set(claim.open_producer_ids) - own)), own)
    position = min([claim.end_offset, *_open_from(state, own)])
    check = tail_check_of(settings, source_log, destination_client=destination_client)
    held = await check.check(position, None if not own and isinstance(shard, PermissionDeniedError) else own)
    if position == 0 or not asks_whether_new:
        return Looked(position == 0, held)
    return Looked(await LogStart(destination_client, settings.destination).holds_only_fillers(position, own), held)


def _identity(found: TransactionState | MirrorlakeError | None) -> ProducerIdentity:
    if isinstance(found, TransactionState):
        return ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
    return _NOBODY


def _open_from(state: AppendState, own: frozenset[int]) -> list[int]:
    starts = [each.transaction_start_offset for each in state.producers if each.producer_id in own]
    return [start for start in starts if start is not None]
