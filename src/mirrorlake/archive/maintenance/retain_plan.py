"""Which segments retention takes: a pure function of looks at a topic's folders, the rules, and the time.

From the old end of each partition only, and never the newest segment, which is the position.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.look import FolderLook


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainRules:
    """What stays: records younger than ``age_seconds_max``, and the newest ``bytes_max`` of a topic's segments.

    None is no bound; both are those of one topic, all of its partitions together.

    Raises:
        ValueError: neither is given, or one is not above zero.
    """

    age_seconds_max: float | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        given = [bound for bound in (self.age_seconds_max, self.bytes_max) if bound is not None]
        if not given or min(given) <= 0:
            raise ValueError("retention needs a bound above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What goes of one partition: every segment below ``floor``; nothing where that is the floor it has.

    ``reason`` says why not more.
    """

    floor: int
    segments: tuple[Segment, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFrom:
    """The offset that no floor of a partition may pass, and the hold that says so."""

    offset: int
    label: str


TimeOf = Callable[[int, Segment], float | None]
"""Returns when the newest record of a segment of a partition was made, in Unix seconds; None where nobody knows."""


def plan_retention(
    looks: Mapping[int, FolderLook],
    rules: RetainRules,
    *,
    now_seconds: float,
    time_of: TimeOf,
    held: Mapping[int, HeldFrom] = MappingProxyType({}),
) -> dict[int, Cut]:
    """Returns what goes, by partition.

    Age first: from the oldest segment on, each whose newest record is older than the bound, up to the first that is
    not. Then bytes: while the topic holds more than the bound, the partition whose oldest segment is the oldest of all
    gives that. What a merger has announced stays until it is done, and what is held stays: no other partition gives
    more in its place, so a topic may hold more than the bound.

    Args:
        looks: the folders of one topic, by partition.
        rules: what stays.
        now_seconds: the wall clock, in Unix seconds.
        time_of: asked for as few segments as possible.
        held: by partition, where it is held from; see `Holds.held_from`.
    """
    taken = dict.fromkeys(looks, 0)
    _take_old(looks, taken, rules, now_seconds, time_of)
    if rules.bytes_max is not None:
        _take_beyond(looks, taken, rules.bytes_max, time_of)
        # Behind a young segment that went may lie old ones: else the next run would find more to take.
        _take_old(looks, taken, rules, now_seconds, time_of)
    return {p: _cut(look, taken[p], now_seconds, held.get(p)) for p, look in looks.items()}


def allowed_floor(look: FolderLook, floor: int, *, now_seconds: float, held: HeldFrom | None = None) -> int:
    """Returns the highest floor up to ``floor`` that a look allows: the end of a segment, never of the newest.

    It lies in no range that a merger has announced: its output would reach below the floor, which no reader minds, but
    which brings back what was retired. And it is not above ``held``.
    """
    if held is not None:
        floor = min(floor, held.offset)
    live = [name.offsets for name, _ in look.live_merges(now_seconds)]
    ends = (each.name.end_offset for each in look.chain[:-1])
    allowed = (
        end for end in ends if end <= floor and not any(span.start_offset < end < span.end_offset for span in live)
    )
    return max(allowed, default=look.floor)


def _take_old(
    looks: Mapping[int, FolderLook], taken: dict[int, int], rules: RetainRules, now_seconds: float, time_of: TimeOf
) -> None:
    if rules.age_seconds_max is None:
        return
    oldest_allowed = now_seconds - rules.age_seconds_max
    for partition, look in looks.items():
        for segment in look.chain[taken[partition] : -1]:
            time = time_of(partition, segment)
            if time is None or time >= oldest_allowed:
                break
            taken[partition] += 1


def _take_beyond(looks: Mapping[int, FolderLook], taken: dict[int, int], bytes_max: int, time_of: TimeOf) -> None:
    left = sum(each.size_bytes for p, look in looks.items() for each in look.chain[taken[p] :])
    oldest: list[tuple[float, int]] = []

    def offer(partition: int) -> None:
        chain, index = looks[partition].chain, taken[partition]
        if index < len(chain) - 1:
            # Of unknown age: as if it were the oldest, as it lies at the old end.
            heapq.heappush(oldest, (time_of(partition, chain[index]) or 0.0, partition))

    if left > bytes_max:
        for partition in looks:
            offer(partition)
    while left > bytes_max and oldest:
        _, partition = heapq.heappop(oldest)
        left -= looks[partition].chain[taken[partition]].size_bytes
        taken[partition] += 1
        offer(partition)


def _cut(look: FolderLook, count: int, now_seconds: float, held: HeldFrom | None) -> Cut:
    if not look.chain:
        return Cut(floor=look.floor, reason="there is no segment")
    if not count:
        only = "there is nothing but the newest segment" if len(look.chain) == 1 else "nothing is beyond the bounds"
        return Cut(floor=look.floor, reason=only)
    wanted = look.chain[count - 1].name.end_offset
    floor = allowed_floor(look, wanted, now_seconds=now_seconds, held=held)
    segments = tuple(each for each in look.chain[:count] if each.name.end_offset <= floor)
    reason = "" if floor == wanted else "a merge is under way behind it"
    if held is not None and held.offset < wanted:
        reason = f"held by {held.label} from offset {max(held.offset, look.floor)} on"
    return Cut(floor=floor, segments=segments, reason=reason)
