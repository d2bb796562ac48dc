"""What a service did: per mirror at its end, and per destination when it has caught up. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.service.partition_state import PartitionState

BEHIND_SECONDS_MIN = 30.0
"""A destination that was behind for less has not caught up, it has kept up; but the first time is always told."""

Fact = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One mirror at the end. ``behind`` is None where the lag of a partition that is not parked is not known."""

    mirror: str
    partitions: int
    records: int
    bytes: int
    behind: int | None
    parked: int

    def facts(self, seconds: float) -> Mapping[str, Fact]:
        """Returns what a line says of it, ``seconds`` after the start."""
        return {
            "partitions": self.partitions,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(seconds, 1),
            "behind": "unknown" if self.behind is None else self.behind,
            "parked": self.parked,
        }


def account_of(mirror: str, states: Iterable[PartitionState], *, now_seconds: float) -> Account:
    """Returns what was done for the partitions of a mirror.

    ``behind`` counts parked ones too, as what waits for them is not copied either; it is None where the lag of any is
    not known.
    """
    own = [state for state in states if state.mirror == mirror]
    lags = [state.lag_now(now_seconds) for state in own]
    known = [lag for lag in lags if lag is not None]
    return Account(
        mirror=mirror,
        partitions=len(own),
        records=sum(state.copied_records for state in own),
        bytes=sum(state.copied_bytes for state in own),
        behind=sum(known) if len(known) == len(lags) else None,
        parked=sum(state.is_parked for state in own),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A destination of a mirror whose partitions have all reached their source's end; parked ones are left out."""

    mirror: str
    destination: str
    partitions: int
    records: int
    bytes: int
    seconds: float

    def facts(self) -> Mapping[str, Fact]:
        """Returns what a line says of it: what was copied since it fell behind, and how fast."""
        seconds = max(self.seconds, 0.1)
        return {
            "mirror": self.mirror,
            "destination": self.destination,
            "partitions": self.partitions,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 1),
            "records_per_second": round(self.records / seconds),
            "bytes_per_second": round(self.bytes / seconds),
        }


@dataclass(slots=True)
class _Behind:
    since_seconds: float
    records: int
    bytes: int
    is_first: bool


class CatchUps:
    """Notices when a Kafka destination has caught up; archives say so with every segment.

    Args:
        now_seconds: reading of the clock at the start.
    """

    def __init__(self, now_seconds: float) -> None:
        self._began = now_seconds
        self._behind: dict[tuple[str, str], _Behind | None] = {}

    def looked(self, states: Sequence[PartitionState], now_seconds: float) -> list[CaughtUp]:
        """Returns the destinations that have caught up since the last look."""
        groups: dict[tuple[str, str], list[PartitionState]] = {}
        for state in states:
            if state.is_live and not state.is_parked and not state.is_paused:
                groups.setdefault((state.mirror, state.destination), []).append(state)
        found = (self._look(place, group, now_seconds) for place, group in groups.items())
        return [each for each in found if each is not None]

    def _look(self, place: tuple[str, str], group: list[PartitionState], now_seconds: float) -> CaughtUp | None:
        records, size = sum(s.copied_records for s in group), sum(s.copied_bytes for s in group)
        if place not in self._behind:
            self._behind[place] = _Behind(self._began, 0, 0, is_first=True)
        behind = self._behind[place]
        if any(state.lag is None for state in group):
            return None
        if any(state.lag for state in group):
            if behind is None:
                self._behind[place] = _Behind(now_seconds, records, size, is_first=False)
            return None
        self._behind[place] = None
        if behind is None or records == behind.records:
            return None
        seconds = now_seconds - behind.since_seconds
        if not behind.is_first and seconds < BEHIND_SECONDS_MIN:
            return None
        return CaughtUp(
            mirror=place[0],
            destination=place[1],
            partitions=len(group),
            records=max(0, records - behind.records),
            bytes=max(0, size - behind.bytes),
            seconds=seconds,
        )
