"""When an empty answer below the last stable offset means that there is no record: hardly ever.

A log gives out markers and aborted data too, so every offset below its last stable one has a batch, or has one behind
it, but for two cases. The cleaner may take the last records of a compacted log and leave no batch in their place. And
a remote tier (KIP-405) that takes longer than the broker waits for it (``remote.fetch.max.wait.ms``), or is throttled
there, is answered without records and without an error (``DelayedRemoteFetch``, ``ReplicaManager`` of Apache Kafka).
The first is a hole, the second hides records; an answer looks the same.
"""

from collections.abc import Mapping

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, RemoteTierError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.offsets import OffsetRange, TopicPartition

_CLEANUP = "cleanup.policy"


class TailHole:
    """What a row of empty answers says of the offsets behind a position. Pure; nothing is believed unproven.

    A hole is believed where an answer was empty, then the cleaner was proven to explain it, and then an answer was
    empty again: up to where the first of the two answers was stable, as the second could have held all of that.
    """

    def __init__(self) -> None:
        self._offsets: OffsetRange | None = None
        self._is_asked = False
        self._is_proven = False
        self.refusal: MirrorlakeError | None = None
        """Why the last empty answers are not believed; None where none came, or nobody was asked yet."""

    def saw_nothing(self, position: int, stable_end: int) -> int:
        """Takes an answer from ``position`` on that is empty, and not for want of room; returns the end of the hole.

        That is ``position`` where there is none, or none is proven. ``stable_end`` is the last stable offset that
        the answer names.
        """
        if stable_end <= position:
            self.saw_batches()
        elif self._offsets is None or self._offsets.start_offset != position:
            self.saw_batches()
            self._offsets = OffsetRange(start_offset=position, end_offset=stable_end)
        elif self._is_proven:
            return self._offsets.end_offset
        return position

    def saw_batches(self) -> None:
        """Forgets what was empty: the log gives something, or has nothing more."""
        self._offsets, self.refusal = None, None
        self._is_asked = self._is_proven = False

    @property
    def question(self) -> OffsetRange | None:
        """The offsets that `why_no_hole` should be asked about; None where there are none, or it was asked."""
        return None if self._is_asked else self._offsets

    def answered(self, asked: OffsetRange, refusal: MirrorlakeError | None) -> None:
        """Takes what `why_no_hole` said of ``asked``; an answer that comes too late is dropped."""
        if asked == self._offsets:
            self._is_asked = True
            self._is_proven, self.refusal = refusal is None, refusal


async def why_no_hole(
    client: ClusterClient, partition: TopicPartition, offsets: OffsetRange, *, whose: str = "source"
) -> MirrorlakeError | None:
    """Returns why an empty answer from the start of ``offsets`` on does not say that no record is there.

    None where the cleaner explains it: the topic is compacted, and the offset lies in the leader's local log.

    Args:
        client: of the cluster.
        partition: that answered so.
        offsets: from the one asked for up to the last stable one, exclusive.
        whose: the cluster's part, for the message.
    """
    try:
        local_start = (await client.local_starts([partition]))[partition]
        configs = (await client.topics.configs([partition.topic]))[partition.topic]
    except MirrorlakeError as error:
        return error
    where = f"{partition} in cluster {client.settings.name!r} gives nothing at offset {offsets.start_offset}"
    ends = f"its last stable offset is {offsets.end_offset}"
    if isinstance(local_start, MirrorlakeError):
        return local_start
    if not 0 <= local_start <= offsets.start_offset:
        return RemoteTierError(
            f"waiting for the {whose}'s remote tier: {where}, its local log begins at {local_start} and {ends}",
            hint="nothing is skipped, it is read again and again; a tier that takes longer than "
            "remote.fetch.max.wait.ms of the brokers is answered empty: raise that, or find out what slows the tier",
            local_start=local_start,
            partition=str(partition),
            offset=offsets.start_offset,
        )
    policy = _policy(configs)
    if "compact" in policy:
        return None
    return BrokerNotReadyError(
        f"{where}, {ends}, and its cleanup.policy is {policy}: only the cleaner of a compacted topic leaves no batch",
        hint="nothing is skipped, it is read again and again; the next record that is written there ends it, and "
        "kafka-dump-log.sh shows the leader's log",
        partition=str(partition),
        offset=offsets.start_offset,
    )


def _policy(configs: Mapping[str, ConfigValue] | MirrorlakeError) -> str:
    if isinstance(configs, MirrorlakeError):
        return f"not known ({configs.message})"
    found = configs.get(_CLEANUP)
    return "not known" if found is None or found.value is None else found.value


async def check_empty(
    client: ClusterClient, partition: TopicPartition, offset: int, *, readable_end: int, whose: str = "destination"
) -> None:
    """Checks that an answer without a batch says that there is none: nothing is readable there, or it is a hole.

    Args:
        client: of the cluster.
        partition: that answered so.
        offset: asked for.
        readable_end: what the answer names as the end of what it may give out, exclusive.
        whose: the cluster's part, for the message.

    Raises:
        RemoteTierError: the remote tier of the log does not give out what it holds.
        MirrorlakeError: it hides something else, or could not be asked.
    """
    if offset < readable_end:
        offsets = OffsetRange(start_offset=offset, end_offset=readable_end)
        if (refusal := await why_no_hole(client, partition, offsets, whose=whose)) is not None:
            raise refusal
