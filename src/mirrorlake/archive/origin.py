"""Whose records a segment, or a claim, is about: one source partition, and no other may go on behind it."""

from dataclasses import dataclass, replace
from typing import Self

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.errors import OtherSourceError, TopicRecreatedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose records a segment holds; the same in all segments of a partition.

    ``topic_id`` None and ``cluster_id`` empty are not known, as some brokers know neither.
    """

    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int

    @classmethod
    def of(cls, footer: SegmentFooter) -> Self:
        """Returns what a segment says."""
        return cls(
            cluster_id=footer.envelope.cluster_id,
            topic=footer.envelope.topic,
            topic_id=footer.envelope.topic_id,
            partition=footer.envelope.partition,
        )

    def __str__(self) -> str:
        cluster, topic_id = self.cluster_id or "not known", self.topic_id or "not known"
        return f"{self.topic}-{self.partition} of cluster {cluster} (topic id {topic_id})"

    def is_in_cluster_of(self, other: "Origin") -> bool:
        """Tells whether both may be of one cluster."""
        return not (self.cluster_id and other.cluster_id) or self.cluster_id == other.cluster_id

    def is_of_topic_before(self, other: "Origin") -> bool:
        """Tells whether this is of a topic of the same name that was deleted, and ``other`` of one recreated."""
        is_same_name = self.topic == other.topic and self.is_in_cluster_of(other)
        return is_same_name and bool(self.topic_id and other.topic_id) and self.topic_id != other.topic_id

    def agrees_with(self, other: "Origin") -> bool:
        """Tells whether both may be one source partition."""
        ids_agree = not (self.topic_id and other.topic_id) or self.topic_id == other.topic_id
        places_agree = (self.topic, self.partition) == (other.topic, other.partition)
        return ids_agree and places_agree and self.is_in_cluster_of(other)

    def completed_by(self, other: Self) -> Self:
        """Returns this with what only ``other``, which agrees with it, knows: two agree with one that knows nothing."""
        cluster_id, topic_id = self.cluster_id or other.cluster_id, self.topic_id or other.topic_id
        return replace(self, cluster_id=cluster_id, topic_id=topic_id)


def check_origin(found: Origin, expected: Origin, *, what: str, remedy: str = "") -> None:
    """Checks that what lies in an archive is of the source partition that is archived there.

    Args:
        found: what it says.
        expected: the source that is configured.
        what: the object and what was done with it, for messages: "{key} was written".
        remedy: what helps besides; empty where nothing does.

    Raises:
        OtherSourceError: it is of another cluster, topic or partition.
        TopicRecreatedError: it is of another topic of the same name.
    """
    if found.agrees_with(expected):
        return
    is_same_name = (found.topic, found.partition) == (expected.topic, expected.partition)
    if is_same_name and found.is_in_cluster_of(expected):
        raise TopicRecreatedError(
            f"source topic {expected.topic} was deleted and recreated (topic id {found.topic_id}, now "
            f"{expected.topic_id}); {what} from the one before",
            hint="`on-recreate: new-topic` archives the new one in a folder of its own; the old files stay readable "
            f"where they are{remedy}",
            expected=found.topic_id,
            found=expected.topic_id,
        )
    raise OtherSourceError(
        f"{what} from {found}, and this mirror archives {expected} there",
        hint="archive each source under a `name` (or a root) of its own; the files stay readable where they "
        f"are{remedy}",
        expected=str(found),
        found=str(expected),
    )
