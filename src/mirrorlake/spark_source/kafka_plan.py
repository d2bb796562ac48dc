"""Which offsets of live topics a read takes: asked of the brokers, once, before any task begins."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from mirrorlake.errors import MirrorlakeError, TopicMissingError, TransientError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.range_reader import first_at
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.own_topics import is_own_topic
from mirrorlake.spark_source.bounds import check_named, wanted_range
from mirrorlake.spark_source.request import Bound, ReadOptions
from mirrorlake.spark_source.selection import ALL, Selection
from mirrorlake.spark_source.tasks import Piece

ATTEMPTS_MAX = 6
"""How often a cluster is asked that does not answer, or asks for patience; the last time after some ten seconds."""

_PAUSE_SECONDS = 0.3

T = TypeVar("T")
TopicIds = Mapping[str, str]
Offsets = dict[TopicPartition, int]


def plan_live(options: ReadOptions, selection: Selection) -> list[Piece]:
    """Returns a piece for each partition with offsets that may be wanted, by topic and partition.

    It ends where everything was decided when the read was planned (the last stable offset), or before.

    Raises:
        TopicMissingError: the cluster has no such topic.
        SourceTruncatedError: an offset that is given is not there.
        MirrorlakeError: the cluster could not be asked.
    """

    async def ask() -> list[Piece]:
        async with ClusterClient(options.cluster) as client:
            return await _plan(client, options, selection)

    return asyncio.run(patiently(ask))


async def patiently(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Returns what a cluster answers, asked again where it does not at the moment.

    Raises:
        MirrorlakeError: of the last attempt.
    """
    for attempt in range(1, ATTEMPTS_MAX):
        try:
            return await ask()
        except TransientError:
            await asyncio.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
    return await ask()


async def _plan(client: ClusterClient, options: ReadOptions, selection: Selection) -> list[Piece]:
    topic_ids, found = await find_live(client, options.names, options.patterns)
    if selection == ALL:
        check_named((options.starting, options.ending), found)
    wanted = [each for each in found if selection.may_hold_partition(each.topic, each.partition)]
    # Ends before times: a record that comes between lies behind the end, and its absence proves nothing before it.
    held = await held_offsets(client, wanted)
    times = {
        side: await asked_at_times(client, wanted, bound)
        for side, bound in (("starting", options.starting), ("ending", options.ending))
    }
    earliest = await _first_wanted(client, wanted, selection)
    pieces: list[Piece] = []
    for each in wanted:
        offsets = wanted_range(
            each,
            held[each],
            starting=options.starting,
            ending=options.ending,
            times={side: found_at.get(each) for side, found_at in times.items()},
        )
        within = selection.within(_from(offsets, earliest.get(each, 0)))
        if within is not None:
            pieces.append(
                Piece(
                    topic=each.topic,
                    partition=each.partition,
                    offsets=within,
                    topic_id=topic_ids[each.topic],
                    cost=len(within),
                )
            )
    return pieces


def _from(offsets: OffsetRange, start: int) -> OffsetRange:
    start = min(max(start, offsets.start_offset), offsets.end_offset)
    return OffsetRange(start_offset=start, end_offset=offsets.end_offset)


async def find_live(
    client: ClusterClient, names: Sequence[str], patterns: Sequence[str]
) -> tuple[TopicIds, list[TopicPartition]]:
    """Returns the ids of topics, empty where the cluster gives none, and their partitions in order.

    Raises:
        TopicMissingError: there is no such topic, or none that matches.
        MirrorlakeError: the cluster could not be asked, or refuses one of them.
    """
    metadata = await client.metadata(None if patterns else names, refresh=True)
    for name in names:
        if name in metadata.errors:
            raise metadata.errors[name]
        if name not in metadata.topics:
            raise await _missing(client, name)
    chosen = set(names)
    for pattern in patterns:
        # A topic that cannot be read at the moment is none that is not there.
        for name, error in metadata.errors.items():
            if re.fullmatch(pattern, name):
                raise error
        matching = {
            name
            for name, topic in metadata.topics.items()
            if re.fullmatch(pattern, name) and not topic.is_internal and not is_own_topic(name)
        }
        if not matching:
            raise TopicMissingError(f"cluster {client.settings.name!r} has no topic that matches /{pattern}/")
        chosen |= matching
    topics = {name: metadata.topics[name] for name in sorted(chosen)}
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return ids, [TopicPartition(name, number) for name, topic in topics.items() for number in sorted(topic.partitions)]


async def _missing(client: ClusterClient, name: str) -> MirrorlakeError:
    from mirrorlake.config.reading import suggestion  # loads the configuration's models

    hint = ""
    try:
        every = await client.metadata(None, refresh=True)
        known = [each for each, topic in every.topics.items() if not topic.is_internal and not is_own_topic(each)]
        hint = suggestion(name, sorted(known))
    except MirrorlakeError:
        pass  # The news is that there is no such topic; a hint is a kindness.
    return TopicMissingError(f"cluster {client.settings.name!r} has no topic {name!r}", hint=hint, topic=name)


async def held_offsets(
    client: ClusterClient, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, OffsetRange]:
    """Returns for each partition where its log begins, and up to where everything in it is decided.

    Raises:
        MirrorlakeError: one of them could not be asked.
    """
    ends = await asked(client, partitions, LATEST)
    starts = await asked(client, partitions, EARLIEST)
    # What lay below the end may be deleted by now: the range is empty then.
    return {
        each: OffsetRange(start_offset=starts[each], end_offset=max(starts[each], ends[each])) for each in partitions
    }


async def asked(client: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
    """Returns what `ClusterClient.list_offsets` does.

    Raises:
        MirrorlakeError: one of them could not be asked.
    """
    found: Offsets = {}
    for each, offset in (await client.list_offsets(partitions, timestamp=timestamp)).items():
        if isinstance(offset, MirrorlakeError):
            raise offset
        found[each] = offset
    return found


async def asked_at_times(
    client: ClusterClient, partitions: Sequence[TopicPartition], bound: Bound
) -> dict[TopicPartition, int | None]:
    """Returns by partition the first offset at or after a bound's time, None without one; nothing where it has no time.

    Raises:
        MirrorlakeError: one of them could not be asked.
    """
    if bound.timestamp_ms is None:
        return {}
    found: dict[TopicPartition, int | None] = {}
    for each, offset in (await first_at(client, partitions, bound.timestamp_ms)).items():
        if isinstance(offset, MirrorlakeError):
            raise offset
        found[each] = offset
    return found


async def _first_wanted(client: ClusterClient, partitions: Sequence[TopicPartition], selection: Selection) -> Offsets:
    """Returns by partition the first offset whose record may be late enough; above all others where none is."""
    first_ms = selection.earliest_ms
    if first_ms is None or not 0 <= first_ms < 2**63:
        return {}
    answers = await first_at(client, partitions, first_ms)
    return {
        each: 2**63 - 1 if offset is None else offset
        for each, offset in answers.items()
        if not isinstance(offset, MirrorlakeError)  # Nothing is left out then.
    }
