"""What the segments of one partition say of one another: one source, and none that has lost its description.

A segment whose format has no footer looks like one of mirror-v3 where its description is gone. What follows it tells:
the first segment that mirrorlake writes behind mirror-v3's says so, so before any other one stands a described one.
"""

from dataclasses import dataclass
from typing import Self

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_key
from mirrorlake.errors import ChainBrokenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose records a segment holds; the same in all segments of a partition. ``topic_id`` may not be known."""

    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int

    @classmethod
    def of(cls, footer: SegmentFooter) -> Self:
        """Returns what a segment says."""
        return cls(
            cluster_id=footer.envelope.cluster_id,
            topic=footer.envelope.topic,
            topic_id=footer.envelope.topic_id,
            partition=footer.envelope.partition,
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} of cluster {self.cluster_id} (topic id {self.topic_id or 'not known'})"

    def agrees_with(self, other: "Origin") -> bool:
        """Tells whether both may be one source partition."""
        ids_agree = self.topic_id is None or other.topic_id is None or self.topic_id == other.topic_id
        sources = ((each.cluster_id, each.topic, each.partition) for each in (self, other))
        return ids_agree and next(sources) == next(sources)


class Succession:
    """Takes the segments of a partition in the order of their chain, and says what is wrong between them."""

    def __init__(self) -> None:
        self._first: Origin | None = None
        self._bare_keys: list[str] = []

    def follow(self, key: str, footer: SegmentFooter | None) -> list[ChainBrokenError]:
        """Takes the next segment, with what it says of itself: None where mirror-v3 wrote it, or so it looks."""
        if footer is None:
            self._take_bare(key)
            return []
        origin = Origin.of(footer)
        first = self._first = self._first or origin
        flaws = [] if origin.agrees_with(first) else [_other_origin(key, origin, first)]
        if self._bare_keys and not footer.envelope.follows_mirror_v3 and footer.seal is not None:
            flaws.append(_undescribed(self._bare_keys))
        self._bare_keys = []
        return flaws

    def pass_over(self) -> None:
        """Takes a segment that could not be read, which says nothing of those before it."""
        self._bare_keys = []

    def end(self) -> list[ChainBrokenError]:
        """Returns what is wrong with the last segments, behind which none follows."""
        return [_undescribed(self._bare_keys)] if self._bare_keys and self._first else []

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


def _undescribed(keys: list[str]) -> ChainBrokenError:
    first, last = keys[0], keys[-1]
    others = f", perhaps like others from {first} on" if first != last else ""
    return ChainBrokenError(
        f"{last} has no description ({sidecar_key(last)}){others}, and mirrorlake wrote what stands beside",
        hint="put it back from a copy, or archive the range again; if mirror-v3 went on with this archive, let "
        "mirrorlake go on in turn: its next segment says so",
        key=last,
    )
