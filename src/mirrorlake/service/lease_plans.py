"""From the partitions of a lease to its plan: how long it lives, and what each destination is told. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mirrorlake.destinations.orders import Orders
from mirrorlake.mirror.due import Due
from mirrorlake.mirror.pace import PaceOrder
from mirrorlake.mirror.starvation import LEASE_WAS_SHORT
from mirrorlake.mirror.work import LeasePlan, PartitionWork
from mirrorlake.moments import CLOCK_DIFFERENCE_SECONDS_MAX, Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.choosing import Chosen
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.sources.source import SourceWork

HARD_END_SECONDS = 0.5
"""After a lease's live time: what is outstanding then is unknown."""

ARCHIVE_PATIENCE_SECONDS = 30.0
ARCHIVE_BYTES_PER_SECOND_MIN = 5e6
"""A segment may take this long, and this slowly, before its lease gives up; a store that hangs costs one lane."""

BEGIN_SECONDS_MAX = 2.0
"""From the driver to the worker, which does nothing with a lease that took longer: a task may wait in Spark's queue
for an executor, and in a JVM that stands still, for as long as it likes. Longer, and live for less, in a lane whose
leases came late (`leases/begin_times.py`)."""

LONG_LEASE_FACTOR = 4.0
"""A lease that can be recalled is so many times as long: each costs the driver as much CPU as 60 MB do, and interrupts
what it copies for some ten milliseconds."""

NOT_IN_THIS_LEASE_SECONDS = 3600.0
"""Longer than any lease."""

NAMED_TOPICS_MAX = 3
"""Topics of a mirror that the description of a lease names."""

DESCRIPTION_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLimits:
    """What every lease keeps to.

    ``lease_seconds`` is how long a live lease runs; up to `lease_seconds_max` where it can be recalled.
    ``memory_bytes_max`` bounds the receive buffers of one lease, ``largest_batch_bytes`` what one record batch may
    decompress to.
    """

    lease_seconds: float
    memory_bytes_max: int
    largest_batch_bytes: int


def seconds_until_over(seconds: float, *, begin_seconds: float = BEGIN_SECONDS_MAX) -> float:
    """Returns when a lease has ended that may run for ``seconds``, in seconds from the making of its plan.

    Args:
        seconds: counted from when it begins.
        begin_seconds: within so many it begins, or does nothing.
    """
    return seconds + begin_seconds + CLOCK_DIFFERENCE_SECONDS_MAX


def send_seconds_max(live_seconds: float, segment_bytes: int | None) -> float:
    """Returns how long a lease may send to Kafka: ``live_seconds``, and time for a segment of so many bytes.

    One read may serve a segment and a Kafka destination; a snapshot is read for alone.
    """
    seconds = live_seconds + HARD_END_SECONDS
    if segment_bytes is not None:
        seconds += ARCHIVE_PATIENCE_SECONDS + segment_bytes / ARCHIVE_BYTES_PER_SECOND_MIN
    return seconds


def lease_seconds_max(lease_seconds: float) -> float:
    """Returns how long a lease may be live where the usual one is ``lease_seconds``."""
    return LONG_LEASE_FACTOR * lease_seconds


def live_seconds_of(chosen: Sequence[Chosen], *, lease_seconds: float) -> float:
    """Returns how long a lease that can be recalled is live: longer where it copies to Kafka only.

    Not where a partition has failed, or was not copied yet: what becomes of it is known when its lease ends. But where
    a lease was over before all was answered the next one is longer, or over a long way none would ever do.
    """
    is_plain = all(state.is_live and _takes_long(state) for state, _ in chosen)
    return lease_seconds_max(lease_seconds) if is_plain else lease_seconds


def _takes_long(state: PartitionState) -> bool:
    if state.error is not None and state.error.facts.get(LEASE_WAS_SHORT) is True:
        return True
    return not state.failures and state.lag is not None


def plan_of(
    chosen: Sequence[Chosen],
    *,
    lease: int,
    lane: int,
    live_seconds: float,
    limits: LeaseLimits,
    sources: Mapping[str, SourceWork],
    orders: Callable[[PartitionState, Due | None], Orders],
    begins_by: Moment,
    recall_file: str,
    progress_file: str,
    renewal_file: str = "",
    paces: Mapping[str, PaceOrder] = MappingProxyType({}),
) -> LeasePlan:
    """Returns the plan of a lease.

    Args:
        chosen: what it serves; the destinations of one source partition are read for together.
        lease: its number.
        lane: which lane runs it.
        live_seconds: how long it serves live destinations.
        limits: what every lease keeps to.
        sources: where to read, by mirror.
        orders: what only this lease needs to know of a partition.
        begins_by: when it must have begun, or does nothing.
        recall_file: whose appearance ends its live time; empty where none can.
        progress_file: where it tells how far it is; empty where nobody could read it.
        renewal_file: where it finds until when it may go on; empty where it never may.
        paces: how fast mirrors with a limit are read.
    """
    by_source: dict[tuple[str, TopicPartition], list[Chosen]] = defaultdict(list)
    segment_bytes: int | None = None
    seconds_past_sends = 0.0
    for state, due in chosen:
        by_source[state.mirror, state.source].append((state, due))
        seconds_past_sends = max(seconds_past_sends, state.work.seconds_past_sends)
        if state.rule is not None and not state.work.has_view:
            segment_bytes = max(segment_bytes or 0, state.rule.bytes_max)
    send_seconds = send_seconds_max(live_seconds, segment_bytes)
    return LeasePlan(
        lease=lease,
        lane=lane,
        live_seconds=live_seconds,
        unbroken_seconds=limits.lease_seconds,
        send_seconds=send_seconds,
        hard_seconds=send_seconds + seconds_past_sends,
        memory_bytes_max=limits.memory_bytes_max,
        largest_batch_bytes=limits.largest_batch_bytes,
        partitions=tuple(
            PartitionWork(
                mirror=mirror,
                source_work=sources[mirror],
                source=source,
                topic_id=group[0][0].topic_id,
                end_offset=group[0][0].read_end,
                destinations=tuple(state.work.with_orders(orders(state, due)) for state, due in group),
                marks=tuple(state.source_mark for state, _ in group),
            )
            for (mirror, source), group in by_source.items()
        ),
        begins_by=begins_by,
        recall_file=recall_file,
        progress_file=progress_file,
        renewal_file=renewal_file,
        paces={**paces},
    )


def orders_of(state: PartitionState, due: Due | None) -> Orders:
    """Returns what only the state's next lease needs to know, but for who owns the mirror."""
    orders = Orders(
        last_position=state.position,
        size_limit=state.size_limit,
        needs_tail_check=state.needs_tail_check,
        hand_off=state.hand_off,
        known_tail=state.tail,
        claim_looks=state.claim_looks,
    )
    if due is None:
        return orders
    is_bounded = due.end_offset is not None
    end = due.end_offset if due.end_offset is not None else state.source_end or 0
    return replace(orders, read_end_offset=end, flushes_rest=is_bounded, rest_trigger=due.trigger.value)


def with_owner(orders: Orders, state: PartitionState, holding: Holding, *, now_seconds: float) -> Orders:
    """Returns the orders with what this process holds of the shard at the destination.

    Args:
        orders: without it.
        state: of the partition.
        holding: what is held.
        now_seconds: reading of the driver's clock.
    """
    fills_from = max(holding.fills_from_seconds, state.unknown_until_seconds)
    return replace(
        orders,
        own_producer_ids=holding.own_producer_ids,
        # Bounded, for a mirror that is not owned: in no lease is a gap filled then.
        fill_wait_seconds=min(max(0.0, fills_from - now_seconds), NOT_IN_THIS_LEASE_SECONDS),
        not_owner_because=str(holding.refusal or ""),
    )


def description_of(plan: LeasePlan, lane: int) -> str:
    """Returns what people read in logs and on Spark's page: which lease, and of each mirror the topics."""
    topics: dict[str, dict[str, None]] = defaultdict(dict)
    for work in plan.partitions:
        topics[work.mirror].setdefault(work.source.topic)
    mirrors = "; ".join(f"{mirror}: {_named(list(each))}" for mirror, each in topics.items())
    count = len(plan.partitions)
    text = f"lease {plan.lease} of lane {lane}, {count} partition{'' if count == 1 else 's'}: {mirrors}"
    return text if len(text) <= DESCRIPTION_CHARACTERS_MAX else text[: DESCRIPTION_CHARACTERS_MAX - 1] + "…"


def _named(topics: list[str]) -> str:
    more = len(topics) - NAMED_TOPICS_MAX
    return ", ".join(topics[:NAMED_TOPICS_MAX]) + (f" and {more} more" if more > 0 else "")
