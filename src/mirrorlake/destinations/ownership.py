"""Who owns a mirror at a Kafka cluster: the newest process that asked.

The owner calls InitProducerId on the mirror's own transactional id, which raises that id's epoch, and writes a
state record in a transaction of that epoch. Whoever held the mirror before sees an epoch that is not its own and
ends. The data needs no such protection (see ``kafka_preserve``); this ends the older process instead of letting
two of them race for ever.

Renewing costs no write: DescribeTransactions tells the current epoch of all mirrors of a coordinator at once.

State records live in one compacted topic per destination cluster, one record per mirror, key the mirror's name,
value a JSON object (``OwnerState``). Among other things they remember every producer id the mirror's shards ever
wrote under: a transactional id that saw no transaction for ``transactional.id.expiration.ms`` (7 days) stands for
another producer id from then on, and its partitions still know the one before.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pyarrow as pa

from mirrorlake.clock import Clock
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, PositionMovedError, SupersededError
from mirrorlake.kafka.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.batches import Codec
from mirrorlake.kafka.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.codec import HEADERS_TYPE, RecordColumns, encode_batch
from mirrorlake.kafka.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.error_codes import INVALID_PRODUCER_ID_MAPPING, error_for
from mirrorlake.kafka.fetch import READ_COMMITTED, READ_UNCOMMITTED
from mirrorlake.kafka.produce import decode_produce, encode_produce
from mirrorlake.kafka.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition

STATE_TOPIC = "mirrorlake.state"
STATE_PARTITION = TopicPartition(STATE_TOPIC, 0)
STATE_FORMAT = 2
"""2 added producer ids, destinations, generations and the hold; records of format 1 are read as knowing none."""

TRANSACTION_TIMEOUT_MS = 10_000
"""Short: a state transaction left open holds up whoever reads the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerState:
    """What a state record says of a mirror.

    ``topic_ids`` are the source's topic ids by topic, as last seen by an owner. ``taken_at_ms`` is the owner's
    wall clock. ``shards`` is the number of writer identities, fixed for the mirror's life.

    ``producer_ids`` are all those each shard's transactional id ever stood for, by shard. ``destinations`` are the
    source topics by destination topic. ``generations`` says, for each destination topic as configured, where the
    records of a source topic that was made again go: destination topic by source topic id. ``hold_seconds`` is how
    long after somebody else took the mirror over this owner's leases may still append, None where a record does not
    say; ``is_released`` is True once it ended gracefully and nothing of it is under way.
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
    is_released: bool = False
    format_version: int = STATE_FORMAT


def transactional_id(mirror: str) -> str:
    """Returns the mirror's own transactional id; no shard's can be equal, theirs end in a number."""
    return f"mirrorlake.{mirror}.owner"


def encode_state(state: OwnerState) -> bytes:
    """Returns the value of a state record."""
    return json.dumps(asdict(state), sort_keys=True).encode()


def decode_state(value: bytes) -> OwnerState:
    """Returns what ``encode_state`` wrote.

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
            is_released=fields.get("is_released", False),
            format_version=fields["format_version"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DestinationForeignError(
            f"topic {STATE_TOPIC} holds a record that is not mirrorlake's: {error}",
            hint=f"nobody else may write to {STATE_TOPIC}",
        ) from error


async def read_states(client: ClusterClient) -> dict[str, OwnerState]:
    """Returns the last committed state record of every mirror at a cluster, by mirror. Makes the topic if needed.

    What is being written is waited for: EndTxn answers a moment before its marker can be read, and a record that is
    passed over is a mirror that seems to be nobody's.

    Raises:
        BrokerNotReadyError: a transaction stands open; it ends by itself within seconds.
        DestinationForeignError: the topic holds what is not ours.
        MirrorlakeError: the topic can be neither read nor made.
    """
    if STATE_TOPIC not in (await client.metadata([STATE_TOPIC])).topics:  # who has it needs no right to create it
        configs = {"cleanup.policy": "compact"}
        await client.create_topic(STATE_TOPIC, partitions=1, replication_factor=-1, configs=configs)
    return await _read_all(client, isolation_level=READ_UNCOMMITTED)


async def find_states(client: ClusterClient) -> dict[str, OwnerState]:
    """Returns what ``read_states`` does, changing nothing and waiting for nothing: without the topic there are none.

    Raises:
        DestinationForeignError: the topic holds what is not ours.
        MirrorlakeError: the topic cannot be read.
    """
    if STATE_TOPIC not in (await client.metadata([STATE_TOPIC])).topics:
        return {}
    return await _read_all(client, isolation_level=READ_COMMITTED)


async def _read_all(client: ClusterClient, *, isolation_level: int) -> dict[str, OwnerState]:
    """Reads up to the end that ``isolation_level`` gives; what is read is committed, whatever the end."""
    bounds = []
    for timestamp in (EARLIEST, LATEST):
        asked = await client.list_offsets([STATE_PARTITION], timestamp=timestamp, isolation_level=isolation_level)
        found = asked[STATE_PARTITION]
        if isinstance(found, MirrorlakeError):
            raise found
        bounds.append(found)
    states: dict[str, OwnerState] = {}
    offsets = OffsetRange(start_offset=bounds[0], end_offset=bounds[1])
    async for columns in read_range(client, STATE_PARTITION, offsets):
        for value in columns.values.to_pylist():
            if value is not None:
                state = decode_state(value)
                states[state.mirror] = state
    return states


class Ownership:
    """One mirror's ownership at one destination cluster.

    Args:
        client: of the destination cluster.
        mirror: the mirror's name.
        owner: how this process calls itself, for the one that is superseded.
        clock: dates the state record.
    """

    def __init__(self, client: ClusterClient, *, mirror: str, owner: str, clock: Clock) -> None:
        self._client = client
        self._mirror = mirror
        self._owner = owner
        self._clock = clock
        self._identity: ProducerIdentity | None = None
        self._state: OwnerState | None = None
        self._next_sequence = 0
        self._is_settled = True

    @property
    def mirror(self) -> str:
        """The mirror's name."""
        return self._mirror

    @property
    def is_held(self) -> bool:
        """True from a successful ``take`` on, until superseded."""
        return self._identity is not None

    @property
    def state(self) -> OwnerState | None:
        """What this process wrote last; None where nothing was, or where that is not known to have happened."""
        return self._state

    async def take(self, state: OwnerState) -> OwnerState:
        """Becomes the owner and writes the state record, with owner and time filled in; returns what it wrote.

        Order of effects: InitProducerId (the owner before is superseded from here on), AddPartitionsToTxn, the
        record, EndTxn. A crash in between leaves a transaction that ends by itself after ten seconds.

        Raises:
            SupersededError: another process took it over while this one was writing.
            MirrorlakeError: the cluster could not do it; nothing is owned.
        """
        name = transactional_id(self._mirror)
        identity = await self._client.init_producer_id(name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._next_sequence = 0
        written = await self._write(name, identity, state)
        self._identity = identity
        return written

    async def update(self, state: OwnerState) -> OwnerState:
        """Writes the record anew, as the owner this process is; returns what it wrote.

        After an error nothing is known of the record before: the next update begins with InitProducerId.

        Raises:
            SupersededError: another process took the mirror over.
            MirrorlakeError: the cluster could not do it; ask again.
        """
        if self._identity is None or not self._is_settled:
            return await self.take(state)
        return await self._write(transactional_id(self._mirror), self._identity, state)

    async def _write(self, name: str, identity: ProducerIdentity, state: OwnerState) -> OwnerState:
        now_ms = int(self._clock.now_seconds() * 1000)
        state = replace(state, mirror=self._mirror, owner=self._owner, taken_at_ms=now_ms, format_version=STATE_FORMAT)
        self._is_settled = False
        try:
            added = await self._client.add_partitions_to_transaction(name, identity, [STATE_PARTITION])
            if (error := added[STATE_PARTITION]) is not None:
                raise error
            await self._append(name, identity, state)
            await self._client.end_transaction(name, identity, committed=True)
        except PositionMovedError as fenced:
            self._identity = None
            raise self._superseded() from fenced
        self._is_settled = True
        self._next_sequence += 1
        self._state = state
        return state

    async def _append(self, name: str, identity: ProducerIdentity, state: OwnerState) -> None:
        batch = encode_batch(
            _record(self._mirror.encode(), encode_state(state), state.taken_at_ms),
            codec=Codec.NONE,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self._next_sequence,
            is_transactional=True,
        )
        led = (await self._client.metadata([STATE_TOPIC])).partition(STATE_PARTITION)
        connection = await self._client.connection(led.leader if led else -1)
        timeout = self._client.settings.request_timeout_seconds
        body = encode_produce([(STATE_TOPIC, 0, batch)], timeout_ms=int(timeout * 1000), transactional_id=name)
        with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=timeout) as frame:
            (answer,) = decode_produce(frame.view)
        if answer.error_code:
            raise error_for(answer.error_code, what=f"append to {STATE_TOPIC}", topic=STATE_TOPIC)

    def check(self, found: TransactionState | MirrorlakeError | None) -> None:
        """Compares what the coordinator says of the mirror's transactional id with what this process holds.

        Where the coordinator has forgotten the id (it expires after a week without a write) or could not be
        asked, nothing is concluded; the next update then takes the mirror anew.

        Raises:
            SupersededError: the epoch is not ours any more.
        """
        if found is None:
            self._is_settled = False
        if self._identity is None or not isinstance(found, TransactionState):
            return
        theirs = (found.producer_id, found.producer_epoch)
        if theirs != (self._identity.producer_id, self._identity.producer_epoch):
            self._identity = None
            raise self._superseded()

    async def prove(self) -> None:
        """Does what ``check`` does where the cluster has no DescribeTransactions (before Kafka 3.0).

        The commit of the last state record is asked for once more, see `ClusterClient.has_ended`.

        Raises:
            SupersededError: the epoch is not ours any more.
            MirrorlakeError: the coordinator could not be asked; nothing is concluded.
        """
        if self._identity is None or not self._is_settled:
            return
        try:
            await self._client.has_ended(transactional_id(self._mirror), self._identity, committed=True)
        except PositionMovedError as refused:
            if refused.facts.get("code") == INVALID_PRODUCER_ID_MAPPING:  # forgotten, as in ``check``
                self._is_settled = False
                return
            self._identity = None
            raise self._superseded() from refused

    def _superseded(self) -> SupersededError:
        return SupersededError(
            f"mirror {self._mirror} was taken over by another process at cluster {self._client.settings.name}",
            hint=f"run one process per mirror; the newest record of {self._mirror} in {STATE_TOPIC} names the owner",
            mirror=self._mirror,
        )


def _record(key: bytes, value: bytes, timestamp_ms: int) -> RecordColumns:
    return RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.array([timestamp_ms], np.int64),
        timestamp_types=np.zeros(1, np.int8),
        keys=pa.array([key], pa.large_binary()),
        values=pa.array([value], pa.large_binary()),
        headers=pa.array([[]], HEADERS_TYPE),
    )
