"""Kafka destinations that give records offsets of their own."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.resolved import LostTailPolicy, RecreationPolicy, TruncationPolicy
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.mapped_tail import MappedTailCheck
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.settings import MapSettings, map_transactional_id
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.destinations.transform import Transform
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.copies import CopySide, MappedSide
from mirrorlake.kinds.filter_warnings import filter_warnings
from mirrorlake.kinds.kafka import (
    WRITING,
    keeps_log_append_time,
    letter_notes,
    letter_rights,
    provenance_of,
    rights_on_topic,
    schema_ids,
    stamps_times,
    topic_place,
)
from mirrorlake.kinds.kafka_warnings import warnings_of
from mirrorlake.kinds.kind import Kind, Look
from mirrorlake.kinds.mapped_positions import mapped_positions
from mirrorlake.kinds.side_by_side import errors_of
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import Target


class MapKind(Kind):
    """Data, progress and offset map are committed in one transaction; the progress is the position."""

    work_type: ClassVar[type[DestinationWork]] = MapWork

    def takes(self, destination: Destination) -> bool:
        """Returns whether it is a Kafka destination with ``offsets: map``."""
        return isinstance(destination, KafkaDestination) and destination.offsets is OffsetMode.MAP

    def work(self, target: Target, *, writer: str) -> MapWork:
        """Returns what a lease is told; writers are told apart by their producers, so nobody's name is in it."""
        del writer
        shard = target.map_shard
        return MapWork(
            destination=target.kafka.label,
            cluster=target.destination_cluster,
            settings=MapSettings(
                source=target.source,
                destination=target.destination_partition,
                topics=target.progress_topics,
                shard=shard,
                transactional_id=map_transactional_id(target.mirror.name, shard),
                source_cluster_id=target.source_cluster_id,
                source_topic_id=target.topic_id,
                batch_bytes_max=target.batch_bytes_max,
                start=target.map_start,
                skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
                restarts_recreated=target.mirror.on_recreate is RecreationPolicy.RESTART,
                own_producer_ids=target.own_producer_ids,
                other_shards_ids=target.other_shards_ids,
                copies_lost_again=target.mirror.on_lost_tail is LostTailPolicy.COPY_AGAIN,
                keeps_log_append_time=keeps_log_append_time(target),
                stamps_times=stamps_times(target),
                keeps_compression=target.destination_keeps_compression,
                source_is_compacted=target.source_is_compacted,
                schema_ids=schema_ids(target),
                keeps=target.keeps,
                takes=target.takes,
                projects=target.projects,
                letters_template=target.letters_template,
                stamps_provenance=target.kafka.stamps_provenance,
            ),
        )

    async def positions(
        self, targets: Mapping[int, Target], clients: WorkerCache
    ) -> Mapping[int, Position | MirrorlakeError]:
        """Reads the progress, and whether the destination partitions reach as far as it says."""
        return await mapped_positions(targets, clients)

    def place(self, target: Target) -> str:
        """Returns cluster and topic."""
        return topic_place(target)

    def immovable(self, target: Target) -> MirrorlakeError | None:
        """Returns None: the progress is a record of its own."""
        del target
        return None

    async def looks(self, rows: Mapping[int, Standing], clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
        """Compares the newest records of each copy that has some with the source's, and its route with that of now."""
        held: dict[int, int | None] = {}  # by row

        async def look(row: Standing) -> None:
            target = row.target
            assert row.mapped is not None
            assert row.mapped.progress is not None
            if row.mapped.route_error is not None:
                raise row.mapped.route_error
            check = MappedTailCheck(
                target.source_work.log(target.source, clients),
                clients.client(target.destination_cluster),
                source_is_compacted=target.source_is_compacted,
                transform=Transform(
                    times=self.work(target, writer="").settings.transform.times,
                    schema_ids=schema_ids(target),
                    projects=target.projects,
                    provenance=provenance_of(target),
                ),
            )
            key = ProgressKey(destination_topic=target.destination_topic, source=target.source)
            held[id(row)] = await check.check(key, row.mapped.progress)

        begun = {n: row for n, row in rows.items() if row.mapped is not None and row.mapped.progress is not None}
        errors = await errors_of(begun, look, at_once=at_once)
        return {n: Look(error=errors.get(n), held_until_ms=held.get(id(row))) for n, row in begun.items()}

    def needed_rights(self, row: Standing) -> Mapping[str, tuple[str, ...]]:
        """Returns writing to the topic, to the progress, to the offset maps, and to the topic for dead letters."""
        topics = row.target.progress_topics
        rights = {
            row.target.destination_topic: rights_on_topic(row.target),
            topics.progress: WRITING,
            topics.pages: WRITING,
        }
        return rights | letter_rights(row.target)

    def wants_sample(self) -> bool:
        """Returns True: what it says of times is warned of."""
        return True

    def refusal(self, row: Standing) -> MirrorlakeError | None:
        """Returns None: what is gone at the source is left out."""
        del row
        return None

    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        """Returns where the records go, where dead letters do, and which offsets are left out."""
        del is_new
        mapped, position, source_start = row.mapped, row.position, row.source_start
        if mapped is None or position is None:
            return ()
        notes = letter_notes(row.target)
        if mapped.destination_partition != row.target.source.partition:
            notes.append(f"into partition {mapped.destination_partition} of {row.target.destination_topic}")
        if source_start is not None and source_start < mapped.start_offset == position:
            notes.append(f"offsets {source_start}…{mapped.start_offset - 1} are left out, as `start` says")
        if source_start is not None and source_start > position:
            notes.append(f"offsets {position}…{source_start - 1} are gone at the source and skipped")
        return notes

    def copy_side(self, row: Standing) -> CopySide:
        """Returns the destination partition, and where it says which records are whose."""
        target = row.target
        assert row.mapped is not None
        return MappedSide(
            cluster=target.destination_cluster,
            partition=TopicPartition(target.destination_topic, row.mapped.destination_partition),
            source=target.source,
            topics=target.progress_topics,
            shard=target.map_shard,
        )

    def keeps_times(self, target: Target) -> bool:
        """Returns whether they are the source's times that are kept."""
        return target.kafka.timestamp_mode is TimestampMode.SOURCE

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Returns what the destination topic would delete or refuse, and what a filter would leave out by mistake."""
        return [*warnings_of(target, sample, now_ms=now_ms), *filter_warnings(target)]
