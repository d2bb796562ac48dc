"""What the segments of one partition say of one another: one source, and none that has lost its description.

A segment whose format has no footer looks like one of mirror-v3 where its description is gone. What follows it tells:
the first segment that mirrorlake writes behind mirror-v3's says so, so before any other one stands a described one.
"""

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, check_described, undescribed
from mirrorlake.errors import ChainBrokenError


class SourceContinuity:
    """Takes the segments of a partition in the order of their chain, and says what is wrong between them."""

    def __init__(self) -> None:
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
        first = self._first = self._first or origin
        flaws = [] if origin.agrees_with(first) else [_other_origin(key, origin, first)]
        if self._bare_keys and not footer.envelope.follows_mirror_v3 and footer.seal is not None:
            flaws.append(undescribed(self._bare_keys[0], self._bare_keys[-1]))
        self._bare_keys = []
        return flaws

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


def _other_origin(key: str, found: Origin, expected: Origin) -> ChainBrokenError:
    return ChainBrokenError(
        f"{key} holds records of {found}, and the segments before it of {expected}",
        hint="the file was swapped: put the right one back",
        key=key,
    )
