"""What an archive keeps of consumer groups: values, how a look at the source changes them, and their bytes. Pure."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mirrorlake.archive.marker_content import decode_sealed, encode_sealed, number_of, object_of, text_of
from mirrorlake.archive.origin import Origin

FORGET_MS = 30 * 86_400_000
"""How long a group stays that has no offset any more. Clients that take a new name at each start would fill an archive;
thirty days are four times as long as Kafka keeps the offsets of a group nobody uses (``offsets.retention.minutes``)."""


class ArchivedOffset(NamedTuple):
    """What a group has committed for a partition. A tuple, as there are tens of thousands of them at a time.

    Times are Unix milliseconds by the clock of who archived it. ``seen_at_ms`` is when this was first seen.
    ``missing_since_ms`` is set where the source said that the group has no offset of the partition any more, or where
    the group is not selected any more; the last one it had is kept for `FORGET_MS`. ``leader_epoch`` is the source's,
    -1 where the group did not say; ``metadata`` is the group's own text.
    """

    offset: int
    seen_at_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    missing_since_ms: int | None = None

    def says_what(self, other: "ArchivedOffset") -> bool:
        """Tells whether both are the same commit."""
        return self._commit == other._commit

    @property
    def _commit(self) -> tuple[int, int, str]:
        return self.offset, self.leader_epoch, self.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGroups:
    """The groups of one source partition. ``read_at_ms`` is when the source was asked last before this was written."""

    origin: Origin
    read_at_ms: int
    groups: Mapping[str, ArchivedOffset] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """What one look at the source found of one partition.

    ``committed`` are the offsets that groups have, ``none`` the groups that certainly have none, or are not selected.
    Of a group in neither nothing is known, and nothing follows.
    """

    origin: Origin
    read_at_ms: int
    committed: Mapping[str, ArchivedOffset]
    none: Set[str] = frozenset()


def after_look(known: PartitionGroups | None, look: PartitionLook) -> PartitionGroups:
    """Returns what is known of a partition after a look at its source.

    A look from before the one that is known changes nothing. Groups of a topic that was there before of the same name
    are no groups of this one.
    """
    before: Mapping[str, ArchivedOffset] = {}
    if known is not None and known.origin.agrees_with(look.origin):
        if known.read_at_ms > look.read_at_ms:
            return known
        before = known.groups
    groups = dict(before)
    for group in look.none & groups.keys():
        since = groups[group].missing_since_ms
        groups[group] = groups[group]._replace(missing_since_ms=look.read_at_ms if since is None else since)
    for group, found in look.committed.items():
        old = groups.get(group)
        groups[group] = old._replace(missing_since_ms=None) if old is not None and old.says_what(found) else found
    kept = {group: each for group, each in groups.items() if not _is_over(each, look.read_at_ms)}
    return PartitionGroups(origin=look.origin, read_at_ms=look.read_at_ms, groups=kept)


def _is_over(offset: ArchivedOffset, now_ms: int) -> bool:
    return offset.missing_since_ms is not None and now_ms - offset.missing_since_ms >= FORGET_MS


def says_as_much(one: Mapping[int, PartitionGroups], other: Mapping[int, PartitionGroups]) -> bool:
    """Tells whether nothing but the time of the last look differs."""
    return _without_times(one) == _without_times(other)


def _without_times(partitions: Mapping[int, PartitionGroups]) -> dict[int, PartitionGroups]:
    return {number: replace(each, read_at_ms=0) for number, each in partitions.items()}


def encode_groups(partitions: Mapping[int, PartitionGroups], *, writer: str) -> bytes:
    """Returns the object's content: one JSON object in UTF-8 with a line end, and with its seal."""
    fields = {
        "writer": writer,
        "partitions": [_partition_fields(partitions[number]) for number in sorted(partitions)],
    }
    return encode_sealed(fields)


def _partition_fields(partition: PartitionGroups) -> dict[str, object]:
    origin = partition.origin
    return {
        "partition": origin.partition,
        "cluster_id": origin.cluster_id,
        "topic": origin.topic,
        "topic_id": origin.topic_id,
        "read_at_ms": partition.read_at_ms,
        "groups": {group: _offset_fields(partition.groups[group]) for group in sorted(partition.groups)},
    }


def _offset_fields(offset: ArchivedOffset) -> dict[str, object]:
    fields: dict[str, object] = {"offset": offset.offset, "seen_at_ms": offset.seen_at_ms}
    if offset.leader_epoch >= 0:
        fields["leader_epoch"] = offset.leader_epoch
    if offset.metadata:
        fields["metadata"] = offset.metadata
    if offset.missing_since_ms is not None:
        fields["missing_since_ms"] = offset.missing_since_ms
    return fields


def decode_groups(data: bytes, *, where: str) -> dict[int, PartitionGroups] | None:
    """Returns what an object says, by partition; None where its bytes are not what was written.

    Fields that are not known are passed over.

    Raises:
        UnsupportedError: a later version wrote it.
    """
    try:
        fields = decode_sealed(data, where=where)
        if fields is None:
            return None
        partitions = fields["partitions"]
        if not isinstance(partitions, list):
            return None
        found = [_read_partition(object_of(each)) for each in partitions]
        return {each.origin.partition: each for each in found}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _read_partition(fields: Mapping[str, object]) -> PartitionGroups:
    return PartitionGroups(
        origin=Origin(
            cluster_id=text_of(fields["cluster_id"]),
            topic=text_of(fields["topic"]),
            topic_id=None if fields["topic_id"] is None else text_of(fields["topic_id"]),
            partition=number_of(fields["partition"]),
        ),
        read_at_ms=number_of(fields["read_at_ms"]),
        groups={group: _read_offset(object_of(each)) for group, each in object_of(fields["groups"]).items()},
    )


def _read_offset(fields: Mapping[str, object]) -> ArchivedOffset:
    missing = fields.get("missing_since_ms")
    return ArchivedOffset(
        offset=number_of(fields["offset"]),
        leader_epoch=number_of(fields.get("leader_epoch", -1)),
        metadata=text_of(fields.get("metadata", "")),
        seen_at_ms=number_of(fields["seen_at_ms"]),
        missing_since_ms=None if missing is None else number_of(missing),
    )
