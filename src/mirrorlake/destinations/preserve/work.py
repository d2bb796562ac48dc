"""One Kafka destination of one source partition, offsets preserved."""

from dataclasses import dataclass

from mirrorlake.destinations.kafka_work import KafkaWork
from mirrorlake.destinations.letters.settings import LetterSettings
from mirrorlake.destinations.preserve.filling import Filling
from mirrorlake.destinations.preserve.letter_book import LetterBook
from mirrorlake.destinations.preserve.lettering import Lettering
from mirrorlake.destinations.preserve.log_start import LogStart
from mirrorlake.destinations.preserve.look import tail_check_of
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.sink import PreserveSink
from mirrorlake.destinations.size_limit import read_batch_bytes_max
from mirrorlake.destinations.transactions.claim import ClaimReader
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.work import SinkContext, WrittenPartition
from mirrorlake.travelling import travelling


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class PreserveWork(KafkaWork):
    """One Kafka destination of one source partition, offsets preserved."""

    settings: PreserveSettings

    @property
    def written_partition(self) -> WrittenPartition | None:
        """The destination partition: a gap in it is filled by its owner alone."""
        return WrittenPartition(cluster=self.cluster.name, partition=self.settings.destination)

    @property
    def may_go_on(self) -> bool:
        """True where no dead letters are written: what has one is read when a lease begins."""
        return self.settings.letters is None or not self.settings.letters.topic

    def make_sink(self, context: SinkContext) -> PreserveSink:
        """Returns the sink; partitions of a cluster share what reads claims, those of a shard what fills gaps."""
        settings, orders, connections = self.settings, self.orders, context.connections
        client = connections.client(self.cluster)
        filler = connections.shared(
            ("filler", self.cluster.name, settings.transactional_id), lambda: self._filler(context)
        )
        fill_from = connections.started_seconds + orders.fill_wait_seconds
        lettering = None
        if settings.letters is not None and settings.letters.topic:
            lettering = self._lettering(context, settings.letters, filler, from_seconds=fill_from)
        check = tail_check_of(
            settings,
            context.source_log,
            destination_client=client,
            lettered=lettering.lettered if lettering is not None else None,
        )
        return PreserveSink(
            settings,
            orders,
            claims=connections.shared(("claims", self.cluster.name), lambda: ClaimReader(client)),
            channel_to=lambda broker: connections.channel(self.cluster, broker),
            check_tail=check.check,
            read_limit=lambda: read_batch_bytes_max(client, settings.destination.topic),
            filler=filler,
            filling=Filling(
                settings,
                filler,
                LogStart(client, settings.destination),
                clock=context.clock,
                from_seconds=fill_from,
                not_owner_because=orders.not_owner_because,
                crash_point=connections.crash_point,
            ),
            lettering=lettering,
            clock=context.clock,
            changed=context.changed,
            crash_point=connections.crash_point,
        )

    def _lettering(
        self, context: SinkContext, letters: LetterSettings, filler: GapFiller, *, from_seconds: float
    ) -> Lettering:
        connections, client = context.connections, context.connections.client(self.cluster)
        book = connections.shared(
            ("letters", self.cluster.name, self.settings.transactional_id),
            lambda: LetterBook(
                client,
                filler,
                letters.progress_partition,
                clock=context.clock,
                crash_point=connections.crash_point,
            ),
        )
        started = connections.started_seconds
        return Lettering(
            letters,
            book,
            client,
            clock=context.clock,
            from_seconds=from_seconds,
            until_seconds=started + (connections.live_until_seconds - started) / 2,
            is_allowed=not self.orders.not_owner_because and from_seconds < connections.live_until_seconds,
        )

    def _filler(self, context: SinkContext) -> GapFiller:
        connections, hand_off = context.connections, self.orders.hand_off
        return GapFiller(
            connections.client(self.cluster),
            self.settings.transactional_id,
            hand_off=hand_off.identity if hand_off is not None else None,
            clock=context.clock,
            fill_until_seconds=connections.live_until_seconds,
            crash_point=connections.crash_point,
        )
