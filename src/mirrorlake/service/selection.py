"""What a command is about, and which pauses are in force. Pure."""

import json
from dataclasses import asdict, dataclass

from mirrorlake.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A mirror, one of its source topics where ``topic`` is given, or one partition of that where ``partition`` is."""

    mirror: str
    topic: str | None = None
    partition: int | None = None

    def __post_init__(self) -> None:
        assert self.topic is not None or self.partition is None, "a partition is one of a topic"

    def __str__(self) -> str:
        if self.topic is None:
            return self.mirror
        return f"{self.mirror}: {self.topic}" + ("" if self.partition is None else f"-{self.partition}")

    def includes(self, mirror: str, source: TopicPartition) -> bool:
        """Returns whether a source partition of a mirror is meant."""
        return (
            self.mirror == mirror and self.topic in (None, source.topic) and self.partition in (None, source.partition)
        )

    def covers(self, other: "Selection") -> bool:
        """Returns whether all that ``other`` means, now or later, is meant by this one."""
        return (
            self.mirror == other.mirror
            and self.topic in (None, other.topic)
            and self.partition in (None, other.partition)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Which partitions are to be paused, those included that are found later.

    ``rules`` are what was asked for, in that order: True for a pause, False for its end. Of those that speak of a
    partition the last one holds. A rule replaces the earlier ones that it covers, so there are never more rules than
    selections.
    """

    rules: tuple[tuple[Selection, bool], ...] = ()

    def with_rule(self, selection: Selection, *, is_paused: bool) -> "Pauses":
        """Returns the pauses once a selection is paused, or resumed. Idempotent."""
        kept = tuple(rule for rule in self.rules if not selection.covers(rule[0]))
        was_paused = next((paused for other, paused in reversed(kept) if other.covers(selection)), False)
        return Pauses(rules=kept if was_paused is is_paused else (*kept, (selection, is_paused)))

    def is_paused(self, mirror: str, source: TopicPartition) -> bool:
        """Returns whether a source partition of a mirror is to be paused."""
        return next((paused for rule, paused in reversed(self.rules) if rule.includes(mirror, source)), False)

    def as_text(self) -> str:
        """Returns the rules as one line of JSON."""
        return json.dumps([{**asdict(selection), "is_paused": paused} for selection, paused in self.rules])

    @staticmethod
    def of_text(text: str) -> "Pauses":
        """Returns the pauses of a text of `as_text`; none of an empty one.

        Raises:
            ValueError, TypeError, KeyError: it is no such text.
        """
        rules = [(rule.pop("is_paused"), rule) for rule in json.loads(text or "[]")]
        return Pauses(rules=tuple((Selection(**rule), bool(paused)) for paused, rule in rules))
