"""Mirrors that part their records among topics by an expression, and what each topic must hold then."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from mirrorlake.offsets import TopicPartition
from support.changed_copies import changed_copies
from support.copies import assert_same_records
from support.map_copies import held_through_map
from support.records import Record, consume

KINDS = ("paid", "open", "gone")
TO = "get_json_object(CAST(value AS STRING), '$.kind')"


def record(number: int, kind: str | None, *, size: int = 0) -> Record:
    """A record that goes to the topic of a kind; of None one that nothing can be said of."""
    value = b'{"n": %d, "pad": "%s", "kind": "%s"}' % (number, b"x" * size, (kind or "").encode())
    return Record(1_700_000_000_000 + number, b"%d" % number, None if kind is None else value)


def topics_of(topic: str) -> dict[str, str]:
    """The topic of each kind, of a mirror of a source topic."""
    return {kind: f"{topic}.{kind}" for kind in KINDS}


def route(topic: str, *, kinds: Iterable[str] = KINDS, otherwise: str = "park", to: str = TO) -> str:
    """The lines of a destination that say where the records of a source topic go; as a mapping in flow style."""
    topics = ", ".join(topics_of(topic)[kind] for kind in kinds)
    said = f"'{topic}.' || {to}"
    return f'route: {{to: "{said}", topics: [{topics}], otherwise: {otherwise}}}'


def routed_copies(
    folder: Path,
    east: str,
    west: str,
    topic: str,
    *,
    kinds: Iterable[str] = KINDS,
    otherwise: str = "park",
    more: str = "",
    change: str = "",
) -> Path:
    """The configuration of a mirror of one topic, with mapped offsets; ``more`` follows its route."""
    said = route(topic, kinds=kinds, otherwise=otherwise)
    destinations = f"[{{type: kafka, cluster: west, offsets: map, {said}{more}}}]"
    return changed_copies(folder, east, west, topic, change=change, destinations=destinations)


def kind_of(each: Record) -> str:
    """What a record's route says of it; empty where that is nothing."""
    return "" if each.value is None else each.value.rsplit(b'"', 2)[1].decode()


def assert_routed(
    source: str,
    destination: str,
    topic: str,
    partitions: int,
    *,
    otherwise: str = "",
    shards: int = 2,
    before: Mapping[int, int] | None = None,
) -> dict[str, int]:
    """Every record of the source is at the topic of its kind, in its partition, once, and nothing else is there.

    Args:
        source: bootstrap servers.
        destination: bootstrap servers.
        topic: of the source, that a mirror of its name parts.
        partitions: how many it has.
        otherwise: the kind whose topic has what is of none; empty where that is nowhere.
        shards: of the mirror.
        before: offsets by partition from which on nothing was copied; all was where there is none.

    Returns:
        How many records each topic has.
    """
    counts = dict.fromkeys(KINDS, 0)
    for partition in range(partitions):
        where = TopicPartition(topic, partition)
        records = consume(source, topic, partition)
        records = {o: r for o, r in records.items() if before is None or o < before[partition]}
        union: dict[int, Record] = {}
        for kind, to in topics_of(topic).items():
            taken = {o: r for o, r in records.items() if (kind_of(r) if kind_of(r) in KINDS else otherwise) == kind}
            if not taken and not consume(destination, to, partition):
                continue
            assert_same_records(taken, held_through_map(destination, where, topic=to, mirror=topic, shards=shards))
            assert len(consume(destination, to, partition)) == len(taken), f"{to}-{partition} holds more than its own"
            assert not union.keys() & taken.keys()
            union |= taken
            counts[kind] += len(taken)
        left_out = {o for o, r in records.items() if kind_of(r) not in KINDS and not otherwise}
        assert set(union) == set(records) - left_out
    return counts
