"""An archive as the source of mirrors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirrorlake.destinations.connections import Clients
from mirrorlake.errors import RangeUnknownError
from mirrorlake.foreign_layout import ForeignLayout
from mirrorlake.kafka.records.batch_header import Codec
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.archive import TOPIC_SECONDS, OpenArchive
from mirrorlake.sources.archive.client import ArchiveSourceClient
from mirrorlake.sources.archive.content import PIECE_BYTES
from mirrorlake.sources.archive.log import ArchiveSourceLog
from mirrorlake.sources.archive.open_content import LeftOpen
from mirrorlake.sources.archive.partition import ArchivePartition
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.sources.archive.reads import ArchiveReads
from mirrorlake.sources.archive.selection import ALL, ArchivedRange
from mirrorlake.sources.source import SourceContext, SourceWork
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.window import Window

BATCH_BYTES_MAX = 512 << 10
"""Record bytes of a batch made of decoded records, before they are compressed: half of what topics take
by default. Each costs some 0.2 ms of Python on its way, whatever its size; a topic that takes less has it split."""


LOOKS_APART_SECONDS = 10.0
"""A bucket's owner pays for a listing: at 5 dollars a million, a thousand partitions cost 1.80 dollars an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSourceWork(SourceWork):
    """An archive: topics by the names of their folders, partitions by those below, records at their own offsets.

    Attributes:
        store_name: the store's name in the configuration.
        store: where it is; the same value that archive destinations' work carries.
        mirror: whose ranges these are; empty for a source that every mirror sees alike. Part of the source's name, by
            which a driver keeps what it saw of sources.
        layout: of another program's archive; None for one of mirrorlake's, or of mirror-v3's.
        folder: below the root of the store, the folder that holds the topics' folders; empty for the root.
        folders: folder by topic, where that is not the topic's own name; a topic recreated at its source has several,
            and the newest (the highest ``.2``, ``.3``, …) is read where neither this nor ``generation`` says another.
        ranges: what is read of partitions that are not read whole.
        window: which of its records are read. Where times say it, ``ranges`` has what looks have found of it, and a
            partition without a range is one of which no record may be read yet.
        pins_snapshots: whether a copy is of one snapshot, the one that ``ranges`` names; without its name none is read.
        generation: which of the folders of a recreated topic is read, 1 being the first; None for the newest.
        skip_after_seconds: for how long offsets that no segment has are waited for where others follow; None for ever.
            When that time is over is decided by who looks at the archive for a mirror, and said in ``ranges``.
        archive_id: the id its root marker must have; empty for any.
        codec: of batches that are made of decoded records; those of `log` segments stay what they are.
        batch_bytes_max: record bytes of one such batch before compression, to within one record.
    """

    store_name: str
    store: StoreSettings
    mirror: str = ""
    layout: ForeignLayout | None = None
    folder: str = ""
    folders: Mapping[str, str] = field(default_factory=dict, hash=False)
    ranges: Mapping[TopicPartition, ArchivedRange] = field(default_factory=dict, hash=False)
    window: Window = field(default_factory=Window)
    pins_snapshots: bool = False
    generation: int | None = None
    skip_after_seconds: float | None = None
    archive_id: str = ""
    codec: Codec = Codec.ZSTD
    batch_bytes_max: int = BATCH_BYTES_MAX

    @property
    def name(self) -> str:
        """The store's name, and whose ranges of it these are."""
        return f"{self.store_name}/{self.mirror}" if self.mirror else self.store_name

    @property
    def looks_apart_seconds(self) -> float:
        """A look lists each partition's folder, and an archive grows by whole segments."""
        return LOOKS_APART_SECONDS

    @property
    def place(self) -> str:
        """The folder or bucket, as people write it."""
        return self.store.where(self.layout.folder if self.layout is not None else self.folder)

    @property
    def label(self) -> str:
        """The archive, by its store's name."""
        return f"archive {self.store_name}"

    def range_of(self, partition: TopicPartition) -> ArchivedRange:
        """Returns what is read of a partition.

        Raises:
            RangeUnknownError: times say it, and no look has told yet what they come to in this partition.
        """
        found = self.ranges.get(partition)
        if found is None and self.window.is_of_times:
            raise RangeUnknownError(
                f"where `from` and `until` bound {partition} of {self.label} is not known yet: nothing of it is read",
                hint="the archive is looked at again; what keeps it from being looked at is said with the mirror",
                topic=partition.topic,
                partition=partition.partition,
            )
        return ALL if found is None else found

    def seen_after(self, before: SourceWork) -> SourceWork:
        """Returns the source with what is known of it: partitions that this look told nothing of keep their range.

        What a look at another archive in its place has found, or at none, is not believed.
        """
        if not isinstance(before, ArchiveSourceWork) or before.window != self.window:
            return self
        if before.archive_id and self.archive_id != before.archive_id:
            return before
        # What was begun from one snapshot is not continued from another.
        pinned = {each: found for each, found in before.ranges.items() if found.snapshot is not None}
        return replace(self, ranges={**before.ranges, **self.ranges, **pinned})

    def forgetting(self, partitions: Iterable[TopicPartition]) -> SourceWork:
        """Returns the source without what looks have told of some partitions, whose copies begin anew."""
        gone = {each for each in partitions if each in self.ranges}
        told = {each for each in gone if self.window.is_of_times or self.ranges[each].snapshot is not None}
        return replace(self, ranges={each: found for each, found in self.ranges.items() if each not in told})

    def open(self, partition: TopicPartition, topic_id: str, context: SourceContext) -> ArchivePartition:
        """Returns a partition, to be read; those of an archive share what is bounded, and what is asked once."""
        connections = context.connections
        left = connections.kept(("archive segments left open", self.store), LeftOpen)
        buffers = connections.kept("archive piece buffers", lambda: PieceBuffers(PIECE_BYTES))
        reads = context.shared(
            ("archive reads", self.store), lambda: ArchiveReads(connections.memory_bytes_max, left, buffers)
        )
        archive = reads.opened(self, lambda: OpenArchive(self, connections))
        return ArchivePartition(partition, topic_id, archive=archive, reads=reads, context=context)

    def log(self, partition: TopicPartition, clients: Clients) -> ArchiveSourceLog:
        """Returns a partition, to be asked about."""
        archive = OpenArchive(self, clients, topic_seconds=TOPIC_SECONDS)
        return ArchiveSourceLog(partition, archive, clients.store_threads)

    def client(self, clients: Clients) -> ArchiveSourceClient:
        """Returns the archive, to be asked about many partitions at a time."""
        fresh, known = OpenArchive(self, clients), OpenArchive(self, clients, topic_seconds=TOPIC_SECONDS)
        return ArchiveSourceClient(known, fresh, clients.store_threads)
