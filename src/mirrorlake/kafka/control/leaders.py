"""Questions that only a partition's leader may answer, asked of all leaders at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mirrorlake.errors import MirrorlakeError, TopicMissingError, TransientError
from mirrorlake.kafka.control.brokers import CONTROL, Brokers
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.control_requests import (
    ControlRequest,
    Producers,
    Refused,
    epoch_ends_request,
    list_offsets_request,
    list_times_request,
    log_ends_request,
    producers_request,
)
from mirrorlake.kafka.control.descriptions import NO_LEADER, AppendState, ClusterMetadata, LogEnd
from mirrorlake.kafka.wire.apis import FETCH_VERSION, Api
from mirrorlake.kafka.wire.error_codes import LEADER_NOT_AVAILABLE, STALE_METADATA, error_for
from mirrorlake.kafka.wire.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    decode_fetch,
    encode_fetch,
)
from mirrorlake.offsets import TopicPartition

T = TypeVar("T")

_EARLIEST, _EARLIEST_LOCAL = -2, -4
"""Timestamps that ListOffsets takes for the log's start, and for the start of what the broker has on its disk."""
_EARLIEST_LOCAL_SINCE = 8

_NEWEST_TIME, _NEWEST_TIME_SINCE = -3, 7
"""What ListOffsets takes for the largest time of a log (KIP-734), from Kafka 3.0 on."""

PARTITIONS_PER_REQUEST = 64
PARTITION_BYTES_MAX = 16 << 10
"""Of one partition; together with those of a request what one receive buffer holds."""

Epochs = Mapping[TopicPartition, int]
Answers = dict[TopicPartition, T | Refused]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaders:
    """Whom to ask about which partitions, in which epoch; and those about which nobody can be asked."""

    epochs: Mapping[int, dict[TopicPartition, int]]
    unasked: Mapping[TopicPartition, MirrorlakeError]


def _find_leaders(partitions: Iterable[TopicPartition], metadata: ClusterMetadata, cluster: str) -> _Leaders:
    epochs: dict[int, dict[TopicPartition, int]] = {}
    unasked: dict[TopicPartition, MirrorlakeError] = {}
    for partition in partitions:
        known = metadata.partition(partition)
        if known is None:
            unasked[partition] = metadata.errors.get(partition.topic) or TopicMissingError(
                f"{partition} does not exist in cluster {cluster!r}", cluster=cluster, partition=str(partition)
            )
        elif known.leader == NO_LEADER:
            unasked[partition] = error_for(
                known.error_code or LEADER_NOT_AVAILABLE,
                what=f"Metadata of {partition} in cluster {cluster!r}",
                cluster=cluster,
                partition=str(partition),
            )
        else:
            epochs.setdefault(known.leader, {})[partition] = known.leader_epoch
    return _Leaders(epochs=epochs, unasked=unasked)


async def ask_leaders(
    brokers: Brokers,
    partitions: Iterable[TopicPartition],
    ask: Callable[[int, Epochs], Awaitable[Answers[T]]],
    *,
    what: str,
) -> dict[TopicPartition, T | MirrorlakeError]:
    """Returns an answer or an error for each partition; brokers are asked side by side.

    Partitions without a leader, or whose leader has moved, are asked about once more with fresh metadata.

    Args:
        brokers: of the cluster.
        partitions: about which; repeated ones are asked about once.
        ask: broker id, and partitions with the epoch it leads them in → its answers.
        what: what is being asked, for messages.

    Raises:
        MirrorlakeError: the cluster's metadata cannot be had at all.
    """
    cluster = brokers.settings.name
    results: dict[TopicPartition, T | MirrorlakeError] = {}
    todo = wanted = list(dict.fromkeys(partitions))
    for is_last in (False, True):
        topics = list(dict.fromkeys(partition.topic for partition in todo))
        metadata = await brokers.metadata(topics, refresh=is_last)
        leaders = _find_leaders(todo, metadata, cluster)
        async with asyncio.TaskGroup() as group:
            asked = [
                (epochs, group.create_task(_errors_as_values(ask(broker_id, epochs))))
                for broker_id, epochs in leaders.epochs.items()
            ]
        # A missing topic was asked for just now; a partition or leader may be missing in what was remembered only.
        stale = [partition for partition in leaders.unasked if partition.topic in metadata.topics]
        results.update(leaders.unasked)
        for epochs, task in asked:
            answers = task.result()
            if isinstance(answers, TransientError):
                brokers.mark_stale()  # a broker that does not answer is about to lose its partitions
            for partition in epochs:
                answer = answers if isinstance(answers, MirrorlakeError) else answers.get(partition, _NO_ANSWER)
                if isinstance(answer, Refused):
                    if answer.code in STALE_METADATA:
                        stale.append(partition)
                    results[partition] = _refusal(answer, f"{what} of {partition} in cluster {cluster!r}", partition)
                else:
                    results[partition] = answer
        if not stale:
            break
        todo = stale
    return {partition: results[partition] for partition in wanted}


_NO_ANSWER = Refused(-1, "the broker left it out of its answer")


def _refusal(answer: Refused, what: str, partition: TopicPartition) -> MirrorlakeError:
    return error_for(answer.code, what=what, message=answer.message, partition=str(partition))


async def _errors_as_values(asking: Awaitable[Answers[T]]) -> Answers[T] | MirrorlakeError:
    try:
        return await asking
    except MirrorlakeError as error:
        return error


async def ask_one_kind(
    brokers: Brokers,
    partitions: Iterable[TopicPartition],
    request: Callable[[Epochs], ControlRequest[Answers[T]]],
    *,
    what: str,
) -> dict[TopicPartition, T | MirrorlakeError]:
    """`ask_leaders` with one request per broker."""

    def ask(broker_id: int, epochs: Epochs) -> Awaitable[Answers[T]]:
        return brokers.ask(broker_id, request(epochs))

    return await ask_leaders(brokers, partitions, ask, what=what)


async def ask_offsets(
    brokers: Brokers, partitions: Iterable[TopicPartition], *, timestamp: int, isolation_level: int
) -> dict[TopicPartition, int | MirrorlakeError]:
    """See `ClusterClient.list_offsets`."""

    def ask(broker_id: int, epochs: Epochs) -> Awaitable[Answers[int]]:
        request = brokers.repeated_offsets.request(
            broker_id, epochs, timestamp=timestamp, isolation_level=isolation_level
        )
        return brokers.ask(broker_id, request)

    return await ask_leaders(brokers, partitions, ask, what="ListOffsets")


async def ask_log_ends(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogEnd | MirrorlakeError]:
    """See `ClusterClient.log_ends`."""

    async def ask(broker_id: int, epochs: Epochs) -> Answers[LogEnd]:
        return _proven_ends(await brokers.ask(broker_id, log_ends_request(epochs)), epochs)

    return await ask_leaders(brokers, partitions, ask, what="Log end")


async def ask_local_starts(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | MirrorlakeError]:
    """See `ClusterClient.local_starts`."""

    async def ask(broker_id: int, epochs: Epochs) -> Answers[int]:
        connection = await brokers.connection(broker_id, CONTROL)
        knows = connection.version(Api.LIST_OFFSETS) >= _EARLIEST_LOCAL_SINCE
        timestamp = _EARLIEST_LOCAL if knows else _EARLIEST
        request = list_offsets_request(epochs, timestamp=timestamp, isolation_level=READ_UNCOMMITTED)
        return await request.ask(connection, timeout_seconds=brokers.settings.request_timeout_seconds)

    return await ask_leaders(brokers, partitions, ask, what="ListOffsets")


async def ask_newest_times(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | MirrorlakeError | None]:
    """See `ClusterClient.newest_times`."""

    async def ask(broker_id: int, epochs: Epochs) -> Answers[int | None]:
        connection = await brokers.connection(broker_id, CONTROL)
        if connection.version(Api.LIST_OFFSETS) < _NEWEST_TIME_SINCE:
            return dict.fromkeys(epochs)
        request = list_times_request(epochs, timestamp=_NEWEST_TIME, isolation_level=READ_UNCOMMITTED)
        answers = await request.ask(connection, timeout_seconds=brokers.settings.request_timeout_seconds)
        return {**answers}

    return await ask_leaders(brokers, partitions, ask, what="ListOffsets")


async def ask_epoch_ends(
    brokers: Brokers, asked: Mapping[TopicPartition, int]
) -> dict[TopicPartition, LogEnd | MirrorlakeError]:
    """See `ClusterClient.epoch_ends`."""

    def request(epochs: Epochs) -> ControlRequest[Answers[LogEnd]]:
        return epoch_ends_request(epochs, asked=asked)

    return await ask_one_kind(brokers, asked, request, what="Epoch end")


def _proven_ends(answers: Answers[LogEnd], epochs: Epochs) -> Answers[LogEnd]:
    """Refuses an end that is not the log's, but that of an earlier epoch."""
    return {
        partition: Refused(LEADER_NOT_AVAILABLE, f"epoch {answer.leader_epoch} instead of {epochs[partition]}")
        if isinstance(answer, LogEnd) and (answer.leader_epoch != epochs.get(partition) or answer.end_offset < 0)
        else answer
        for partition, answer in answers.items()
    }


async def ask_append_states(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, AppendState | MirrorlakeError]:
    """See `ClusterClient.append_states`."""

    async def ask(broker_id: int, epochs: Epochs) -> Answers[AppendState]:
        connection = await brokers.connection(broker_id, CONTROL)
        producers, ends = await _ask_both(connection, epochs, brokers.settings.request_timeout_seconds)
        return _join(producers, _proven_ends(ends, epochs))

    return await ask_leaders(brokers, partitions, ask, what="Producers")


async def _ask_both(
    connection: Connection, epochs: Epochs, timeout_seconds: float
) -> tuple[Answers[Producers], Answers[LogEnd]]:
    # Both go out at once; a broker handles the requests of a connection in order, so the end is read after
    # the producers. A follower answers the first as if it led, the second it refuses: together they prove
    # leadership.
    async with asyncio.TaskGroup() as group:
        producers = group.create_task(
            _errors_as_values(producers_request(epochs).ask(connection, timeout_seconds=timeout_seconds))
        )
        ends = group.create_task(
            _errors_as_values(log_ends_request(epochs).ask(connection, timeout_seconds=timeout_seconds))
        )
    return _raised(producers.result()), _raised(ends.result())


def _raised(answers: Answers[T] | MirrorlakeError) -> Answers[T]:
    if isinstance(answers, MirrorlakeError):
        raise answers
    return answers


def _join(producers: Answers[Producers], ends: Answers[LogEnd]) -> Answers[AppendState]:
    states: Answers[AppendState] = {}
    for partition, end in ends.items():
        remembered = producers.get(partition, _NO_ANSWER)
        if isinstance(end, Refused):
            states[partition] = end
        elif isinstance(remembered, Refused):
            states[partition] = remembered
        else:
            states[partition] = AppendState(producers=remembered, log_end=end)
    return states


async def ask_reads(
    brokers: Brokers, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FetchedPartition | MirrorlakeError]:
    """See `ClusterClient.fetch_many`."""

    async def ask(broker_id: int, epochs: Epochs) -> Answers[FetchedPartition]:
        return await _read(brokers, broker_id, epochs, offsets)

    return await ask_leaders(brokers, offsets, ask, what="Fetch")


async def _read(
    brokers: Brokers, broker_id: int, epochs: Epochs, offsets: Mapping[TopicPartition, int]
) -> Answers[FetchedPartition]:
    connection = await brokers.connection(broker_id, CONTROL)
    found: Answers[FetchedPartition] = {}
    partitions = [*epochs]
    for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
        asked = [
            FetchPartition(
                topic=each.topic,
                partition=each.partition,
                fetch_offset=offsets[each],
                partition_bytes_max=PARTITION_BYTES_MAX,
                leader_epoch=epochs[each],
            )
            for each in partitions[start : start + PARTITIONS_PER_REQUEST]
        ]
        body = encode_fetch(
            asked,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=PARTITIONS_PER_REQUEST * PARTITION_BYTES_MAX,
            isolation_level=READ_COMMITTED,
        )
        frame = await connection.request(
            Api.FETCH, FETCH_VERSION, (body,), timeout_seconds=brokers.settings.request_timeout_seconds
        )
        with frame:
            for each in decode_fetch(frame.view):
                own = each._replace(records=memoryview(bytes(each.records)))
                partition = TopicPartition(each.topic, each.partition)
                found[partition] = Refused(each.error_code) if each.error_code else own
    return found
