"""Comparing the name of a segment with what the file says, as a position is taken from names.

A file of mirrorlake says which range it holds. One that says nothing was written by mirror-v3, or so it looks: such a
file ends with a record of the last offset of its name (see `docs/archive-format.md`), so its last record tells.
Whoever writes behind a segment has compared it; where the two differ, either offsets would be archived twice or never.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR
from mirrorlake.errors import ChainBrokenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The first or last record of a file: where it was in its source."""

    partition: int
    offset: int


def check_range_named(key: str, footer: SegmentFooter | None) -> None:
    """Checks that the range a segment says it holds is the one of its name.

    Args:
        key: of the segment; of another file nothing is checked.
        footer: what it says of itself; None where it says nothing.

    Raises:
        ChainBrokenError: they differ.
    """
    name = parse_segment_name(key.rpartition("/")[2])
    if footer is None or name is None or footer.offsets == name.offsets:
        return
    raise misplaced(key, f"says of itself that it covers {footer.offsets}", f"it covers {name.offsets}")


def check_bare_edges(key: str, edges: Sequence[Edge], *, name: SegmentName, partition: int) -> None:
    """Checks the first and last record of a segment that says nothing of itself against its name and its folder.

    Args:
        key: of the segment.
        edges: its first and its last record; none where it has no record.
        name: of the segment.
        partition: of the folder.

    Raises:
        ChainBrokenError: a record outside of the name's range or of another partition; or the last one is not that of
            the name's last offset, with which a file of mirror-v3 ends.
    """
    check_edges_within(key, edges, name=name, partition=partition)
    if not edges or edges[-1].offset != name.to_offset:
        raise without_last_record(key, name)


def check_edges_within(key: str, edges: Sequence[Edge], *, name: SegmentName, partition: int) -> None:
    """Checks that records lie in the range of a segment's name and are of its folder's partition.

    Raises:
        ChainBrokenError: they are not.
    """
    if not edges:
        return
    low, high = edges[0].offset, edges[-1].offset
    if low < name.from_offset or high > name.to_offset:
        raise misplaced(key, f"holds offsets {low} to {high}", f"it covers {name.offsets}")
    for edge in edges:
        if edge.partition != partition:
            raise misplaced(key, f"holds records of partition {edge.partition}", f"it holds partition {partition}")


def misplaced(key: str, what: str, by_name: str) -> ChainBrokenError:
    """Returns the error of a segment that says something else than its name or its folder.

    Args:
        key: of the segment.
        what: what it says or holds: "holds offsets 0 to 9".
        by_name: what its place says: "it covers [10, 20)".
    """
    return ChainBrokenError(
        f"{key} {what}, its place says that {by_name}",
        hint="the file was renamed or swapped: put the right one back, or give this one its own name again",
        key=key,
    )


def without_last_record(key: str, name: SegmentName) -> ChainBrokenError:
    """Returns the error of a segment that says nothing of itself, and does not end as one of mirror-v3 does."""
    lacks = "description" if name.extension in FORMATS_WITH_SIDECAR else "footer of mirrorlake's"
    return ChainBrokenError(
        f"{key} has no {lacks}, and no record of offset {name.to_offset}, with which a file of mirror-v3 ends",
        hint="put it back from a copy; or, as long as the source has its records, move it out of the folder and "
        "restart, so that the range is archived again",
        key=key,
    )
