"""A position with mapped offsets that is moved by hand: what its progress becomes, and how that is written.

The offset map keeps what it says. Records that are copied once more after a move back lie behind all it names, and it
goes on to name the first copies (`transaction_participants`): who continues at a first copy meets the second one later.
The other way round, a map that forgot the first copies would lead a group past those it has not read, wherever the
copy has not caught up again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import AppendChannel
from mirrorlake.destinations.map.marks.route_mark import UNMARKED
from mirrorlake.destinations.map.offset_map import OpenPage
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_progress
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.map.shard_transaction import ShardTransaction
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash

SEND_SECONDS_MAX = 60.0
"""Longer than all steps take where brokers answer; a process that was frozen for so long writes nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMove:
    """What the progress of one source partition was, None where there was none, and what it is to become."""

    key: ProgressKey
    before: MapProgress | None
    after: MapProgress


def moved(progress: MapProgress, offset: int) -> MapProgress:
    """Returns the progress with its position at another source offset. Pure.

    Forwards the range says which offsets were passed over, as with those that a source has deleted. Where no record was
    ever copied the copy begins there. By which route it was copied is not said any more: whoever moves a topic says
    where the route of now holds for it.
    """
    start = min(progress.position, offset)
    after = replace(
        progress,
        leader_epoch=-1,
        offsets=OffsetRange(start_offset=start, end_offset=offset),
        destination_offset=None,
        route=UNMARKED,
        empty_from=None,
    )
    if progress.destination_end or progress.page.runs or progress.page.start_offset != progress.start_offset:
        return after
    return replace(after, page=OpenPage.at(offset), start_offset=offset)


def begun_at(
    offset: int,
    *,
    source_cluster_id: str,
    source_topic_id: str,
    destination_topic_id: str,
    destination_partition: int,
) -> MapProgress:
    """Returns the progress of a partition that has none, as a lease writes it before the first record. Pure."""
    return MapProgress(
        source_cluster_id=source_cluster_id,
        source_topic_id=source_topic_id,
        destination_topic_id=destination_topic_id,
        leader_epoch=-1,
        offsets=OffsetRange(start_offset=offset, end_offset=offset),
        destination_partition=destination_partition,
        destination_offset=None,
        destination_end=0,
        page=OpenPage.at(offset),
        start_offset=offset,
    )


async def write_moves(
    client: ClusterClient,
    topics: ProgressTopics,
    shard: int,
    moves: Sequence[ProgressMove],
    *,
    clock: Clock,
    before_write: Callable[[], Awaitable[None]],
    crash_point: CrashPoint = no_crash,
) -> None:
    """Writes the moves of one shard in one transaction, and reads them back.

    A crash at any step leaves all of them or none. Every other writer of the shard is fenced first.

    Args:
        client: of the destination cluster.
        topics: of the mirror; made where they are missing and their ids not known.
        shard: of all the moves.
        moves: at least one.
        clock: dates the records.
        before_write: see ``ShardTransaction.rewrite``.
        crash_point: called before every step; for tests.

    Raises:
        PositionMovedError: a position is another one than the move says, or another writer has fenced this one.
        OutcomeUnknownError: an answer was lost, or something else was read back: look where the positions are.
        MirrorlakeError: the cluster could not do it.
    """
    transaction = ShardTransaction(
        client,
        map_transactional_id(topics.mirror, shard),
        topics,
        shard,
        channel_to=_no_channel,
        clock=clock,
        send_until_seconds=clock.elapsed_seconds() + SEND_SECONDS_MAX,
        crash_point=crash_point,
    )
    wanted = {move.key: move.after for move in moves}
    try:
        await transaction.rewrite({move.key: move.before for move in moves}, wanted, before_write=before_write)
        found = await read_progress(client, topics.progress_of(shard))
    finally:
        await asyncio.shield(transaction.cancel())
    if other := [key for key, after in wanted.items() if found.get(key) != after]:
        raise OutcomeUnknownError(
            f"{topics.progress_of(shard)} does not say what was written there of source {other[0].source}: another "
            "process has copied since",
            hint="look again where the positions are",
        )


async def _no_channel(broker: int) -> AppendChannel:
    raise AssertionError(f"a move appends no data, so it needs no channel to broker {broker}")
