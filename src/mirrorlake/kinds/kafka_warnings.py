"""What ``plan`` says of a destination topic: what it would delete or refuse of the copy. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.archive.snapshots.tombstones import SnapshotRule, may_miss_tombstones
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.kinds.spans import day_text, span_text
from mirrorlake.kinds.standing import Sample
from mirrorlake.topics.targets import Target, is_deleting, limit_of

Configs = Mapping[str, str | None]

BEFORE = "message.timestamp.before.max.ms"
AFTER = "message.timestamp.after.max.ms"
AS_PRODUCED = "producer"
"""``compression.type`` of a topic whose batches stay as they came."""
UNPACKED = 4
"""Files of columns may be so many times smaller than the same records in batches; a warning too many costs a look."""
DIFFERENCE = "message.timestamp.difference.max.ms"
"""The one setting of both limits before Kafka 3.6."""


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
    """Returns what its owner should know before a topic is copied; each text begins with the destination topic's name.

    Args:
        target: with the settings of both topics; without those of the destination's nothing is said.
        sample: of the source partition.
        now_ms: the wall clock, in Unix milliseconds.
    """
    if not target.destination_configs:
        return []
    name = f"{target.kafka.cluster.name}/{target.destination_topic}"
    return [
        f"{name}: {text}"
        for text in (
            *_unread(sample),
            *_retention(target, sample, now_ms),
            *_cleanup(target),
            *_sizes(target),
            *_compression(target.source_configs, target.destination_configs),
            *_times(target.source_configs, target.destination_configs, sample, now_ms),
        )
    ]


def lost_to_cleaner(target: Target) -> list[str]:
    """Returns that the brokers take records out of a copy which its source keeps: also where nothing is to be copied.

    Args:
        target: with the settings of both topics.
    """
    if not target.loses_to_its_cleaner:
        return []
    name = f"{target.kafka.cluster.name}/{target.destination_topic}"
    return [f"{name}: {text}" for text in _cleanup(target)]


def missed_deletions(target: Target, *, held_until_ms: int | None, now_ms: int) -> list[str]:
    """Returns that a copy which would go on may have missed tombstones of its source, as `run` says where it has.

    Args:
        target: with the settings of the source topic.
        held_until_ms: the source's time of the newest record of the copy; nothing is said where that is not known.
        now_ms: the wall clock, in Unix milliseconds.
    """
    kept_seconds = target.source_retention.tombstones_seconds
    if held_until_ms is None or held_until_ms < 0 or kept_seconds is None:
        return []
    rule = SnapshotRule(tombstones_kept_seconds=kept_seconds)
    if not may_miss_tombstones(rule, complete_since_ms=held_until_ms, now_ms=now_ms):
        return []
    return [
        f"{target.kafka.cluster.name}/{target.destination_topic}: the source is compacted and may forget tombstones "
        f"after {span_text(int(kept_seconds * 1000))} (delete.retention.ms), and the copy's newest record is of "
        f"{day_text(held_until_ms)}: a key that was deleted since then may stay in the copy"
    ]


def _unread(sample: Sample) -> list[str]:
    if sample.error is None:
        return []
    return [f"whether the source has gaps, and how old its records are, is not known: {sample.error.message}"]


def _retention(target: Target, sample: Sample, now_ms: int) -> list[str]:
    if not is_deleting(target.destination_configs):
        return []
    if isinstance(target.mirror.source, ArchiveSource):
        return [*_deleted_by_age(target, sample, now_ms), *_deleted_by_size(target, sample)]
    source, destination = target.source_configs, target.destination_configs
    found = []
    kept = _pair(source, destination, "retention.ms")
    deletes = is_deleting(source)
    if kept.destination is not None and (kept.is_tighter or not deletes):
        held = "for ever" if kept.source is None or not deletes else f"for {span_text(kept.source)}"
        found.append(
            f"retention.ms deletes records older than {span_text(kept.destination)}; the source keeps them {held}"
        )
        if sample.oldest_ms is not None and sample.oldest_ms < now_ms - kept.destination:
            found[-1] += f", and its oldest record is of {day_text(sample.oldest_ms)}"
    size = _pair(source, destination, "retention.bytes")
    if size.is_tighter:
        found.append(f"retention.bytes keeps {size.destination:,} bytes of each partition, the source {_bytes(size)}")
    return found


def _deleted_by_age(target: Target, sample: Sample, now_ms: int) -> list[str]:
    """An archive keeps what its topic has deleted, and a topic that is restored has the settings it had."""
    kept_ms = limit_of(target.destination_configs, "retention.ms")
    if kept_ms is None or stamps_its_times(target.destination_configs):
        return []
    times = [each for each in (sample.oldest_ms, sample.newest_ms) if each is not None]
    since_ms = now_ms - kept_ms
    if not times or min(times) >= since_ms:
        return []
    lost = "all of them" if max(times) < since_ms and len(times) == 2 else f"those before {day_text(since_ms)}"
    return [
        f"retention.ms is {span_text(kept_ms)}: the brokers delete what is older as soon as it is copied, and the "
        f"archive's records are of {day_text(min(times))} to {day_text(max(times))}: {lost}; "
        + _before(target, "retention.ms")
    ]


def _deleted_by_size(target: Target, sample: Sample) -> list[str]:
    kept = limit_of(target.destination_configs, "retention.bytes")
    if kept is None or sample.stored_bytes is None or sample.stored_bytes * UNPACKED <= kept:
        return []
    beyond = "" if sample.stored_bytes > kept else ", which may be several times as much in batches"
    return [
        f"retention.bytes keeps {kept:,} bytes of each partition, and the brokers delete the oldest beyond that: the "
        f"archive's files have {sample.stored_bytes:,}{beyond}; " + _before(target, "retention.bytes")
    ]


def _before(target: Target, setting: str) -> str:
    if target.is_to_be_made:
        return f"make the topic yourself before, with a larger {setting}, or -1 for no limit"
    return f"give the topic a larger {setting} before, or -1 for no limit"


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
        "that is split, a record that does stops its partition as too-large; `producer` keeps them as they are"
    ]


def _times(source: Configs, destination: Configs, sample: Sample, now_ms: int) -> list[str]:
    if stamps_its_times(destination):
        return []  # it refuses none
    found = []
    before = _limit(destination, BEFORE)
    is_old = before is not None and sample.oldest_ms is not None and sample.oldest_ms < now_ms - before
    if before is not None and (is_old or _Pair(source=_limit(source, BEFORE), destination=before).is_tighter):
        text = f"{BEFORE} refuses records older than {span_text(before)}"
        if is_old and sample.oldest_ms is not None:
            text += f", and the oldest at the source is of {day_text(sample.oldest_ms)}: it stops as record-refused"
        found.append(text)
    after = _limit(destination, AFTER)
    if after is not None and _Pair(source=_limit(source, AFTER), destination=after).is_tighter:
        found.append(f"{AFTER} refuses records dated more than {span_text(after)} ahead, which the source takes")
    return found


def stamps_its_times(configs: Configs) -> bool:
    """Tells whether a topic of these settings gives records the time at which they are appended."""
    return configs.get("message.timestamp.type") == "LogAppendTime"


def _pair(source: Configs, destination: Configs, key: str) -> _Pair:
    return _Pair(source=limit_of(source, key), destination=limit_of(destination, key))


def _limit(configs: Configs, key: str) -> int | None:
    value = limit_of(configs, key)
    return limit_of(configs, DIFFERENCE) if value is None and key not in configs else value


def _bytes(pair: _Pair) -> str:
    return "without a bound" if pair.source is None else f"{pair.source:,}"
