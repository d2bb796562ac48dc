"""What crosses the border between driver and task: the plan of a lease, and the rows it returns. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.destinations.interface import ProducerHandOff, PublishedSegment
from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX
from mirrorlake.mirror.pace import PaceOrder
from mirrorlake.moments import Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import SourceWork
from mirrorlake.travelling import travelling


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """One source partition in one lease, with every destination that has something to do.

    ``source_work`` says where it is read. ``topic_id`` is the id the source topic must have;
    empty where the source knows none. ``end_offset`` (exclusive) is where a bounded run stops; None means
    live, until the lease ends. ``marks`` say, for each destination, how far the source was read for it before; None or
    missing where that is not known.
    """

    mirror: str
    source_work: SourceWork
    source: TopicPartition
    topic_id: str
    end_offset: int | None
    destinations: tuple[DestinationWork, ...]
    marks: tuple[SourceMark | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlan:
    """What one lease copies.

    A worker that gets it after ``begins_by`` does nothing: all other times count from the begin, and the driver tells
    the next owner of a mirror, and the next lease, until when this one may write.

    Live destinations are served for ``live_seconds``; archive destinations until what is due is published. Nothing is
    sent to Kafka after ``send_seconds``. At ``hard_seconds``, which may be much later for a snapshot, everything still
    open is abandoned, its outcome unknown.

    The live time ends earlier when the file ``recall_file`` appears (empty: none will), and, from ``unbroken_seconds``
    on, when a partition has ended, for whatever reason: it must not wait long for its next lease. Meanwhile the lease
    tells its progress in ``progress_file`` (empty: nowhere). All its ends come later where ``renewal_file`` allows it
    (empty: never) and everything is as the lease has left it.
    ``largest_batch_bytes`` is what one record batch may decompress to. ``paces`` say how fast the mirrors with a limit
    are read.
    """

    lease: int
    lane: int
    live_seconds: float
    unbroken_seconds: float
    send_seconds: float
    hard_seconds: float
    memory_bytes_max: int
    partitions: tuple[PartitionWork, ...]
    begins_by: Moment
    recall_file: str = ""
    progress_file: str = ""
    renewal_file: str = ""
    largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX
    paces: Mapping[str, PaceOrder] = field(default_factory=dict)


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """What one lease did for one destination of one source partition.

    ``position`` is what is safe at the destination (exclusive), None where it could not be read. ``source_end``
    is the source's last stable offset and ``source_start`` its log start, as last seen, None where not read.
    ``ended_at`` is where what is to be read of it ends, None where no lease has come to that.
    ``batches`` counts by ``path:reason``; ``gap_offsets`` by kind; ``dead_letters``, those that are safe, by
    ``side:reason``; ``latencies`` counts batches by the upper bound of their age in seconds. ``live_bytes`` and
    ``cut_bytes`` are what was read of the partition for live destinations, and for segments with or without them, in
    the row of the first destination. ``debt_bytes`` is what live copies of a mirror with a limit owe when the lease
    ends, the same in each of its rows, None without a limit. ``hand_off`` is for the shard's next lease, ``mark`` and
    ``size_limit`` for the destination's. ``held_until_ms`` is how new the copy's records were when it was opened, see
    `Progress`.
    """

    mirror: str
    source: TopicPartition
    destination: str
    start_offset: int
    position: int | None
    source_start: int | None
    source_end: int | None
    ended_at: int | None = None
    records: int = 0
    raw_bytes: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)
    gap_offsets: Mapping[str, int] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    flushes: tuple[PublishedSegment, ...] = ()
    latencies: Mapping[float, int] = field(default_factory=dict)
    latency_seconds_sum: float = 0.0
    hand_off: ProducerHandOff | None = None
    mark: SourceMark | None = None
    size_limit: SizeLimit | None = None
    held_until_ms: int | None = None
    live_bytes: int = 0
    cut_bytes: int = 0
    debt_bytes: float | None = None
    error: MirrorlakeError | None = None
