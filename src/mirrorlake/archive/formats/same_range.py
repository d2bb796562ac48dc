"""Telling whether a segment that is there already is the one that belongs there."""

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.name_check import check_bare_edges
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.sidecar import check_described
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectStore


def confirm_same_range(store: ObjectStore, key: str, expected: SegmentFooter) -> bool:
    """Checks that a segment somebody else published covers the range of the source that ours does.

    Records may differ all the same: a topic is compacted between two reads. Then the first one stands.

    Returns:
        True where the records are the same too.

    Raises:
        OtherSourceError, TopicRecreatedError: it is of another source.
        ChainBrokenError: another range, a snapshot where none is expected or none where one is, or not a whole segment.
    """
    with open_segment(store, key) as segment:
        found = segment.footer
        if found is None:
            check_described(key)
            for _ in segment.records():
                pass  # by mirror-v3: whole, readable, and ending where its name says is all that can be asked
            if name := parse_segment_name(key.rpartition("/")[2]):
                check_bare_edges(key, segment.edges(), name=name, partition=expected.envelope.partition)
            return False
        check_origin(Origin.of(found), Origin.of(expected), what=f"{key} was written")
        if _shape(found) != _shape(expected):
            raise ChainBrokenError(
                f"{key} holds {_described(found)}, and {_described(expected)} belongs there",
                hint="another mirror writes to the same destination name: give each its own",
            )
        return (found.records, found.checksum) == (expected.records, expected.checksum)


def _shape(footer: SegmentFooter) -> tuple[object, ...]:
    return footer.offsets, footer.snapshot is not None


def _described(footer: SegmentFooter) -> str:
    kind = "every record of" if footer.snapshot is None else "the latest of every key up to"
    return f"{kind} {Origin.of(footer)} {footer.offsets}"
