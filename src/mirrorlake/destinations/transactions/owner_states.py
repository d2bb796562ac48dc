"""State records: what the owners of mirrors remember at a Kafka cluster.

They live in one compacted topic per destination cluster, one record per mirror, key the mirror's name, value a JSON
object (``OwnerState``). Among other things they remember every producer id the mirror's shards ever
wrote under: a transactional id that saw no transaction for ``transactional.id.expiration.ms`` (7 days) stands for
another producer id from then on, and its partitions still know the one before.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from mirrorlake.destinations.transactions.session import IS_OVER, TransactionSession
from mirrorlake.destinations.transactions.written_records import read_written_by
from mirrorlake.errors import BrokerNotReadyError, DestinationForeignError, TopicMissingError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity, TransactionState
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import RecordColumns, encode_batch
from mirrorlake.kafka.records.columns import bytes_column, no_headers
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.own_topics import STATE_TOPIC as STATE_TOPIC

STATE_PARTITION = TopicPartition(STATE_TOPIC, 0)
TRANSACTION_TIMEOUT_MS = 10_000
"""Short: a state transaction left open holds up whoever reads the state."""

STATE_FORMAT = 2
"""2 added producer ids, destinations, generations and the hold; records of format 1 are read as knowing none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerState:
    """What a state record says of a mirror.

    ``topic_ids`` are the source's topic ids by topic, as last seen by an owner. ``shards`` is the number of writer
    identities, fixed for the mirror's life. ``taken_at_ms`` is when the owner became it, ``written_at_ms`` when it
    wrote this record (0 where a record does not say), both by its wall clock.

    ``producer_ids`` are all those each shard's transactional id ever stood for, by shard. ``destinations`` are the
    source topics by destination topic. ``generations`` says, for each destination topic as configured, where the
    records of a source topic that was recreated go: destination topic by source topic id. ``hold_seconds`` is how
    long after somebody else took the mirror over this owner's leases may still append, None where a record does not
    say; ``is_released`` is True once it ended gracefully and nothing of it is under way. ``hold_before_seconds`` is how
    long after this record was written leases of owners before this one may still append, whether or not it has let go;
    0 where none may, or a record does not say. ``hold_seconds`` is never less.

    ``partitions`` are the source partitions of each destination topic the mirror fills; a destination without an entry
    has them all, as records of before said nothing of partitions. ``let_go`` are those it filled once, and does no
    more: nothing of it is under way there. ``mapped_topics`` are the destination topics with mapped offsets.
    ``found_filled`` are the partitions, by destination topic, that held something when the mirror began, of which no
    record said that it was the copy, and to which it has not appended since. Of a log that lost all its records only
    this tells whose they were; records of before name none.
    ``former_ids`` are the producer ids of other mirrors whose copies went on under this one, by destination topic and
    partition. ``origins`` say where the records of a destination topic were before they came to the mirror's source:
    cluster id and topic, by destination topic. ``progress_topic_id`` and ``pages_topic_id`` are the ids of the topics
    that hold the mirror's progress and offset maps, empty while it has none; ``map_producer_ids`` are all producer ids
    that the transactional ids of its mapped shards ever stood for, by shard. ``mapped_sources`` are all source
    partitions that it ever filled with mapped offsets, by source topic, by destination topic: several source topics may
    go to one, of which ``destinations`` names one. Records of before name none.
    """

    mirror: str
    owner: str = ""
    source_cluster_id: str = ""
    shards: int = 0
    taken_at_ms: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    producer_ids: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    destinations: Mapping[str, str] = field(default_factory=dict)
    generations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hold_seconds: float | None = None
    hold_before_seconds: float = 0.0
    is_released: bool = False
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    let_go: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    mapped_topics: tuple[str, ...] = ()
    found_filled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    former_ids: Mapping[str, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)
    origins: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    written_at_ms: int = 0
    progress_topic_id: str = ""
    pages_topic_id: str = ""
    map_producer_ids: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    mapped_sources: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    format_version: int = STATE_FORMAT

    def sources_of(self, topic: str) -> tuple[str, ...]:
        """Returns the source topics that the mirror brings, or brought, to a destination topic, by name."""
        named = {self.destinations[topic]} if topic in self.destinations else set()
        return tuple(sorted(named | self.mapped_sources.get(topic, {}).keys()))


def transactional_id(mirror: str) -> str:
    """Returns the mirror's own transactional id; no shard's can be equal, theirs end in a number."""
    return f"mirrorlake.{mirror}.owner"


def knock_id(mirror: str) -> str:
    """Returns the transactional id whose epoch asks for a sign of life of the owner; nothing is written under it."""
    return f"mirrorlake.{mirror}.knock"


def encode_state(state: OwnerState) -> bytes:
    """Returns the value of a state record."""
    mapped = {
        topic: {source: _ranges(numbers) for source, numbers in sources.items()}
        for topic, sources in state.mapped_sources.items()
    }
    return json.dumps({**asdict(state), "mapped_sources": mapped}, sort_keys=True).encode()


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Returns ascending numbers as ranges with exclusive ends: mostly one, where thousands of numbers would be many."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1] = found[-1][0], number + 1
        else:
            found.append((number, number + 1))
    return found


def decode_state(value: bytes, *, offset: int | None = None) -> OwnerState:
    """Returns what ``encode_state`` wrote.

    Args:
        value: of a record.
        offset: where the record lies, for the message; None where it lies nowhere yet.

    Raises:
        DestinationForeignError: it is not a state record this version understands.
    """
    try:
        fields = json.loads(value)
        if fields["format_version"] > STATE_FORMAT:
            raise DestinationForeignError(
                f"topic {STATE_TOPIC} was written by a newer mirrorlake (format {fields['format_version']})",
                hint="use that version, or a mirror of another name",
            )
        return OwnerState(
            **{name: fields[name] for name in ("mirror", "owner", "source_cluster_id", "shards", "taken_at_ms")},
            topic_ids=dict(fields["topic_ids"]),
            producer_ids={int(shard): tuple(ids) for shard, ids in fields.get("producer_ids", {}).items()},
            destinations=dict(fields.get("destinations", {})),
            generations={name: dict(ids) for name, ids in fields.get("generations", {}).items()},
            hold_seconds=fields.get("hold_seconds"),
            hold_before_seconds=float(fields.get("hold_before_seconds", 0.0)),
            is_released=fields.get("is_released", False),
            partitions={name: tuple(numbers) for name, numbers in fields.get("partitions", {}).items()},
            let_go={name: tuple(numbers) for name, numbers in fields.get("let_go", {}).items()},
            mapped_topics=tuple(fields.get("mapped_topics", ())),
            found_filled={name: tuple(numbers) for name, numbers in fields.get("found_filled", {}).items()},
            former_ids={
                name: {int(partition): tuple(ids) for partition, ids in held.items()}
                for name, held in fields.get("former_ids", {}).items()
            },
            written_at_ms=fields.get("written_at_ms", 0),
            origins={
                name: tuple((cluster_id, topic) for cluster_id, topic in places)
                for name, places in fields.get("origins", {}).items()
            },
            progress_topic_id=fields.get("progress_topic_id", ""),
            pages_topic_id=fields.get("pages_topic_id", ""),
            map_producer_ids={int(shard): tuple(ids) for shard, ids in fields.get("map_producer_ids", {}).items()},
            mapped_sources={
                name: {
                    source: tuple(number for first, end in ranges for number in range(first, end))
                    for source, ranges in sources.items()
                }
                for name, sources in fields.get("mapped_sources", {}).items()
            },
            format_version=fields["format_version"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DestinationForeignError(
            f"topic {STATE_TOPIC} holds a record that is not mirrorlake's"
            + ("" if offset is None else f", at offset {offset}"),
            hint="let no other producer write there. To get past it stop all mirrors that copy to this cluster, and "
            f"delete topic {STATE_TOPIC}: each mirror compares its copies, and writes its record anew",
        ) from error


def encode_state_batch(state: OwnerState, identity: ProducerIdentity, *, sequence: int) -> bytearray:
    """Returns the batch of a transaction that holds a state record; its time is when the mirror was taken."""
    record = RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.array([state.taken_at_ms], np.int64),
        timestamp_types=np.zeros(1, np.int8),
        keys=bytes_column([state.mirror.encode()]),
        values=bytes_column([encode_state(state)]),
        headers=no_headers(1),
    )
    return encode_batch(
        record,
        codec=Codec.NONE,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


async def read_states(client: ClusterClient) -> dict[str, OwnerState]:
    """Returns the last committed state record of every mirror at a cluster, by mirror. Makes the topic if needed.

    What is being written is waited for: EndTxn answers a moment before its marker can be read, and a record that is
    passed over is a mirror that seems to be nobody's. A transaction that is over by its coordinator's word, and whose
    marker never came (see ``session``), would be waited for for ever by everybody: it is ended.

    Raises:
        BrokerNotReadyError: a transaction is open; it ends by itself within seconds.
        DestinationForeignError: the topic holds what is not ours.
        MirrorlakeError: the topic can be neither read nor made.
    """
    if not await _is_there(client):  # who has it needs no right to create it
        await _create(client)
    try:
        return await _read_all(client, isolation_level=READ_UNCOMMITTED)
    except TopicMissingError:
        if await _is_there(client, refresh=True):
            raise
        await _create(client)
        return await _read_all(client, isolation_level=READ_UNCOMMITTED)
    except BrokerNotReadyError:
        if not await _end_forgotten(client):
            raise
        return await _read_all(client, isolation_level=READ_UNCOMMITTED)


async def find_states(client: ClusterClient) -> dict[str, OwnerState]:
    """Returns what ``read_states`` does, changing nothing and waiting for nothing: without the topic there are none.

    Raises:
        DestinationForeignError: the topic holds what is not ours.
        MirrorlakeError: the topic cannot be read.
    """
    if not await _is_there(client):
        return {}
    try:
        return await _read_all(client, isolation_level=READ_COMMITTED)
    except TopicMissingError:  # deleted since this client was told of it
        if await _is_there(client, refresh=True):
            raise
        return {}


async def _is_there(client: ClusterClient, *, refresh: bool = False) -> bool:
    return STATE_TOPIC in (await client.metadata([STATE_TOPIC], refresh=refresh)).topics


async def _create(client: ClusterClient) -> None:
    configs = {"cleanup.policy": "compact"}
    await client.topics.create(STATE_TOPIC, partitions=1, replication_factor=-1, configs=configs)


async def _read_all(client: ClusterClient, *, isolation_level: int) -> dict[str, OwnerState]:
    """Reads up to the end that ``isolation_level`` gives; what is read is committed, whatever the end."""
    start = await client.offset_at(STATE_PARTITION, EARLIEST, isolation_level=isolation_level)
    end = await client.offset_at(STATE_PARTITION, LATEST, isolation_level=isolation_level)
    states: dict[str, OwnerState] = {}
    offsets = OffsetRange(start_offset=start, end_offset=end)
    async for columns in read_range(client, STATE_PARTITION, offsets, whose="destination"):
        for offset, value in zip(columns.offsets.tolist(), columns.values.to_pylist(), strict=True):
            if value is not None:
                state = decode_state(value, offset=offset)
                states[state.mirror] = state
    return states


async def _end_forgotten(client: ClusterClient) -> bool:
    """Ends transactions of owners that are over, and are open all the same; tells whether there was one.

    The identity is the one the coordinator names, so that nobody is superseded by it. They end as the coordinator
    says they did; where it does not say, InitProducerId came after it, as committed: who began them had become the
    owner. An owner that writes at the same moment finds its record committed, or has to write again.
    """
    described = await client.describe_transactions(sorted({name for name, _ in await _open(client)}))
    # Asked after the coordinators: what they call over and is still open has no marker on its way.
    still_open = await _open(client)
    ended = False
    for name, found in described.items():
        if not isinstance(found, TransactionState) or found.state not in IS_OVER:
            continue
        if (name, found.producer_id) not in still_open:
            continue
        identity = ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
        committed = found.state != "CompleteAbort"
        session = TransactionSession(client, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
        session.adopt(identity)
        await session.close([STATE_PARTITION], committed=committed)
        ended = True
    return ended


async def _open(client: ClusterClient) -> set[tuple[str, int]]:
    """Returns transactional and producer ids of what is open; none where brokers cannot tell (before Kafka 2.8)."""
    state = (await client.append_states([STATE_PARTITION]))[STATE_PARTITION]
    if not isinstance(state, AppendState):
        return set()
    found: set[tuple[str, int]] = set()
    for producer in state.producers:
        if (start := producer.transaction_start_offset) is not None:
            undecided = OffsetRange(start_offset=start, end_offset=max(start, state.log_end.end_offset))
            records = await read_written_by(client, STATE_PARTITION, producer.producer_id, undecided)
            found |= {(transactional_id(key.decode()), producer.producer_id) for key, _ in records if key is not None}
    return found
