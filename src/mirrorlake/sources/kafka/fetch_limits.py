"""What a reader asks of a broker in one fetch: how many bytes, and how long the broker may wait for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.kafka.wire.fetch import FETCH_BYTES_MAX, FetchPartition, encode_fetch
from mirrorlake.kafka.wire.fetch_by_id import NO_SESSION, SessionStep, encode_fetch_by_id
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.sources.kafka.fetch_session import SessionChanges
from mirrorlake.sources.kafka.read_partition import ReadPartition

PARTITION_BYTES_MAX = 1 << 20
"""Bytes asked for of one partition, or its share of the answer where that is more: a few partitions fill it too. A
larger batch comes whole when its partition is asked first (KIP-74)."""

ANSWER_BYTES_MIN = 1
"""Bytes the broker waits for before it answers."""

FIRST_WAIT_MS = 8
"""How long the broker may hold the first answer back: partitions that are added meanwhile wait for the next one."""

PARTITIONS_PER_MS = 16
"""For each so many partitions that there are the first answer may be held back a millisecond longer."""

FLOWING_WAIT_MS = 250
"""The same after an answer with records; records that come end every wait."""

QUIET_WAIT_MS = 1000
"""The same after many empty answers, each of which is handed to every partition; it doubles up to here."""

BUSY_WAIT_MS = 2
"""The same while a partition was left out of the request for want of room: it may have room again any moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What every request asks of the broker: the constants above, where a cluster's settings say nothing else.

    ``wait_ms`` is how long the broker may hold an answer back, None for as long as it fits (`QuietWait`).
    """

    answer_bytes_max: int
    partition_bytes_max: int | None
    answer_bytes_min: int
    wait_ms: int | None

    @classmethod
    def of(cls, settings: ClusterSettings) -> "FetchLimits":
        """Returns the limits of one cluster."""
        wait = settings.fetch_wait_seconds_max
        return cls(
            answer_bytes_max=settings.fetch_bytes_max or FETCH_BYTES_MAX,
            partition_bytes_max=settings.fetch_partition_bytes_max,
            answer_bytes_min=settings.fetch_bytes_min or ANSWER_BYTES_MIN,
            wait_ms=_wait_ms(settings) if wait is None else round(wait * 1000),
        )

    def wait_ms_within(self, left_seconds: float, fitting_ms: int) -> int:
        """Returns how long the broker may hold an answer back.

        Args:
            left_seconds: until reading ends.
            fitting_ms: how long it may, where the settings leave it open.
        """
        left_ms = max(0, int(left_seconds * 1000))
        if self.answer_bytes_min > 1:
            # Records held back until reading ends would come too late to be copied, lease after lease.
            left_ms //= 2
        return min(fitting_ms if self.wait_ms is None else self.wait_ms, left_ms)

    def share_of(self, partitions: int) -> int:
        """Returns how many bytes are asked for of each of so many partitions."""
        return self.partition_bytes_max or max(PARTITION_BYTES_MAX, self.answer_bytes_max // partitions)

    def body(
        self,
        partitions: Sequence[ReadPartition],
        *,
        wait_ms: int,
        ids: Mapping[str, bytes] | None = None,
        session: SessionStep = NO_SESSION,
    ) -> bytes:
        """Returns the request for these partitions, in this order, each from its next offset on.

        With ``ids``, one for each topic, it is a Fetch by id, which may open or close a ``session``; without, one by
        name.
        """
        asked = asked_of(partitions, share_bytes=self.share_of(len(partitions)))
        least, most = self.answer_bytes_min, self.answer_bytes_max
        if ids is None:
            return encode_fetch(asked, max_wait_ms=wait_ms, min_bytes=least, max_bytes=most)
        return encode_fetch_by_id(asked, ids, max_wait_ms=wait_ms, min_bytes=least, max_bytes=most, session=session)

    def changes(self, changes: SessionChanges, *, wait_ms: int, share_bytes: int) -> bytes:
        """Returns the request that tells a session what has changed."""
        return encode_fetch_by_id(
            asked_of(changes.asked, share_bytes=share_bytes),
            changes.ids,
            max_wait_ms=wait_ms,
            min_bytes=self.answer_bytes_min,
            max_bytes=self.answer_bytes_max,
            session=changes.step,
            forgotten=changes.forgotten,
        )


def asked_of(partitions: Sequence[ReadPartition], *, share_bytes: int) -> list[FetchPartition]:
    """Returns what is asked of each partition: from its next offset on, so many bytes."""
    return [
        FetchPartition(p.source.topic, p.source.partition, p.fetch_offset, share_bytes, leader_epoch=p.leader_epoch)
        for p in partitions
    ]


def _wait_ms(settings: ClusterSettings) -> int | None:
    """A broker that is to wait for many bytes must have the time to; short waits would defeat it."""
    return FLOWING_WAIT_MS if (settings.fetch_bytes_min or ANSWER_BYTES_MIN) > 1 else None


class QuietWait:
    """How long a broker may hold its next answer back: briefly at first, and ever longer while nothing comes."""

    def __init__(self) -> None:
        self.milliseconds = FIRST_WAIT_MS

    def added(self, *, to_partitions: int) -> None:
        """A partition has come: more of them may follow, and none is to wait long for its first request.

        Where there are many a little longer: the broker looks at all of them for each request.
        """
        self.milliseconds = FIRST_WAIT_MS + to_partitions // PARTITIONS_PER_MS

    def answered(self, *, is_empty: bool) -> None:
        """Takes whether an answer brought nothing."""
        self.milliseconds = min(2 * self.milliseconds, QUIET_WAIT_MS) if is_empty else FLOWING_WAIT_MS
