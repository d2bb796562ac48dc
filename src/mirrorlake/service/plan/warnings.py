"""What ``plan`` says of a destination topic: what it would delete or refuse of the copy, and its gaps. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from mirrorlake.archive.snapshots.tombstones import PATIENCE_SHARE, snapshot_rule
from mirrorlake.config.resolved import ArchiveDestination, Compaction, KafkaDestination
from mirrorlake.destinations.transactions.gap_cost import MARKER_SECONDS
from mirrorlake.offsets import GapFill
from mirrorlake.service.plan.samples import Sample
from mirrorlake.topics.targets import Target, is_deleting, limit_of

Configs = Mapping[str, str | None]

BEFORE = "message.timestamp.before.max.ms"
AFTER = "message.timestamp.after.max.ms"
DAY_SECONDS = 86400.0
AS_PRODUCED = "producer"
"""``compression.type`` of a topic whose batches stay as they came."""
DIFFERENCE = "message.timestamp.difference.max.ms"
"""The one setting of both limits before Kafka 3.6."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A setting on both sides, as numbers; None where a side does not say."""

    source: int | None
    destination: int | None

    @property
    def is_tighter(self) -> bool:
        """True where the destination has a limit, and the source has a wider one, none, or does not say."""
        if self.destination is None:
            return False
        return self.source is None or self.source > self.destination


def warnings_of(target: Target, sample: Sample, *, now_ms: int) -> list[str]:
    """Returns what its owner should know before ``target`` is copied; empty where nothing stands in its way.

    Args:
        target: with the settings of both topics, or of the source's where it goes to an archive.
        sample: of the source partition.
        now_ms: the wall clock, in Unix milliseconds.
    """
    if isinstance(target.destination, ArchiveDestination):
        return [*_view(target, target.destination), *_late_flush(target, target.destination)]
    if not target.destination_configs:
        return []
    name = f"{target.destination.cluster.name}/{target.destination_topic}"
    return [
        f"{name}: {text}"
        for text in (
            *_unread(sample),
            *_retention(target.source_configs, target.destination_configs, sample, now_ms),
            *_cleanup(target),
            *_sizes(target),
            *_compression(target.source_configs, target.destination_configs),
            *_times(target.source_configs, target.destination_configs, sample, now_ms),
            *_gaps(target, target.destination, sample),
        )
    ]


def _unread(sample: Sample) -> list[str]:
    if sample.error is None:
        return []
    return [f"whether the source has gaps, and how old its records are, is not known: {sample.error.message}"]


def _view(target: Target, destination: ArchiveDestination) -> list[str]:
    """Says what `compaction: log` makes of a source that is not compacted, or that forgets tombstones soon."""
    if destination.compaction is not Compaction.LOG or not target.source_configs:
        return []
    name = f"{destination.store.name}/{target.destination_topic}"
    rule = snapshot_rule(target.source_configs.get("cleanup.policy"), target.source_configs.get("delete.retention.ms"))
    if rule.tombstones_kept_seconds is None:
        return [f"{name}: the source is not compacted; `compaction: log` keeps the latest record of each key only"]
    patience = rule.tombstones_kept_seconds * PATIENCE_SHARE
    if patience > _waits_seconds(destination):
        return []
    return [
        f"{name}: the source may forget tombstones after {_span(int(rule.tombstones_kept_seconds * 1000))} "
        f"(delete.retention.ms), and `flush` lets a record wait for {_span(int(_waits_seconds(destination) * 1000))}: "
        "a view that is older than half the former is built anew from the log's start where the source was cleaned "
        "meanwhile (`trigger=rebuilt`)"
    ]


def _waits_seconds(destination: ArchiveDestination) -> float:
    flush = destination.flush
    return min(flush.time_seconds_max, DAY_SECONDS if flush.daily_at_utc is not None else flush.time_seconds_max)


def _late_flush(target: Target, destination: ArchiveDestination) -> list[str]:
    """Says what becomes of a flush that would come after the source has deleted what it is to hold."""
    waits, kept = _waits_seconds(destination), target.source_retention.seconds
    if kept is None or kept > waits:
        return []
    return [
        f"{destination.store.name}/{target.destination_topic}: the source deletes what is older than "
        f"{_span(int(kept * 1000))}, and `flush` lets a record wait for {_span(int(waits * 1000))}: segments are cut "
        "early, at half that age (`trigger=retention`); a mirror that stands still for that long still loses records"
    ]


def _retention(source: Configs, destination: Configs, sample: Sample, now_ms: int) -> list[str]:
    found = []
    if not is_deleting(destination):
        return []
    kept = _pair(source, destination, "retention.ms")
    deletes = is_deleting(source)
    if kept.destination is not None and (kept.is_tighter or not deletes):
        held = "for ever" if kept.source is None or not deletes else f"for {_span(kept.source)}"
        found.append(f"retention.ms deletes what is older than {_span(kept.destination)}; the source keeps it {held}")
        if sample.oldest_ms is not None and sample.oldest_ms < now_ms - kept.destination:
            found[-1] += f", and its oldest record is of {_day(sample.oldest_ms)}"
    size = _pair(source, destination, "retention.bytes")
    if size.is_tighter:
        found.append(f"retention.bytes keeps {size.destination:,} bytes of each partition, the source {_bytes(size)}")
    return found


def _cleanup(target: Target) -> list[str]:
    if not target.destination_is_compacted or target.source_is_compacted:
        return []
    return [
        "cleanup.policy=compact keeps the newest record of a key only and refuses records without a key; the source "
        "keeps all and takes them"
    ]


def _sizes(target: Target) -> list[str]:
    size = _pair(target.source_configs, target.destination_configs, "max.message.bytes")
    if size.source is None or not size.is_tighter:
        return []
    return [
        f"max.message.bytes is {size.destination:,}, at the source {size.source:,}: larger batches are split, a larger "
        "record stops its partition as too-large"
    ]


def _compression(source: Configs, destination: Configs) -> list[str]:
    codec = destination.get("compression.type") or AS_PRODUCED
    if codec in (AS_PRODUCED, source.get("compression.type")):
        return []
    return [
        f"compression.type={codec} has its brokers compress batches anew: one that grows above max.message.bytes by "
        "that stops its partition as too-large; `producer` keeps them as they are"
    ]


def _times(source: Configs, destination: Configs, sample: Sample, now_ms: int) -> list[str]:
    if destination.get("message.timestamp.type") == "LogAppendTime":
        return []  # the destination stamps its own times and refuses none
    found = []
    before = _limit(destination, BEFORE)
    is_old = before is not None and sample.oldest_ms is not None and sample.oldest_ms < now_ms - before
    if before is not None and (is_old or _Pair(source=_limit(source, BEFORE), destination=before).is_tighter):
        text = f"{BEFORE} refuses records older than {_span(before)}"
        if is_old and sample.oldest_ms is not None:
            text += f", and the oldest at the source is of {_day(sample.oldest_ms)}: it stops as record-refused"
        found.append(text)
    after = _limit(destination, AFTER)
    if after is not None and _Pair(source=_limit(source, AFTER), destination=after).is_tighter:
        found.append(f"{AFTER} refuses records dated more than {_span(after)} ahead, which the source takes")
    return found


def _gaps(target: Target, destination: KafkaDestination, sample: Sample) -> list[str]:
    if target.is_mapped or not (sample.is_transactional or target.source_is_compacted):
        return []
    why = "it is written in transactions" if sample.is_transactional else "it is compacted"
    if destination.gap_fill is GapFill.REFUSE:
        return [f"the source has offsets without a record, as {why}; `gap-fill: refuse` stops at the first one"]
    cost = (
        f"about {MARKER_SECONDS * 1000:.0f} ms each"
        if destination.gap_fill is GapFill.MARKERS
        else f"about {MARKER_SECONDS * 1000:.0f} ms for each run of them, and read_uncommitted consumers see fillers"
    )
    return [
        f"the source has offsets without a record, as {why}; how many is not known until they are read, "
        f"{destination.gap_fill.value} fill them, {cost}. A coordinator that fails over may write a marker twice: the "
        "partition then stops as misaligned, before a record is misplaced"
    ]


def _pair(source: Configs, destination: Configs, key: str) -> _Pair:
    return _Pair(source=limit_of(source, key), destination=limit_of(destination, key))


def _limit(configs: Configs, key: str) -> int | None:
    value = limit_of(configs, key)
    return limit_of(configs, DIFFERENCE) if value is None and key not in configs else value


def _span(milliseconds: int) -> str:
    """Returns a span of time in the largest unit of which it is at least two, or a whole number."""
    for size, unit in _UNITS:
        if milliseconds >= 2 * size or (milliseconds >= size and milliseconds % size == 0):
            return f"{milliseconds / size:.3g} {unit}"
    return f"{milliseconds} ms"


def _bytes(pair: _Pair) -> str:
    return "without a bound" if pair.source is None else f"{pair.source:,}"


def _day(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
