"""One Kafka destination of one source partition, offsets mapped."""

from dataclasses import dataclass
from typing import ClassVar

from mirrorlake.destinations.kafka_work import KafkaWork
from mirrorlake.destinations.map.mapped_tail import MappedTailCheck
from mirrorlake.destinations.map.settings import MapSettings
from mirrorlake.destinations.map.shard_transaction import ShardTransaction
from mirrorlake.destinations.map.sink import MapSink
from mirrorlake.destinations.map.start import find_start
from mirrorlake.destinations.work import SinkContext
from mirrorlake.travelling import travelling


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class MapWork(KafkaWork):
    """One Kafka destination of one source partition, offsets mapped.

    All partitions of a shard that are in leases at a time are in one lease, or they fence one another.
    """

    needs_whole_shard: ClassVar[bool] = True

    settings: MapSettings

    @property
    def max_age_seconds(self) -> float | None:
        """How old a record may be for a partition to begin with it, where `start` says an age."""
        return self.settings.start.max_age_seconds

    def make_sink(self, context: SinkContext) -> MapSink:
        """Returns the sink; partitions of a shard share its transactions."""
        settings, connections = self.settings, context.connections
        client = connections.client(self.cluster)
        return MapSink(
            settings,
            self.orders,
            shard=connections.shared(
                ("shard", self.cluster.name, settings.transactional_id), lambda: self._shard(context)
            ),
            client=client,
            find_start=lambda: find_start(context.source_log, settings.start, now_seconds=context.clock.now_seconds()),
            check_tail=MappedTailCheck(
                context.source_log,
                client,
                source_is_compacted=settings.source_is_compacted,
                transform=settings.transform,
            ).check,
            clock=context.clock,
            changed=context.changed,
        )

    def _shard(self, context: SinkContext) -> ShardTransaction:
        connections = context.connections
        return ShardTransaction(
            connections.client(self.cluster),
            self.settings.transactional_id,
            self.settings.topics,
            self.settings.shard,
            channel_to=lambda broker: connections.channel(self.cluster, broker),
            clock=context.clock,
            send_until_seconds=connections.send_until_seconds,
            letters_template=self.settings.letters_template,
            crash_point=connections.crash_point,
        )
