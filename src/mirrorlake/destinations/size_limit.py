"""How large a batch a destination topic takes, as a lease knows it: what was read of the topic, and what was refused.

The topic's settings may change while a mirror runs. A batch that is refused for its size changed nothing at the
destination, so its limit is read again, and the same records go as smaller batches: none larger than the limit, and
where the batch was within it (brokers compress anew, and it grew by that) none larger than half of what was refused.
Every refusal makes the next batches smaller, so this ends: at the latest with a single record, which stops its
partition.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from mirrorlake.errors import MirrorlakeError, RecordTooLargeError, SizeRefusedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.kafka.wire.error_codes import MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, error_for
from mirrorlake.offsets import TopicPartition

DEFAULT_BATCH_BYTES_MAX = 1_048_588
"""Kafka's own default of ``max.message.bytes``."""

ReadLimit = Callable[[], Awaitable[int]]
"""Asks for the largest batch that a topic takes now."""


def batch_bytes_max_of(configs: Mapping[str, str | None]) -> int:
    """Returns the largest batch a topic takes: one that is larger than a log segment is refused too."""
    batch = int(configs.get("max.message.bytes") or DEFAULT_BATCH_BYTES_MAX)
    return min(batch, int(configs.get("segment.bytes") or batch))


async def read_batch_bytes_max(client: ClusterClient, topic: str) -> int:
    """Returns the largest batch a topic takes now; what the brokers set for topics that do not is part of it.

    Raises:
        MirrorlakeError: the topic's configuration could not be read.
    """
    configs = await read_topic_configs(client, [topic])
    return batch_bytes_max_of({key: value.value for key, value in configs[topic].items()})


def refused(
    code: int, *, what: str, where: TopicPartition, bytes_sent: int, records: int, said: str
) -> MirrorlakeError:
    """Returns the error for a broker's code to an append; one for its size may be mended by smaller batches. Pure.

    Args:
        code: the broker's; not 0.
        what: was appended where, behind "append".
        where: the destination partition.
        bytes_sent: of the batch.
        records: in the batch.
        said: the broker's own words, where it had any.
    """
    is_size = code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
    size = f" of {bytes_sent} bytes ({records} records)" if is_size else ""
    error = error_for(
        code, what=f"append{size}{what}", message=said or None, topic=where.topic, partition=where.partition
    )
    if not is_size:
        return error
    return SizeRefusedError(error.message, hint=error.hint, **{**error.facts, "bytes": bytes_sent, "records": records})


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """What is known of the batches that a destination topic takes.

    ``bytes_max`` is the topic's limit as last read: a single record whose batch is larger is not sent. Batches of
    several records are made no larger than ``split_bytes``. ``refusal`` is what was refused since the limit was read.
    ``is_doubted`` is True once a single record was refused that this limit allows: the broker that answered the read
    may have known of a change before the one that refused.
    """

    bytes_max: int
    split_bytes: int
    refusal: SizeRefusedError | None = None
    is_doubted: bool = False

    @classmethod
    def of(cls, bytes_max: int) -> "SizeLimit":
        """Returns the limit of a topic that has refused nothing."""
        return cls(bytes_max=bytes_max, split_bytes=bytes_max)

    def after(self, error: MirrorlakeError, where: TopicPartition) -> "SizeLimit":
        """Returns the limit after an append failed; the same where that was for another reason, or elsewhere. Pure."""
        if not isinstance(error, SizeRefusedError):
            return self
        at = (error.facts.get("topic"), error.facts.get("partition"))
        return replace(self, refusal=error) if at == (where.topic, where.partition) else self

    def read_again(self, found: int) -> "SizeLimit":
        """Returns the limit after the topic's was read again, with nothing refused any more. Pure.

        Args:
            found: what the topic takes now.

        Raises:
            RecordTooLargeError: a single record was refused twice although the topic should take it; with ``bytes``
                and ``limit``.
        """
        if self.refusal is None:
            is_doubted = self.is_doubted and found == self.bytes_max
            return SizeLimit(bytes_max=found, split_bytes=min(self.split_bytes, found), is_doubted=is_doubted)
        size, records = int(self.refusal.facts["bytes"] or 0), self.refusal.facts["records"]
        if found < size:
            return SizeLimit(bytes_max=found, split_bytes=min(self.split_bytes, found))
        if records != 1:
            return SizeLimit(bytes_max=found, split_bytes=min(self.split_bytes, max(1, size // 2)))
        if not (self.is_doubted and found == self.bytes_max):
            return SizeLimit(bytes_max=found, split_bytes=min(self.split_bytes, found), is_doubted=True)
        raise RecordTooLargeError(
            f"{self.refusal.message}; its limit, read again, is {found} bytes, and one record cannot be split",
            hint=self.refusal.hint,
            **{**self.refusal.facts, "limit": found},
        )
