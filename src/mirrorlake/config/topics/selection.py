"""Names by which topics and groups are selected."""

import re
from dataclasses import dataclass

from mirrorlake.own_topics import is_own_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSelection:
    """Names, and expressions that match a whole name; exclusion wins."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()

    def selects(self, name: str) -> bool:
        """Tells whether a name is selected."""
        if self.excludes(name):
            return False
        return name in self.names or any(re.fullmatch(pattern, name) for pattern in self.patterns)

    def excludes(self, name: str) -> bool:
        """Tells whether a name is excluded, by itself or by a pattern."""
        return name in self.excluded_names or any(re.fullmatch(p, name) for p in self.excluded_patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection(NameSelection):
    """Which topics of the source a mirror copies.

    ``heartbeats`` is the topic that the mirror's own heartbeats lie in, empty where it has none. It is copied wherever
    it is there, and nobody misses it where it is not.
    """

    heartbeats: str = ""

    @property
    def known_names(self) -> tuple[str, ...]:
        """Returns all topics whose names the file says, each once."""
        is_more = self.heartbeats and self.heartbeats not in self.names
        return (*self.names, self.heartbeats) if is_more else self.names

    @property
    def needs_discovery(self) -> bool:
        """Tells whether the cluster must be asked for its topics to know the selection."""
        return bool(self.patterns)

    def selects(self, name: str) -> bool:
        """Tells whether a topic is selected; internal topics (``__…``) and our own never are."""
        if name.startswith("__") or is_own_topic(name):
            return False
        return name == self.heartbeats != "" or NameSelection.selects(self, name)
