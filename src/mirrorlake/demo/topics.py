"""The four topics of the demo, and what each of them shows."""

from dataclasses import dataclass, field

from mirrorlake.kafka.records.codec import Codec

HOUR_MS = 3_600_000
TRANSACTION_RECORDS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShape:
    """A topic as it is made: ``configs`` are Kafka's own, ``batch_records`` and ``codecs`` its producers' habits."""

    name: str
    partitions: int
    batch_records: int
    codecs: tuple[Codec, ...]
    special: str
    configs: dict[str, str] = field(default_factory=dict)


ORDERS = TopicShape(
    name="orders",
    partitions=4,
    batch_records=250,
    codecs=(Codec.LZ4, Codec.ZSTD, Codec.LZ4, Codec.ZSTD, Codec.GZIP),
    special="gzip, lz4 and zstd in turn; repeated and null headers",
)
PAYMENTS = TopicShape(
    name="payments",
    partitions=2,
    batch_records=400,
    codecs=(Codec.SNAPPY, Codec.NONE),
    special="tombstones; snappy and uncompressed; binary headers",
)
CUSTOMERS = TopicShape(
    name="customers",
    partitions=2,
    batch_records=300,
    codecs=(Codec.ZSTD,),
    special="compacted: most offsets are gone",
    configs={
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        # What is older than an hour is compacted, once; what the demo adds later stays as it is.
        "min.compaction.lag.ms": str(HOUR_MS),
        # The first recent record begins a new segment: the broker never compacts the one it appends to.
        "segment.ms": str(24 * HOUR_MS),
    },
)
LEDGER = TopicShape(
    name="ledger",
    partitions=2,
    batch_records=TRANSACTION_RECORDS,
    codecs=(Codec.LZ4,),
    special="transactions, one in five aborted",
)
TOPICS = (ORDERS, PAYMENTS, CUSTOMERS, LEDGER)
