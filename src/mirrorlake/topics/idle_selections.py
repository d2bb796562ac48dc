"""Expressions of a configuration that select no topic: nothing is wrong with them, and nothing is copied for them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.config.resolved import Mirror
from mirrorlake.errors import TopicMissingError
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSelection:
    """Expressions of one mirror that match no topic which is not excluded."""

    mirror: Mirror
    patterns: tuple[str, ...]

    @property
    def message(self) -> str:
        """For people: what selects nothing, and where."""
        shown = ", ".join(f"/{pattern}/" for pattern in self.patterns)
        return (
            f"mirror {self.mirror.name}: {shown} selects no topic of {self.mirror.source.label} that "
            "its user may see, internal and excluded ones apart; topics made later are found while it runs"
        )

    def as_json(self) -> list[dict[str, str | int | float | None]]:
        """Returns a row per destination, for reports: the expression stands for the topic, and a ``note`` says so."""
        return [
            {
                "name": self.mirror.name,
                "topic": f"/{pattern}/",
                "partition": None,
                "destination": destination.label,
                "note": "selects no topic",
            }
            for pattern in self.patterns
            for destination in self.mirror.destinations
        ]


def idle_selections(mirrors: Iterable[Mirror], targets: Sequence[Target]) -> list[IdleSelection]:
    """Returns the expressions that select nothing. Pure.

    A mirror whose source could not be asked is left out: what it selects is not known.

    Args:
        mirrors: that were looked at.
        targets: what was found of them.
    """
    found = []
    for mirror in mirrors:
        own = [target for target in targets if target.mirror.name == mirror.name]
        if any(t.source.partition == UNKNOWN_PARTITION and not isinstance(t.error, TopicMissingError) for t in own):
            continue
        topics = {target.source.topic for target in own}
        idle = tuple(p for p in mirror.source.topics.patterns if not any(re.fullmatch(p, topic) for topic in topics))
        if idle:
            found.append(IdleSelection(mirror=mirror, patterns=idle))
    return found
