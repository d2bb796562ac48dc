"""What is known of a cluster's topics between two requests for metadata."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirrorlake.kafka.control.descriptions import ClusterMetadata

_NOTHING = ClusterMetadata(cluster_id=None, controller_id=-1, brokers={}, topics={})


class MetadataCache:
    """Merges answers about some topics into what is known of all. Pure; no connection, no clock."""

    def __init__(self) -> None:
        self._known = _NOTHING
        self._is_whole = False

    @property
    def known(self) -> ClusterMetadata:
        """All that is known; empty before the first answer."""
        return self._known

    def merge(self, answer: ClusterMetadata, asked: Sequence[str] | None) -> None:
        """Takes an answer in: it replaces what was known of the topics asked for (None: of all)."""
        if asked is None:
            self._known = answer
            self._is_whole = True
            return
        gone = set(asked)
        topics = {name: topic for name, topic in self._known.topics.items() if name not in gone}
        errors = {name: error for name, error in self._known.errors.items() if name not in gone}
        self._known = replace(answer, topics=topics | dict(answer.topics), errors=errors | dict(answer.errors))

    def cached(self, topics: Sequence[str] | None) -> ClusterMetadata | None:
        """Returns what is known of the topics asked for (None: of all), or None where that is not all there.

        A topic that was missing is asked for again each time: it may have been created since.
        """
        if topics is None:
            return self._known if self._is_whole else None
        if not self._known.brokers:
            return None
        return self.narrow(topics) if all(name in self._known.topics for name in topics) else None

    def narrow(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Returns what is known, without any other topic than those named (None: all), in the order they are named."""
        if topics is None:
            return self._known
        known, errors = self._known.topics, self._known.errors
        # By name, as most who ask want one topic of thousands.
        names = dict.fromkeys(topics)
        return replace(
            self._known,
            topics={name: known[name] for name in names if name in known},
            errors={name: errors[name] for name in names if name in errors},
        )

    def forget(self, topic: str) -> None:
        """Forgets a topic that was deleted."""
        topics = {name: known for name, known in self._known.topics.items() if name != topic}
        self._known = replace(self._known, topics=topics)
