"""Telling whether a segment that is there already is the one that belongs there."""

from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectStore


def confirm_same_range(store: ObjectStore, key: str, expected: SegmentFooter) -> bool:
    """Checks that a segment somebody else published covers the range of the source that ours does.

    Records may differ all the same: a topic is compacted between two reads. Then the first one stands.

    Returns:
        True where the records are the same too.

    Raises:
        ChainBrokenError: another range or source, or not a whole segment.
    """
    with open_segment(store, key) as segment:
        found = segment.footer
        if found is None:
            for _ in segment.records():
                pass  # by mirror-v3: whole and readable is all that can be asked; its name holds the range
            return False
        if _identity(found, expected.envelope) != _identity(expected, found.envelope):
            raise ChainBrokenError(
                f"{key} holds {_described(found)}, and {_described(expected)} belongs there",
                hint="another mirror writes to the same destination name: give each its own",
            )
        return (found.records, found.checksum) == (expected.records, expected.checksum)


def _identity(footer: SegmentFooter, other: SegmentEnvelope) -> tuple[object, ...]:
    envelope = footer.envelope
    topic_id = envelope.topic_id if other.topic_id else None
    return envelope.cluster_id, topic_id, envelope.topic, envelope.partition, footer.offsets


def _described(footer: SegmentFooter) -> str:
    envelope = footer.envelope
    return (
        f"{envelope.topic}-{envelope.partition} {footer.offsets} of cluster {envelope.cluster_id} "
        f"(topic id {envelope.topic_id})"
    )
