"""Which modes a Kafka destination can be written in, by what its brokers know."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mirrorlake.config.destinations.kafka import OffsetMode
from mirrorlake.errors import UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.apis import Api

_TRANSACTION_APIS: Final = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN)

NEEDED_APIS: Final[Mapping[OffsetMode, tuple[Api, ...]]] = MappingProxyType(
    {
        # A claim rests on what the partition remembers of our producer and on the id behind a transactional id,
        # read without raising its epoch; gaps are filled with transactions.
        OffsetMode.PRESERVE: (*_TRANSACTION_APIS, Api.DESCRIBE_PRODUCERS, Api.DESCRIBE_TRANSACTIONS),
        # After each transaction the leaders are asked whether it is open anywhere.
        OffsetMode.MAP: (*_TRANSACTION_APIS, Api.DESCRIBE_PRODUCERS),
    }
)
"""What every broker of a destination has to know, by how offsets there relate to those of the source."""


async def check_destination(client: ClusterClient, *, mode: OffsetMode) -> None:
    """Returns where a destination cluster can be written in a mode; asks brokers what they know, changes nothing.

    Raises:
        UnsupportedError: some broker lacks an API; names broker, API, the version it came with, and what remains.
        MirrorlakeError: no broker can be reached.
    """
    wanted = NEEDED_APIS[OffsetMode.PRESERVE]
    refused = refusal(await client.lacking(wanted), mode=mode, cluster=client.settings.name)
    if refused is not None:
        raise refused


def refusal(lacking: Mapping[Api, UnsupportedError], *, mode: OffsetMode, cluster: str) -> UnsupportedError | None:
    """Returns why a destination cluster cannot be written in a mode, with the mode that remains; None where it can.

    Args:
        lacking: what its brokers do not know, of all in `NEEDED_APIS`, with the error that says so.
        mode: the mode that is configured.
        cluster: its name.
    """
    missing = [api for api in NEEDED_APIS[mode] if api in lacking]
    if not missing:
        return None
    first = lacking[missing[0]]
    others = "".join(f" {api.title} is missing too." for api in missing[1:])
    remaining = [other for other in NEEDED_APIS if not any(api in lacking for api in NEEDED_APIS[other])]
    remedies = [f"use `offsets: {other}`, which does without" for other in remaining] or [
        "only an archive destination remains"
    ]
    return UnsupportedError(
        f"cluster {cluster} cannot be a destination with `offsets: {mode}`: {first.message}.{others}",
        # The last one named came last to Kafka.
        hint="; ".join([*remedies, f"or upgrade the brokers: {lacking[missing[-1]].hint}"]),
        **{**first.facts, "cluster": cluster},
    )
