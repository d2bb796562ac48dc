"""One segment while it is written: a staged file, what it holds so far, and its publication."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import BinaryIO

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.interface import SegmentWriter
from mirrorlake.archive.formats.same_range import confirm_same_range
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import PublishedSegment
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash


class OpenSegment:
    """The file of one segment from one position on; published once it is written and its end is known.

    What is written is put into its ``writer`` by whoever made that.

    ``leader_epoch`` is to be set before that to the source's latest of what was read, None where it is not known, and
    ``behind`` to the segment it follows, None where that is none or not known. ``schema_ids`` likewise to what its
    records have where a schema is named, None where that was not counted.

    Args:
        archived: the partition's archive.
        source: whose records these are.
        cluster_id: of the source's cluster.
        topic_id: of the source topic.
        make_writer: returns the writer of a file, in the archive's format.
        writer: names this writer in claim and footer.
        start_offset: the archive's position.
        clock: times the segment.
        follows_mirror_v3: mirror-v3 wrote the segment that ends at ``start_offset``.
        select: the fingerprint of the `select` that makes its records, empty where they are as they were.
        crash_point: called before every step of the publication; for tests.
    """

    def __init__(
        self,
        archived: ArchivedPartition,
        *,
        source: TopicPartition,
        cluster_id: str,
        topic_id: str,
        make_writer: Callable[[BinaryIO, SegmentEnvelope], SegmentWriter],
        writer: str,
        start_offset: int,
        clock: Clock,
        follows_mirror_v3: bool = False,
        select: str = "",
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._clock = clock
        self._started = clock.elapsed_seconds()
        self._start_offset = start_offset
        self._store = archived.store
        self._prefix = archived.prefix
        self._gaps: list[Gap] = []
        self._filtered = NOTHING_FILTERED
        origin = Origin(
            cluster_id=cluster_id, topic=source.topic, topic_id=topic_id or None, partition=source.partition
        )
        self._publication = archived.publication(start_offset, origin=origin, writer=writer, crash_point=crash_point)
        self._staged = self._publication.stage()
        self._crash_point = crash_point
        envelope = SegmentEnvelope(
            cluster_id=cluster_id,
            topic_id=topic_id or None,
            topic=source.topic,
            partition=source.partition,
            start_offset=start_offset,
            writer=writer,
            created_at=datetime.fromtimestamp(clock.now_seconds(), UTC).isoformat(timespec="seconds"),
            follows_mirror_v3=follows_mirror_v3,
            select=select,
        )
        try:
            self._writer = make_writer(self._staged.file, envelope)
        except BaseException:
            # A format's first bytes are written here: on a full disk each try would leave a file behind.
            self._staged.discard()
            raise
        self._footer: SegmentFooter | None = None
        self.leader_epoch: int | None = None
        self.behind: Segment | None = None
        self.schema_ids: SchemaIdCounts | None = None

    def filtered(self, gaps: FilteredGaps) -> None:
        """Records what a filter left out."""
        self._filtered = gaps

    def add_gap(self, gap: Gap) -> None:
        """Records offsets that are missing for another reason than that no consumer could read them."""
        self._gaps.append(gap)

    @property
    def footer(self) -> SegmentFooter:
        """What the finished segment says about itself."""
        assert self._footer is not None, "a segment is finished before it is published"
        return self._footer

    def finish(self, *, end_offset: int) -> None:
        """Writes what is left of ``[start, end_offset)``: the encoder is done with it, and nobody sees it yet.

        Raises:
            StoreUnavailableError, StoreUnusableError: the staged file's; discard the segment.
        """
        self._footer = self._writer.close(
            end_offset=end_offset,
            gaps=sorted(self._gaps),
            leader_epoch=self.leader_epoch,
            filtered=self._filtered,
            schema_ids=self.schema_ids,
        )

    def publish(self, *, end_offset: int, trigger: str) -> PublishedSegment:
        """Claims ``[start, end_offset)``, describes it where its format cannot, publishes it, deletes the claim.

        Finishes it first where that is not done; finished, it may be published in any thread.

        Raises:
            PositionMovedError: another writer published, or claimed another end; read the position again.
            ChainBrokenError: a file of this range is there and is not what it should be, or the one before is gone.
            OtherSourceError, TopicRecreatedError: the claim or the file is of another source.
            StoreUnavailableError: unknown whether it is published; read the position again.
        """
        if self._footer is None:
            self.finish(end_offset=end_offset)
        footer = self.footer
        assert footer.end_offset == end_offset, "a segment ends where it was finished"
        self._publication.claim_exactly(
            end_offset - 1, raw_bytes=footer.raw_bytes, whose="archive's", behind=self.behind
        )
        file_bytes = self._staged.file.tell()
        if footer.file is not None:
            key = f"{self._prefix}/{self._publication.segment_name}"
            create_sidecar(self._store, key, footer, crash_point=self._crash_point)
        is_ours = self._publication.publish(
            self._staged, confirm_equal=lambda key: _confirm(confirm_same_range(self._store, key, footer))
        )
        self._publication.release()
        return PublishedSegment(
            key=str(self._publication.segment_name),
            offsets=OffsetRange(start_offset=self._start_offset, end_offset=end_offset),
            records=footer.records,
            raw_bytes=footer.raw_bytes,
            file_bytes=file_bytes,
            trigger=trigger,
            elapsed_ms=int((self._clock.elapsed_seconds() - self._started) * 1000),
            is_ours=is_ours,
        )

    def discard(self) -> None:
        """Drops the staged file; without effect once it was published."""
        self._writer.abandon()
        self._staged.discard()


def _confirm(_: bool) -> None:
    """Equal content or not, a segment of this range and source is published: either is right."""
