"""Offsets of a stream as Spark keeps them in its checkpoint, and how far one micro-batch goes. Pure.

The form is that of Spark's own Kafka source, ``{"orders": {"0": 12, "1": 7}}``, with the topic's id beside the
partitions where there is one: ``{"orders": {"0": 12, "topic-id": "…"}}``. Offsets are next ones to be read.

A batch that Spark runs again must have the same offsets, whatever became of the source meanwhile. Its end is in the
checkpoint; its beginning is the end of the batch before, which is not there for the first batch, and says nothing of
partitions that came since. So an end says also where such partitions begin:
``{"orders": {"0": 12, "starts": {"0": 3}}}``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mirrorlake.errors import ConfigurationError, SourceTruncatedError, TopicMissingError, TopicRecreatedError
from mirrorlake.offsets import OffsetRange, TopicPartition

TOPIC_ID = "topic-id"
STARTS = "starts"

StreamOffsets = dict[str, dict[str, int | str | dict[str, int]]]
"""As Spark's checkpoint holds them."""

Positions = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnd:
    """Where a micro-batch ends, and so where the next one begins.

    Attributes:
        positions: the next offset to be read, by partition.
        topic_ids: by topic; those that are known.
        starts: where the batch begins in partitions of which the batch before it may say nothing.
    """

    positions: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    def is_unread(self, partition: TopicPartition) -> bool:
        """Tells whether nothing of a partition was ever read: its position may be one that nothing has kept."""
        position = self.positions.get(partition)
        return position is None or self.starts.get(partition) == position


def first_position(positions: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]) -> BatchEnd:
    """Returns where a query without a checkpoint begins. Spark asks anew until the first batch is done."""
    return BatchEnd(positions=positions, topic_ids=topic_ids, starts=positions)


def encoded(end: BatchEnd) -> StreamOffsets:
    """Returns the end of a batch as Spark keeps it, in the order of topics and partitions."""
    found: StreamOffsets = {}
    for each in sorted(end.positions):
        found.setdefault(each.topic, {})[str(each.partition)] = end.positions[each]
    for topic, partitions in found.items():
        if end.topic_ids.get(topic):
            partitions[TOPIC_ID] = end.topic_ids[topic]
        if starts := {str(each.partition): end.starts[each] for each in sorted(end.starts) if each.topic == topic}:
            partitions[STARTS] = starts
    return found


def decoded(offsets: StreamOffsets) -> BatchEnd:
    """Returns what `encoded` made.

    Raises:
        ConfigurationError: they are not what it makes: the checkpoint is of another kind of query.
    """
    positions: Positions = {}
    starts: Positions = {}
    topic_ids: dict[str, str] = {}
    try:
        for topic, partitions in offsets.items():
            for name, value in partitions.items():
                if name == TOPIC_ID:
                    topic_ids[topic] = str(value)
                elif name == STARTS:
                    starts |= _starts(topic, value)
                else:
                    positions[TopicPartition(topic, int(name))] = _number(value)
    except (AttributeError, ValueError, TypeError):
        raise ConfigurationError(
            "the stream's checkpoint holds offsets of another kind of source", hint="give this query one of its own"
        ) from None
    return BatchEnd(positions=positions, topic_ids=topic_ids, starts=starts)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"not an offset: {value!r}")
    return value


def _starts(topic: str, value: object) -> Positions:
    if not isinstance(value, dict):
        raise TypeError(f"not offsets: {value!r}")
    return {TopicPartition(topic, int(each)): _number(start) for each, start in value.items()}


def check_same_topics(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Checks that no topic was deleted and made anew since its offsets were noted.

    Raises:
        TopicRecreatedError: one was.
    """
    for topic, topic_id in before.items():
        if now.get(topic, topic_id) not in ("", topic_id):
            raise TopicRecreatedError(
                f"topic {topic} was deleted and made anew: its id was {topic_id}, and is {now[topic]}",
                hint="its offsets mean other records now: begin the query anew with another checkpoint",
                topic=topic,
            )


def gone_partitions(
    before: Collection[TopicPartition], now: Collection[TopicPartition], is_wanted: Callable[[str], bool]
) -> list[TopicPartition]:
    """Returns, in order, the partitions that a query knew and that are not there, of topics that are still wanted."""
    return sorted(each for each in before if each not in now and is_wanted(each.topic))


def partitions_gone(gone: Collection[TopicPartition], before: Mapping[TopicPartition, int]) -> TopicMissingError:
    """Returns the error of partitions that are gone, at least one: whether all of them was read, nobody knows."""
    first = min(gone)
    others = f", and {len(gone) - 1} more" if len(gone) > 1 else ""
    return TopicMissingError(
        f"{first}, of which the query has read up to offset {before[first]}, is gone{others}: what may have stood "
        "behind that is not read",
        hint="put it back, or begin the query anew with another checkpoint; `topics` that leave the topic out give up "
        "what is unread of it",
        topic=first.topic,
    )


def next_end(
    start: Mapping[TopicPartition, int], latest: Positions, starts: Positions, *, offsets_max: int | None
) -> Positions:
    """Returns where the next micro-batch ends.

    Args:
        start: where it begins, by partition; a partition that came since has none.
        latest: where each partition ends now. One that is below its start, as a new leader may say for a moment,
            brings nothing; so does one that is not there.
        starts: where partitions begin that came since.
        offsets_max: of the batch; each partition gets a share of it by what waits there, one offset at least. None for
            all that waits.
    """
    begin = {each: start.get(each, starts.get(each, 0)) for each in {*start, *latest}}
    waiting = {each: max(0, latest.get(each, 0) - begin[each]) for each in begin}
    whole = sum(waiting.values())
    if offsets_max is None or whole <= offsets_max:
        return {each: begin[each] + waiting[each] for each in begin}
    return {each: begin[each] + min(waiting[each], -(-waiting[each] * offsets_max // whole)) for each in begin}


def batch_after(start: BatchEnd, end: Positions, begins: Positions, topic_ids: Mapping[str, str]) -> BatchEnd:
    """Returns the end of the batch behind ``start``, as the checkpoint is to keep it; ``start`` where nothing is new.

    Args:
        start: where the batch begins.
        end: where it ends; every partition of ``start``, and those that came since.
        begins: where partitions begin that came since.
        topic_ids: as they are now, empty where nobody says.
    """
    ids = {**start.topic_ids, **{topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}}
    known = {topic: topic_id for topic, topic_id in ids.items() if any(each.topic == topic for each in end)}
    if end == start.positions and known == start.topic_ids:
        return start  # Another one that says the same would be an empty batch to Spark.
    starts = {each: start.positions.get(each, begins.get(each, 0)) for each in end if start.is_unread(each)}
    return BatchEnd(positions=end, topic_ids=known, starts=starts)


def ranges_between(
    start: BatchEnd, end: BatchEnd, *, begins: Callable[[], Positions]
) -> dict[TopicPartition, OffsetRange]:
    """Returns the offsets of one batch by partition, none of them empty: the same whenever it is asked for.

    Args:
        start: where the batch before ended; of the first batch, where a new query would begin now.
        end: where it ends.
        begins: asks where partitions begin now. Only for an end that an earlier version wrote, without starts.

    Raises:
        SourceTruncatedError: such an end does not tell what the batch held.
    """
    if start == end:
        return {}  # Its starts are those of the batch that ended there.
    untold = [each for each in end.positions if each not in end.starts and start.is_unread(each)]
    now = begins() if any(each not in start.positions for each in untold) else {}
    ranges: dict[TopicPartition, OffsetRange] = {}
    for each, until in end.positions.items():
        begin = end.starts.get(each, start.positions.get(each, now.get(each, 0)))
        if each in untold and begin and until:
            raise SourceTruncatedError(
                f"the checkpoint does not say where the batch began in {each}, which begins at offset {begin} now",
                hint="an earlier version wrote it, and the batch was not done: begin the query anew with another "
                "checkpoint",
                position=begin,
            )
        if begin < until:
            ranges[each] = OffsetRange(start_offset=begin, end_offset=until)
    return ranges
