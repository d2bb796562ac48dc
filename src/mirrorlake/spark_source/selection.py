"""What a query can want at most, told by its filters, and which files and ranges can hold none of it. Pure.

A selection never leaves out a record that passes the filters; Spark looks at every row once more.
"""

from dataclasses import dataclass, field, replace

from mirrorlake.offsets import OffsetRange

_MICROSECONDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers a column may have: from ``low`` to ``high``, both inclusive, None for no bound, and only ``among``.

    A row whose number is not known passes no filter, and so none of these.
    """

    low: int | None = None
    high: int | None = None
    among: frozenset[int] | None = None

    def at_least(self, low: int) -> "Numbers":
        """Returns those that are ``low`` or more."""
        return replace(self, low=low if self.low is None else max(low, self.low))

    def at_most(self, high: int) -> "Numbers":
        """Returns those that are ``high`` or less."""
        return replace(self, high=high if self.high is None else min(high, self.high))

    def one_of(self, values: frozenset[int]) -> "Numbers":
        """Returns those that are one of ``values``."""
        return replace(self, among=values if self.among is None else self.among & values)

    def meets(self, low: int, high: int) -> bool:
        """Tells whether one of them may lie between two numbers, both inclusive."""
        low = low if self.low is None else max(low, self.low)
        high = high if self.high is None else min(high, self.high)
        return low <= high and (self.among is None or any(low <= each <= high for each in self.among))

    def hull(self) -> tuple[int | None, int | None]:
        """Returns the lowest and the highest of them, None where there is no bound; crossed where there is none."""
        low, high = self.low, self.high
        if self.among is not None:
            within = [each for each in self.among if self.meets(each, each)]
            low, high = (min(within), max(within)) if within else (1, 0)
        return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What may be wanted. ``topics`` None is every topic; ``times`` are microseconds since 1970, as Spark has them."""

    topics: frozenset[str] | None = None
    partitions: Numbers = field(default_factory=Numbers)
    offsets: Numbers = field(default_factory=Numbers)
    times: Numbers = field(default_factory=Numbers)

    def of_topics(self, names: frozenset[str]) -> "Selection":
        """Returns what of it is of these topics."""
        return replace(self, topics=names if self.topics is None else self.topics & names)

    def may_hold_partition(self, topic: str, partition: int) -> bool:
        """Tells whether anything of a partition may be wanted."""
        return (self.topics is None or topic in self.topics) and self.partitions.meets(partition, partition)

    def within(self, offsets: OffsetRange) -> OffsetRange | None:
        """Returns what of a range may be wanted, as one range; None where nothing is."""
        if not offsets or not self.offsets.meets(offsets.start_offset, offsets.end_offset - 1):
            return None
        low, high = self.offsets.at_least(offsets.start_offset).at_most(offsets.end_offset - 1).hull()
        assert low is not None
        assert high is not None
        return OffsetRange(start_offset=low, end_offset=high + 1)

    def may_hold_times(self, low_ms: int | None, high_ms: int | None) -> bool:
        """Tells whether records may be wanted whose times lie between two milliseconds, inclusive; None: unknown."""
        if self.times == Numbers():
            return True
        low = -(2**63) if low_ms is None else low_ms * _MICROSECONDS
        high = 2**63 if high_ms is None else high_ms * _MICROSECONDS
        return self.times.meets(low, high)

    @property
    def earliest_ms(self) -> int | None:
        """The first millisecond that may be wanted; None where there is no such bound."""
        low, _ = self.times.hull()
        return None if low is None else -(-low // _MICROSECONDS)


ALL = Selection()
