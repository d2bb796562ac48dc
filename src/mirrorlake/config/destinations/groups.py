"""Consumer groups whose committed offsets are kept at a destination."""

from dataclasses import dataclass

from mirrorlake.config.topics.selection import NameSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Whose committed offsets are kept at a destination, and how often they are looked at."""

    selection: NameSelection
    interval_seconds: float
