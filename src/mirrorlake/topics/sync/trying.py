"""Asks the brokers whether they would set what a plan sets, and sets none of it.

``validate_only`` of IncrementalAlterConfigs (KIP-339). Topics to be made are asked about where they are found missing.
Partitions to be added are not: a controller that has them already refuses, while brokers still show the old number.
"""

import asyncio
from collections.abc import Mapping, Sequence

from mirrorlake.errors import MirrorlakeError, PermissionDeniedError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.together import all_of

TRIALS_AT_ONCE = 16

Trial = tuple[ClusterClient, str, Mapping[str, str]]
"""A cluster, a topic, and settings of it by name."""

Refusals = Mapping[str, MirrorlakeError]
"""Why settings are refused, by name."""


async def try_settings(trials: Sequence[Trial]) -> list[Refusals]:
    """Returns for each trial what the brokers would refuse of it; empty is no promise.

    Brokers set all settings of a topic or none: where they refuse, each is tried alone, and those that are refused
    alone are named; all of them where none is. An answer that does not come refuses nothing: the act itself tells.
    """
    slots = asyncio.Semaphore(TRIALS_AT_ONCE)

    async def one(client: ClusterClient, topic: str, settings: Mapping[str, str]) -> Refusals:
        async with slots:
            together = await _refusal(client, topic, settings)
            if together is None:
                return {}
            tried = {name: await _refusal(client, topic, {name: value}) for name, value in settings.items()}
            return {name: error for name, error in tried.items() if error} or dict.fromkeys(settings, together)

    return list(await all_of(one(*trial) for trial in trials))


async def _refusal(client: ClusterClient, topic: str, settings: Mapping[str, str]) -> MirrorlakeError | None:
    try:
        await client.topics.set_configs(topic, settings, is_trial=True)
    except (PermissionDeniedError, UnsupportedError) as error:
        return error
    except MirrorlakeError:
        return None
    return None
