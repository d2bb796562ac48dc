"""What the works of both kinds of Kafka destination have in common."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from mirrorlake.destinations.work import DestinationWork
from mirrorlake.kafka.wire.settings import ClusterSettings


class KafkaSettings(Protocol):
    """What the driver asks of one partition's settings at a Kafka destination."""

    @property
    def skips_truncated(self) -> bool:
        """Whether it may go on at the source's log start where that has moved past the position."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The destination topic's ``max.message.bytes``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaWork(DestinationWork):
    """One Kafka destination of one source partition: every lease copies what the source has gained."""

    is_live: ClassVar[bool] = True

    cluster: ClusterSettings
    settings: KafkaSettings

    @property
    def skips_truncated(self) -> bool:
        """Whether it may go on at the source's log start where that has moved past the position."""
        return self.settings.skips_truncated

    @property
    def batch_bytes_max(self) -> int | None:
        """The destination topic's ``max.message.bytes``."""
        return self.settings.batch_bytes_max

    @property
    def cluster_name(self) -> str:
        """The destination cluster's name."""
        return self.cluster.name
