"""State records of mirrors, once they can be read."""

import asyncio

from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.kafka.control.cluster import ClusterClient

PAUSE_SECONDS = 0.02


async def state_written_by(client: ClusterClient, mirror: str, owner: str) -> OwnerState:
    """A mirror's newest record, as soon as it is that owner's: a commit becomes visible a moment after its answer."""
    while True:
        state = (await read_states(client)).get(mirror)
        if state is not None and state.owner == owner:
            return state
        await asyncio.sleep(PAUSE_SECONDS)
