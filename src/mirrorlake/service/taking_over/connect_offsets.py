"""What a source connector of Kafka Connect has stored of its positions: the records of an offsets topic. Pure.

Connect writes both as JSON without a schema: the key is ``[connector, partition]``, the value is ``{"offset": N}``, and
null or none where it was taken back. The newest record of a key counts.

- MirrorMaker 2 stores ``{"cluster", "partition", "topic"}`` and the offset of the last record that was copied
  (``MirrorSourceTask`` begins one behind it; a negative one says that there is none).
- Mirus stores ``{"partition", "topic"}`` and the offset of the next record (``MirusSourceTask``).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mirrorlake.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How one program stores positions.

    ``connector`` is the name it has in keys, None where any name may be. ``cluster`` is the source's alias in keys,
    None where they have none. ``next_minus_stored`` leads from what is stored to the next offset that is needed.
    """

    connector: str | None
    cluster: str | None
    next_minus_stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What connectors have stored of one partition, by the connector's name: the next offset that is needed.

    A connector whose position was taken back is in none of them.
    """

    next_offsets: Mapping[str, int]

    @property
    def only(self) -> int | None:
        """The next offset, where exactly one connector says one."""
        return next(iter(self.next_offsets.values())) if len(self.next_offsets) == 1 else None


def stored_positions(
    records: Iterable[tuple[bytes | None, bytes | None]], convention: Convention
) -> dict[TopicPartition, Stored]:
    """Returns what an offsets topic says of each source partition; keys of other connectors are passed over.

    Args:
        records: key and value of all committed ones, each partition of the topic in its order. A key never changes its
            partition.
        convention: of the program that wrote those which are wanted.
    """
    newest: dict[tuple[str, TopicPartition], int | None] = {}
    for key, value in records:
        if (found := _key(key, convention)) is not None:
            newest[found] = _offset(value)
    positions: dict[TopicPartition, dict[str, int]] = {}
    for (connector, partition), offset in newest.items():
        if offset is not None:
            positions.setdefault(partition, {})[connector] = offset + convention.next_minus_stored
    return {partition: Stored(next_offsets=found) for partition, found in positions.items()}


def _key(key: bytes | None, convention: Convention) -> tuple[str, TopicPartition] | None:
    tree = _json(key)
    if not isinstance(tree, list) or len(tree) != 2 or not isinstance(tree[0], str) or not isinstance(tree[1], dict):
        return None
    connector, fields = tree
    expected = {"topic", "partition"} if convention.cluster is None else {"topic", "partition", "cluster"}
    topic, partition = fields.get("topic"), fields.get("partition")
    if set(fields) != expected or not isinstance(topic, str) or type(partition) is not int:
        return None
    is_other = convention.connector not in (None, connector) or convention.cluster != fields.get("cluster")
    return None if is_other else (connector, TopicPartition(topic, partition))


def _offset(value: bytes | None) -> int | None:
    tree = _json(value)
    offset = tree.get("offset") if isinstance(tree, dict) else None
    return offset if type(offset) is int and offset >= 0 else None


def _json(content: bytes | None) -> object:
    try:
        return None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None
