"""What one segment says of itself, once it was compared with its name: footers and edges are read, no other content."""

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.name_check import check_bare_edges, check_edges_within
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.sidecar import check_described
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectStore


def read_named_footer(
    store: ObjectStore, prefix: str, segment: Segment, *, partition: int, is_snapshot: bool
) -> SegmentFooter | None:
    """Returns what a segment says of itself, once its name is what it holds; None where mirror-v3 wrote it.

    A snapshot of mirror-v3 need not end with the last offset of its name, as the record there may be a tombstone.

    Args:
        store: where it lies.
        prefix: the partition's folder.
        segment: which.
        partition: of the folder.
        is_snapshot: whether the folder holds snapshots.

    Raises:
        ObjectMissingError: it is gone.
        ChainBrokenError: it is damaged, or holds another range than its name says; or it is of a format that says so
            beside the segment, where that has been lost, or speaks of another length.
        MirrorlakeError: the store could not be read.
    """
    key = f"{prefix}/{segment.name}"
    with open_segment(store, key) as reader:
        if reader.footer is None:
            check_described(key)
            check = check_edges_within if is_snapshot else check_bare_edges
            check(key, reader.edges(), name=segment.name, partition=partition)
        elif (said := reader.footer.file) is not None and said.bytes != segment.size_bytes:
            raise ChainBrokenError(
                f"{key} has {segment.size_bytes} bytes, its description says {said.bytes}",
                hint="the file was cut, emptied or swapped: put it back from a copy, or archive the range again",
                key=key,
            )
        return reader.footer
