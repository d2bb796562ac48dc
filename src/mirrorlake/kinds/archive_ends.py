"""Where the archive of a target ends, and whether a mirror may go on there; reads only."""

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.newest import check_kind, newest_footer
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.topic_record import check_is_new
from mirrorlake.config.destinations.archive import Compaction
from mirrorlake.config.resolved import TruncationPolicy
from mirrorlake.kinds.standing import Standing
from mirrorlake.stores.opening import open_store
from mirrorlake.topics.targets import Target


def archived_partition(target: Target) -> PartitionFolder:
    """Returns the folder of a target, to be listed or checked."""
    return partition_folder(
        open_store(target.archive.store.settings),
        destination_name=target.destination_topic,
        partition=target.source.partition,
        extension=extension_of(target.archive.format.value),
        are_snapshots=target.archive.compaction is Compaction.LOG,
    )


def passes_over(row: Standing) -> bool:
    """Tells whether a lease would begin with a gap: of what the source has deleted, or of a beginning it never saw."""
    position = row.position or 0
    skips = row.target.mirror.on_truncation is TruncationPolicy.SKIP or not position
    return skips and (row.source_start or 0) > position


def check_target(target: Target, archived: PartitionFolder, tail: Segment) -> SegmentFooter | None:
    """Checks that the newest segment was written from the topic that is configured now, and returns its footer.

    Segments of mirror-v3 have none and do not say.

    Raises:
        OtherSourceError: it was written from another cluster, topic or partition.
        TopicRecreatedError: it was written from another topic of the same name.
        ChainBrokenError: it cannot be read, or holds another range than its name says; it is a snapshot where none
            should be, or none where one should.
    """
    key = f"{archived.prefix}/{tail.name}"
    footer = newest_footer(archived, tail)
    if footer is not None:
        check_origin(Origin.of(footer), origin_of(target), what=f"{key} was written")
        expects_snapshot = target.archive.compaction is Compaction.LOG
        check_kind(key, is_snapshot=footer.snapshot is not None, expects_snapshot=expects_snapshot)
    return footer


def check_end(target: Target, archived: PartitionFolder, chain: Chain) -> SegmentFooter | None:
    """Checks that a target may go on where an archive ends: whose the newest segment is, and who claimed the next.

    An archive without any segment must be one that never had one.

    Returns:
        What the newest segment says of itself; None where there is none, or it is mirror-v3's.

    Raises:
        MirrorlakeError: see `check_target`, `check_is_new` and `ArchivedPartition.pending_claim`.
    """
    footer = None
    if chain.tail is not None:
        footer = check_target(target, archived, chain.tail)
    else:
        check_is_new(archived.store, target.destination_topic, origin_of(target))
    archived.pending_claim(chain, origin=origin_of(target))
    return footer


def origin_of(target: Target) -> Origin:
    """Returns whose records a target's archive holds."""
    return Origin(
        cluster_id=target.source_cluster_id,
        topic=target.source.topic,
        topic_id=target.topic_id or None,
        partition=target.source.partition,
    )
