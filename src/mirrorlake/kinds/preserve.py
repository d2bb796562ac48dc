"""Kafka destinations with the source's own offsets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.resolved import TruncationPolicy
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.transactions.gap_cost import FILLER_BYTES_PER_OFFSET, MARKER_SECONDS, fill_seconds
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError, SourceGapError, UnsupportedError
from mirrorlake.kinds.copies import CopySide, KafkaSide
from mirrorlake.kinds.kafka import (
    DELETING,
    keeps_log_append_time,
    letter_notes,
    letter_rights,
    rights_on_topic,
    schema_ids,
    stamps_times,
    topic_place,
)
from mirrorlake.kinds.kafka_warnings import warnings_of
from mirrorlake.kinds.kind import Kind, Look
from mirrorlake.kinds.preserve_looks import look_at_copies
from mirrorlake.kinds.spans import about_text
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.offsets import GapFill
from mirrorlake.together import all_of
from mirrorlake.topics.targets import Target, is_deleting


class PreserveKind(Kind):
    """Every record gets the offset it has at the source; the destination's log end is the position."""

    work_type: ClassVar[type[DestinationWork]] = PreserveWork

    def takes(self, destination: Destination) -> bool:
        """Returns whether it is a Kafka destination with ``offsets: preserve``."""
        return isinstance(destination, KafkaDestination) and destination.offsets is OffsetMode.PRESERVE

    def work(self, target: Target, *, writer: str) -> PreserveWork:
        """Returns what a lease is told; claims are of producers here, so nobody's name is in it."""
        del writer
        destination = target.kafka
        return PreserveWork(
            destination=destination.label,
            cluster=target.destination_cluster,
            settings=PreserveSettings(
                source=target.source,
                destination=target.destination_partition,
                transactional_id=target.transactional_id,
                batch_bytes_max=target.batch_bytes_max,
                gap_fill=destination.gap_fill,
                gap_fill_offsets_max=destination.gap_fill_offsets_max,
                skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
                source_is_compacted=target.source_is_compacted,
                destination_is_compacted=target.destination_is_compacted,
                keeps_log_append_time=keeps_log_append_time(target),
                stamps_times=stamps_times(target),
                keeps_compression=target.destination_keeps_compression,
                schema_ids=schema_ids(target),
                letters=target.letters,
            ),
        )

    async def positions(
        self, targets: Mapping[int, Target], clients: WorkerCache
    ) -> Mapping[int, Position | MirrorlakeError]:
        """Reads the log ends; a topic or partition not yet made is at 0."""
        by_cluster: dict[str, dict[int, Target]] = defaultdict(dict)
        for number, target in targets.items():
            if target.error is None and not target.is_to_be_made:
                by_cluster[target.kafka.cluster.name][number] = target
        found: dict[int, Position | MirrorlakeError] = {
            number: Position(offset=0)
            for number, target in targets.items()
            if target.error is None and target.is_to_be_made
        }
        for part in await all_of(_log_ends(group, clients) for group in by_cluster.values()):
            found |= part
        return found

    def place(self, target: Target) -> str:
        """Returns cluster and topic."""
        return topic_place(target)

    async def looks(self, rows: Mapping[int, Standing], clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
        """Looks at the writers, the tails and the beginning of each copy that holds something."""
        works = {
            number: (row, self.work(row.target, writer=""))
            for number, row in rows.items()
            if row.position and not row.target.is_to_be_made
        }
        return await look_at_copies(works, clients, at_once=at_once)

    def needed_rights(self, row: Standing) -> Mapping[str, tuple[str, ...]]:
        """Returns writing, to what dead letters need too, and deleting of fillers below the source's log start."""
        deletes_fillers = row.position == 0 and bool(row.source_start)
        rights = {row.target.destination_topic: rights_on_topic(row.target, *([DELETING] if deletes_fillers else []))}
        return rights | letter_rights(row.target)

    def wants_sample(self) -> bool:
        """Returns True: what it says of gaps and times is warned of."""
        return True

    def immovable(self, target: Target) -> MirrorlakeError | None:
        """Returns that the log's end is the position."""
        return UnsupportedError(
            f"the position of {target.source} at {target.destination.label} is the end of destination topic "
            f"{target.destination_topic}, as offsets are equal there: it is not moved",
            hint="to copy from the start again delete the topic, `kafka-topics.sh --delete --topic "
            f"{target.destination_topic}`, and `run` makes it anew; to begin elsewhere use `offsets: map` with "
            "`start`, in a mirror of another name",
        )

    def refusal(self, row: Standing) -> MirrorlakeError | None:
        """Returns why the offsets that are gone at the source would not be filled."""
        if row.position is None or row.source_start is None:
            return None
        start, end, destination = row.position, row.source_start, row.target.kafka
        what = f"source {row.target.source} starts at offset {end}, the destination needs {start} next"
        if destination.gap_fill is GapFill.REFUSE:
            hint = "use `gap-fill: markers`, `gap-fill: filler` or `offsets: map`, or an archive, which records the gap"
        elif end - start > destination.gap_fill_offsets_max:
            filled = about_text(fill_seconds(end - start, GapFill.FILLER))
            size = (end - start) * FILLER_BYTES_PER_OFFSET
            what += f": {end - start:,} offsets to fill, about {filled} and {size:,.0f} B"
            hint = f"set `gap-fill-max-offsets: {end - start}` or more, or use `offsets: map`"
        else:
            return None
        return SourceGapError(what, hint=hint, position=start, log_start=end)

    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        """Returns where dead letters go, and by what the offsets are filled that are gone at the source, how long."""
        return [*letter_notes(row.target), *_fill_notes(row, is_new=is_new)]

    def copy_side(self, row: Standing) -> CopySide:
        """Returns the destination partition, which has the source's offsets."""
        return KafkaSide(cluster=row.target.destination_cluster, partition=row.target.destination_partition)

    def keeps_times(self, target: Target) -> bool:
        """Returns whether they are the source's times that are kept."""
        return target.kafka.timestamp_mode is TimestampMode.SOURCE

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Returns what the destination topic would delete or refuse, and what the source's gaps take."""
        found = warnings_of(target, sample, now_ms=now_ms)
        gaps = _gaps(target, target.kafka, sample) if target.destination_configs else []
        return [*found, *(f"{topic_place(target)}: {text}" for text in gaps)]


def _fill_notes(row: Standing, *, is_new: bool) -> Sequence[str]:
    target, start, source_start = row.target, row.position, row.source_start
    if start is None or source_start is None or source_start <= start:
        return ()
    lost = f"offsets {start}…{source_start - 1} are gone at the source"
    if is_new:
        filled = f"{lost}: filled, in about {about_text(fill_seconds(source_start - start, GapFill.FILLER))}"
        if target.destination_is_compacted and not is_deleting(target.destination_configs):
            return [
                f"{filled}; DeleteRecords is refused for a topic that is compacted only: its cleaner takes them, "
                "in time"
            ]
        return [f"{filled}, and deleted, so that the copy begins where the source does"]
    seconds = fill_seconds(source_start - start, target.kafka.gap_fill)
    return [f"{lost} and filled by {target.kafka.gap_fill.value}, in about {about_text(seconds)}"]


async def _log_ends(targets: Mapping[int, Target], clients: WorkerCache) -> Mapping[int, Position | MirrorlakeError]:
    """Returns where the partitions of one destination cluster end."""
    client = clients.client(next(iter(targets.values())).destination_cluster)
    try:
        ends = await client.log_ends([target.destination_partition for target in targets.values()])
    except MirrorlakeError as error:
        return dict.fromkeys(targets, error)
    found = {number: ends[target.destination_partition] for number, target in targets.items()}
    return {
        number: end if isinstance(end, MirrorlakeError) else Position(offset=end.end_offset)
        for number, end in found.items()
    }


def _gaps(target: Target, destination: KafkaDestination, sample: Sample) -> list[str]:
    if not (sample.is_transactional or target.source_is_compacted):
        return []
    why = "it is written in transactions" if sample.is_transactional else "it is compacted"
    if destination.gap_fill is GapFill.REFUSE:
        return [f"the source has offsets without a record, as {why}; `gap-fill: refuse` stops at the first one"]
    cost = (
        f"about {MARKER_SECONDS * 1000:.0f} ms each"
        if destination.gap_fill is GapFill.MARKERS
        else f"about {MARKER_SECONDS * 1000:.0f} ms for each run of them, and read_uncommitted consumers see fillers"
    )
    return [
        f"the source has offsets without a record, as {why}; how many is not known until they are read, "
        f"{destination.gap_fill.value} fill them, {cost}. A coordinator that fails over may write a marker twice: the "
        "partition then stops as misaligned, before a record is misplaced"
    ]
