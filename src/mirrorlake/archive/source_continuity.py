"""What the segments of one partition say of one another: one source, and none that has lost its description.

A segment whose format has no footer looks like one of mirror-v3 where its description is gone. What follows it tells:
the first segment that mirrorlake writes behind mirror-v3's says so, so before any other one stands a described one.
"""

from collections.abc import Sequence

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import SegmentName, padded, parse_segment_name
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, check_described, undescribed
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectStore


class SourceContinuity:
    """Takes the segments of a partition in the order of their chain, and says what is wrong between them.

    Args:
        recorded: whose records its folder holds, as the topic's records say, of this partition: more than one where
            mirrors of several topics share the folder; none where nothing is recorded.
    """

    def __init__(self, recorded: Sequence[Origin] = ()) -> None:
        self._recorded = recorded
        self._first: Origin | None = None
        self._bare_keys: list[str] = []

    def follow(self, key: str, footer: SegmentFooter | None) -> list[ChainBrokenError]:
        """Takes the next segment, with what it says of itself: None where mirror-v3 wrote it, or so it looks."""
        if footer is None:
            try:
                check_described(key)
            except ChainBrokenError as flaw:
                return [flaw]
            self._take_bare(key)
            return []
        origin = Origin.of(footer)
        flaws = self._against_others(key, origin)
        if not flaws:
            self._first = origin if self._first is None else self._first.completed_by(origin)
        self._bare_keys = [key for key in self._bare_keys if not _is_inside(key, footer.offsets)]
        if self._bare_keys and _says_described(footer):
            flaws.append(undescribed(self._bare_keys[0], self._bare_keys[-1]))
        self._bare_keys = []
        return flaws

    def check_beside(self, key: str, footer: SegmentFooter | None) -> list[ChainBrokenError]:
        """Takes a segment that is no part of the chain, as a larger one covers it; once the chain was taken."""
        return [] if footer is None else self._against_others(key, Origin.of(footer))

    def _against_others(self, key: str, origin: Origin) -> list[ChainBrokenError]:
        if self._first is not None and not origin.agrees_with(self._first):
            return [_other_origin(key, origin, self._first)]
        if self._recorded and not any(origin.agrees_with(each) for each in self._recorded):
            return [_not_recorded(key, origin, self._recorded[-1])]
        return []

    def pass_over(self) -> None:
        """Takes a segment that could not be read, which says nothing of those before it."""
        self._bare_keys = []

    def end(self) -> list[ChainBrokenError]:
        """Returns what is wrong with the last segments, behind which none follows."""
        return [undescribed(self._bare_keys[0], self._bare_keys[-1])] if self._bare_keys and self._first else []

    def _take_bare(self, key: str) -> None:
        if key.rpartition(".")[2] in FORMATS_WITH_SIDECAR:
            # Only the last one is surely not mirror-v3's; between may be as many as the archive is long.
            self._bare_keys = [*self._bare_keys[:1], key]


def check_by_next(store: ObjectStore, key: str, next_key: str) -> None:
    """Checks before a segment that says nothing of itself is read that what follows it does not say it was described.

    Such a segment has lost its description, and nothing tells whether it lacks records between its first and its last.
    A next one that says nothing either, or cannot be read, tells nothing of this one.

    Args:
        store: where both lie.
        key: of the segment without a description; of a format that never has any nothing is asked.
        next_key: of the one that begins where it ends.

    Raises:
        ChainBrokenError: its description is lost.
        ObjectMissingError: the next one is gone: the folder is to be listed anew.
        MirrorlakeError: the store could not be read.
    """
    if key.rpartition(".")[2] not in FORMATS_WITH_SIDECAR:
        return
    try:
        with open_segment(store, next_key) as reader:
            footer = reader.footer
    except ChainBrokenError:
        return
    if footer is not None and _says_described(footer):
        raise undescribed(key, key)


def name_behind(store: ObjectStore, prefix: str, end_offset: int) -> SegmentName | None:
    """Returns the name of the segment that begins at an offset, by one listing; None where there is none.

    Args:
        store: of the archive.
        prefix: the partition's folder.
        end_offset: where the segment before it ends.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    for info in store.list(prefix, start_after=padded(end_offset)):
        name = parse_segment_name(info.name)
        return name if name is not None and name.from_offset == end_offset else None
    return None


def _says_described(footer: SegmentFooter) -> bool:
    """Tells whether a segment says that the one before it is none of mirror-v3's; early versions do not say."""
    return not footer.envelope.follows_mirror_v3 and footer.seal is not None


def _is_inside(key: str, offsets: OffsetRange) -> bool:
    """Tells whether a segment taken before is part of the next one: it was merged while the chain was read."""
    name = parse_segment_name(key.rpartition("/")[2])
    return name is not None and offsets.start_offset <= name.from_offset and name.end_offset <= offsets.end_offset


def _not_recorded(key: str, found: Origin, expected: Origin) -> ChainBrokenError:
    return ChainBrokenError(
        f"{key} holds records of {found}, and the topic's record (_topic.json) says that the folder is of {expected}",
        hint="the file was swapped: put the right one back",
        key=key,
    )


def _other_origin(key: str, found: Origin, expected: Origin) -> ChainBrokenError:
    return ChainBrokenError(
        f"{key} holds records of {found}, and the segments before it of {expected}",
        hint="the file was swapped: put the right one back",
        key=key,
    )
