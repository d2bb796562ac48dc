"""Archives that another program wrote, in a layout of its own: what has to be known to read them."""

from dataclasses import dataclass
from enum import StrEnum


class EmptyField(StrEnum):
    """A field of records that may be null, and of which a layout keeps only that it was empty."""

    KEY = "key"
    VALUE = "value"
    HEADER_VALUE = "header-value"


class BeginsAt(StrEnum):
    """Where a partition begins in a layout that does not say it."""

    OFFSET_0 = "offset-0"
    FIRST_SEGMENT = "first-segment"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReplicatorLayout:
    """CrowdStrike's kafka-replicator: ``{region}/{topic}/{partition}/{level}/{first}-{last}``, both offsets inclusive.

    Attributes:
        region: the folder that holds the topics' folders: the cluster's region, by kafka-replicator's settings.
        begins_at: whether what lies below the first file of a partition is waited for, or is where its log begins.
        null_for_empty: fields that are null wherever a file has them empty, as it does not tell the two apart.
    """

    region: str
    begins_at: BeginsAt = BeginsAt.OFFSET_0
    null_for_empty: frozenset[EmptyField] = frozenset()

    @property
    def folder(self) -> str:
        """The folder below the store's root that holds the topics' folders."""
        return self.region

    @property
    def remarks(self) -> tuple[str, ...]:
        """What cannot be had from its files, in sentences for people; said before anything is copied."""
        named = {EmptyField.KEY: "keys", EmptyField.VALUE: "values", EmptyField.HEADER_VALUE: "header values"}
        kept = [text for field, text in named.items() if field not in self.null_for_empty]
        nulled = [text for field, text in named.items() if field in self.null_for_empty]
        said = [
            "kafka-replicator's files do not say who set a record's time: every record comes back as CreateTime",
            "kafka-replicator's files do not say which offsets between two files never held a record, such as those of "
            "transaction markers: they are waited for, unless `on-missing-segment` passes over them",
        ]
        if kept:
            said.append(
                f"kafka-replicator's files do not tell null from empty: {_joined(kept)} come back as empty, tombstones "
                "among them; `null-for-empty` makes null of them"
            )
        if nulled:
            said.append(f"`null-for-empty` makes null of all {_joined(nulled)} that are empty")
        if self.begins_at is BeginsAt.FIRST_SEGMENT:
            said.append(
                "`begins-at: first-segment`: each partition begins with the lowest file that is there; what comes "
                "later below it is not copied by a destination that stands behind it"
            )
        return tuple(said)


ForeignLayout = KafkaReplicatorLayout
"""All layouts that are read; `archive/layouts/registry.py` knows who reads each."""


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
