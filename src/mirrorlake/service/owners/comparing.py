"""What an owner does again and again: looks whether it still is one, and keeps its state records true."""

import asyncio
from collections.abc import Sequence

import structlog

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, knock_id, transactional_id
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import MirrorlakeError, SupersededError, UnsupportedError
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.service.owners.take_overs import TakeOver, left_seconds, map_shards, with_hold
from mirrorlake.service.owners.writer_ids import as_of_now

_log = structlog.get_logger("mirrorlake")

LAST_LOOK_SECONDS_MAX = 2.0
"""A coordinator that hangs must not keep a process that ends from letting go of its mirrors."""


async def compare(clients: WorkerCache, group: Sequence[TakeOver], *, hold_seconds: float, clock: Clock) -> None:
    """Compares the owners of mirrors of one cluster with what this process holds.

    What the state records say of writers is brought up to date, and who asks whether an owner is alive is answered.
    A cluster that cannot be asked is no reason to end.

    Args:
        clients: the driver's cluster clients.
        group: the mirrors.
        hold_seconds: how long leases of this process may append.
        clock: that of `TakeOver.fills_from`.

    Raises:
        SupersededError: another process has taken a mirror over.
    """
    names = [transactional_id(take_over.ownership.mirror) for take_over in group]
    knocks = [knock_id(take_over.ownership.mirror) for take_over in group]
    try:
        found = await clients.client(group[0].settings).describe_transactions([*names, *knocks])
    except MirrorlakeError:
        return  # not being able to ask is no reason to end
    for take_over, name in zip(group, names, strict=True):
        state = found.get(name)
        if isinstance(state, UnsupportedError):
            await _prove(take_over.ownership)
        else:
            take_over.ownership.check(state)
    for take_over, knock in zip(group, knocks, strict=True):
        if not await _remember(clients, take_over, hold_seconds=hold_seconds, now=clock.elapsed_seconds()):
            await _answer(take_over, found.get(knock))


async def _prove(ownership: Ownership) -> None:
    try:
        await ownership.prove()
    except SupersededError:
        raise
    except MirrorlakeError:
        return  # not being able to ask is no reason to end


async def _answer(take_over: TakeOver, knock: TransactionState | MirrorlakeError | None) -> None:
    """Writes the state record anew where somebody wants to know whether its owner is alive."""
    state = take_over.ownership.state
    if state is None or not take_over.ownership.is_held or not isinstance(knock, TransactionState):
        return
    heard = knock.producer_id, knock.producer_epoch
    if heard != take_over.heard:
        await write_state(take_over, state)
        take_over.heard = heard


async def _remember(clients: WorkerCache, take_over: TakeOver, *, hold_seconds: float, now: float) -> bool:
    """Writes the state record anew where what it says of writers, or of owners before, is not so any more.

    See `as_of_now`. That leases of owners before can append no more is written once: what is left of their time
    meanwhile is not, and whoever comes then waits for too long.

    Returns:
        Whether it was written.
    """
    state = take_over.ownership.state
    if state is None or not take_over.ownership.is_held:
        return False
    try:
        client = clients.client(take_over.settings)
        newest = await as_of_now(client, state, map_shards=map_shards(take_over))
        if left_seconds(take_over, now=now) == 0.0:
            newest = with_hold(newest, own_seconds=hold_seconds, before_seconds=0.0)
        if newest != state:
            await take_over.ownership.update(newest)
            return True
    except SupersededError:
        raise
    except MirrorlakeError as error:
        _log.warning("producer ids not remembered, trying again", mirror=state.mirror, error=error.message)
    return False


async def last_state(clients: WorkerCache, take_over: TakeOver) -> OwnerState | None:
    """Returns what the state record of a mirror is to say of writers once the last lease has ended; see `as_of_now`.

    Where that cannot be asked soon it is what the record says: the producer ids that leases began with are in it.
    """
    state = take_over.ownership.state
    if state is None:
        return None
    try:
        async with asyncio.timeout(LAST_LOOK_SECONDS_MAX):
            client = clients.client(take_over.settings)
            return await as_of_now(client, state, map_shards=map_shards(take_over))
    except (MirrorlakeError, TimeoutError) as error:
        _log.warning("producer ids not remembered at the end", mirror=state.mirror, error=str(error) or "no answer")
        return state


async def write_state(take_over: TakeOver, state: OwnerState) -> None:
    """Writes a state record anew; where that fails it is logged, and tried again at the next comparison.

    Raises:
        SupersededError: another process has taken the mirror over.
    """
    try:
        await take_over.ownership.update(state)
    except SupersededError:
        raise
    except MirrorlakeError as error:
        take_over.refusal = error
        _log.warning("state record not written, trying again", mirror=state.mirror, error=error.message)
