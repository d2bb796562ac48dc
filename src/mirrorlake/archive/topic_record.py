"""What was seen of a topic's folder in an archive, so that what is missing is told from what never was.

``{name}/_topic.json`` says whose records the folder holds, and which partitions had segments; whatever changes is said
by a new object, ``_topic.1.json`` and so on, and the highest counts. How far partitions have come is said now and then:
of objects in a row that differ in nothing else the last two stay. ``_mirrorlake/topics/{name}`` says that the folder
``{name}`` has such objects, should the folder be gone.

What lies beside partitions and holds files of an archive is nobody's: readers with a glob take it for the topic's, and
find offsets twice; ours take it for nothing. So it is named, never passed over.

Nobody takes a position from records (law 1). Objects never change, so two processes that write at once both read what
won, and add to it.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from mirrorlake.archive.marker_content import (
    damaged,
    decode_marker,
    encode_marker,
    number_of,
    object_of,
    text_of,
    time_of,
)
from mirrorlake.archive.names import EXTENSIONS, NESTED_MAX, RESERVED_MARK, parse_partition_folder, partition_prefix
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, PositionMovedError, UnsupportedError
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

TOPICS_FOLDER = "_mirrorlake/topics"
"""Below the name of no topic's partition: those are numbers."""

T = TypeVar("T")

ATTEMPTS_MAX = 10
"""How often others may be first with the next object of a topic, before whoever reads or writes gives up for now."""

_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_TOPIC_STEM = "_topic"
_TOPIC_OBJECT = re.compile(r"_topic(?:\.([1-9][0-9]{0,17}))?\.json", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """What was seen of one folder of partitions.

    ``partitions`` is how many the source topic has, 0 where that is not known; ``configs`` its settings, those of the
    cluster included, empty where they were not read. ``reached`` says by partition which position was seen, for all
    that had a segment: a lower bound, as it is not written again for each segment (`renew_positions`).
    """

    cluster_id: str
    topic: str
    topic_id: str | None
    partitions: int
    format: str
    holds_snapshots: bool
    configs: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    reached: Mapping[int, int] = field(default_factory=dict, hash=False)
    writer: str = ""
    created_at: str = ""

    def with_more(self, seen: "TopicRecord") -> "TopicRecord":
        """Returns what is known once ``seen`` was seen after this."""
        reached = {
            partition: max(self.reached.get(partition, 0), seen.reached.get(partition, 0))
            for partition in sorted({*self.reached, *seen.reached})
        }
        return replace(
            seen,
            topic_id=seen.topic_id or self.topic_id,
            partitions=seen.partitions or self.partitions,
            configs=seen.configs or self.configs,
            reached=reached,
        )

    def says_as_much_as(self, other: "TopicRecord") -> bool:
        """Tells whether nothing but positions, time and writer differ, so that it need not be said again."""
        return self.differs_in_positions_alone(other) and set(self.reached) == set(other.reached)

    def differs_in_positions_alone(self, other: "TopicRecord") -> bool:
        """Tells whether both say the same of the topic, and differ in how far its partitions have come, if at all."""
        return _without_detail(self) == _without_detail(other)

    def covers(self, reached: Mapping[int, int]) -> bool:
        """Tells whether it says of each of these partitions that it had come so far, or further."""
        return all(self.reached.get(partition, 0) >= position for partition, position in reached.items())


def recorded_topics(store: ObjectStore) -> set[str]:
    """Returns the names of the folders that have a record; those of several folders, parted by slashes, too.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    return set(_names_below(store, TOPICS_FOLDER, NESTED_MAX))


def is_recorded(store: ObjectStore, name: str) -> bool:
    """Tells whether the folder ``name`` has a record, or had one and is gone.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    try:
        store.read(f"{TOPICS_FOLDER}/{name}")
    except ObjectMissingError:
        return False
    return True


def recorded_with_suffix(store: ObjectStore, name: str) -> Iterator[str]:
    """Yields the names of folders that have a record, or had one, and are ``name`` with a dot and more behind it.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    parent, _, last = f"{TOPICS_FOLDER}/{name}".rpartition("/")
    for info in store.list(parent, start_after=last):
        if info.name.startswith(f"{last}."):
            yield info.key.removeprefix(f"{TOPICS_FOLDER}/")
        elif info.name > f"{last}.":
            return


def _names_below(store: ObjectStore, folder: str, deeper: int) -> Iterator[str]:
    for info in store.list(folder):
        yield info.key.removeprefix(f"{TOPICS_FOLDER}/")
    for name in store.folders(folder) if deeper else ():
        if not name.startswith(RESERVED_MARK):  # where files are staged
            yield from _names_below(store, f"{folder}/{name}", deeper - 1)


def read_topic_record(store: ObjectStore, name: str) -> TopicRecord | None:
    """Returns what was last recorded of the folder ``name``, or None where nothing was.

    Raises:
        ChainBrokenError: the newest record cannot be read.
        UnsupportedError: a later version wrote it.
        MirrorlakeError: the store could not be read.
    """
    newest = _newest(store, name)
    return None if newest is None else newest[1]


def _newest(store: ObjectStore, name: str) -> tuple[int, TopicRecord] | None:
    """Returns number and content of the record that counts, None without any; see `read_topic_record`."""

    def look() -> tuple[int, TopicRecord] | None:
        number = _newest_number(store, name)
        return None if number is None else (number, _read_topic(store, f"{name}/{_topic_name(number)}"))

    return _looked(look, name)


def recorded_origins(store: ObjectStore, name: str, partition: int) -> list[Origin]:
    """Returns whose records were ever recorded to lie in the folder ``name``, the last ones last; empty without record.

    There are several where mirrors of several topics write a partition each into one folder. A record that cannot be
    read is passed over: of the newest one `read_topic_record` says so.

    Args:
        store: of the archive.
        name: the topic's folder.
        partition: of which the origins are wanted.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    origins: list[Origin] = []
    for said in _readable_records(store, name):
        origin = Origin(cluster_id=said.cluster_id, topic=said.topic, topic_id=said.topic_id, partition=partition)
        if origin not in origins:
            origins.append(origin)
    return origins


def recorded_settings(store: ObjectStore, name: str) -> list[Mapping[str, str | None]]:
    """Returns the settings that the source topic of the folder ``name`` was ever recorded with, the last ones last.

    A record that cannot be read is passed over, as by `recorded_origins`.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    return [record.configs for record in _readable_records(store, name) if record.configs]


def _readable_records(store: ObjectStore, name: str) -> list[TopicRecord]:
    def look() -> list[TopicRecord]:
        found: list[TopicRecord] = []
        for number in sorted(_numbers(store, name)):
            with contextlib.suppress(ChainBrokenError, UnsupportedError):
                found.append(_read_topic(store, f"{name}/{_topic_name(number)}"))
        return found

    return _looked(look, name)


def _looked(look: Callable[[], T], name: str) -> T:
    for _ in range(ATTEMPTS_MAX):
        try:
            return look()
        except ObjectMissingError:
            continue  # newer ones came, and this one went
    raise PositionMovedError(f"{name}: its records went {ATTEMPTS_MAX} times while they were read")


def record_topic(store: ObjectStore, name: str, seen: TopicRecord, *, now_seconds: float) -> TopicRecord:
    """Records what was seen of the folder ``name``, unless all of it is recorded. Idempotent.

    Order of effects: the record, then its name below the root; a crash between the two is made up for by the next call.

    Returns:
        What is recorded now.

    Raises:
        ChainBrokenError, UnsupportedError: see `read_topic_record`.
        PositionMovedError: others were first each time.
        MirrorlakeError: the store could not be read or written.
    """
    for _ in range(ATTEMPTS_MAX):
        number = 0
        if (newest := _newest(store, name)) is not None:
            number, known = newest[0] + 1, newest[1]
            seen = known.with_more(seen)
            if known.says_as_much_as(seen):
                _register(store, name)
                return known
        if _is_written(store, name, number, seen, now_seconds=now_seconds):
            _register(store, name)
            return seen
    raise _others_first(name)


def renew_positions(store: ObjectStore, name: str, seen: TopicRecord, *, now_seconds: float) -> None:
    """Records how far the partitions of the folder ``name`` have come, unless that is recorded. Idempotent.

    Nothing is written where nothing is recorded: the folder is gone, or somebody has deleted its record as a lost end
    was meant.

    Order of effects: the new record; then those before it go that differ in positions alone, but for the last.

    Raises:
        ChainBrokenError, UnsupportedError: see `read_topic_record`.
        PositionMovedError: others were first each time.
        MirrorlakeError: the store could not be read or written.
    """
    for _ in range(ATTEMPTS_MAX):
        newest = _newest(store, name)
        if newest is None or newest[1].covers(seen.reached):
            return
        number, known = newest
        renewed = replace(known.with_more(replace(known, reached=seen.reached)), writer=seen.writer)
        if _is_written(store, name, number + 1, renewed, now_seconds=now_seconds):
            _remove_before(store, name, number, known)
            return
    raise _others_first(name)


def _is_written(store: ObjectStore, name: str, number: int, record: TopicRecord, *, now_seconds: float) -> bool:
    """Writes the next record; returns False where another one counts, with which it is to be tried again."""
    content = _encode_topic(replace(record, created_at=time_of(now_seconds)))
    try:
        store.create(f"{name}/{_topic_name(number)}", content)
    except ObjectExistsError:
        return False
    # The number may be one that others had, and let go after they took the next ones.
    return _newest_number(store, name) == number


def _remove_before(store: ObjectStore, name: str, number: int, known: TopicRecord) -> None:
    """Deletes the records below a number that say nothing else than ``known``, which has it."""
    for before in sorted((each for each in _numbers(store, name) if each < number), reverse=True):
        key = f"{name}/{_topic_name(before)}"
        try:
            if not known.differs_in_positions_alone(_read_topic(store, key)):
                return
            store.delete(key)
        except ObjectMissingError:
            continue
        except MirrorlakeError:
            return  # it is in nobody's way


def _others_first(name: str) -> PositionMovedError:
    return PositionMovedError(f"{name}: other processes wrote the record {ATTEMPTS_MAX} times meanwhile")


def check_is_new(store: ObjectStore, name: str, origin: Origin) -> None:
    """Checks that a partition without any segment never had one, and may begin in this folder, as far as recorded.

    An empty listing proves nothing: its folder, or the whole topic's, may have been deleted, or be a mount that is not
    there. And where other partitions of the folder have segments, it is of the topic they were written from.

    Args:
        store: of the archive.
        name: the topic's folder.
        origin: the source partition that would be archived there.

    Raises:
        ChainBrokenError: it had segments, and all are gone; or the topic's whole folder is.
        TopicRecreatedError: the folder holds partitions of the topic of that name before this one.
        MirrorlakeError: the store could not be read, or the record cannot.
    """
    record = read_topic_record(store, name)
    if record is None:
        if is_recorded(store, name) and not _has_partitions(store, name):
            raise lost_topic(name)
        return
    reached = record.reached.get(origin.partition, 0)
    check_reached(store, name, origin.partition, reached=reached, position=0)
    recorded = replace(origin, cluster_id=record.cluster_id, topic=record.topic, topic_id=record.topic_id)
    if record.reached and recorded.is_of_topic_before(origin):
        # Another topic altogether is for the segments to say: two sources may share a folder, a partition each.
        check_origin(recorded, origin, what=f"other partitions in {name} were written")


def lost_topic(name: str, *, where: str | None = None, register: str | None = None) -> ChainBrokenError:
    """Returns the error of a topic's folder that is gone with all it held.

    Args:
        name: of the folder.
        where: the folder as people write it.
        register: the folder of the names that were recorded, as people write it.
    """
    register = register or TOPICS_FOLDER
    return ChainBrokenError(
        f"{where or name} is gone: {register} says that topics of that name were archived there",
        hint=f"put the folder back, or mount its file system; if it was removed on purpose, delete {register}/{name}",
        name=name,
    )


def lost_partition(store: ObjectStore, name: str, partition: int, *, reached: int, position: int) -> ChainBrokenError:
    """Returns the error of a partition that ends below what was recorded of it, or has nothing left at all."""
    prefix, key = partition_prefix(name, partition), f"{name}/{_topic_name(_newest_number(store, name) or 0)}"
    ends = f"it ends at offset {position}" if position else "no segment is there"
    return ChainBrokenError(
        f"{prefix}: {ends}, and {key} says that it had reached offset {reached}",
        hint="put the segments back, or mount their file system; if they were removed on purpose, "
        f"delete {name}/_topic*.json: the next run writes it anew; and {TOPICS_FOLDER}/{name}, where the folder "
        "has no partition left",
        expected=reached,
        found=position,
    )


def recorded_end(store: ObjectStore, name: str, partition: int) -> int:
    """Returns where a partition of the topic's folder ``name`` ended once, as recorded; 0 where that is not known.

    Raises:
        MirrorlakeError: see `read_topic_record`.
    """
    record = read_topic_record(store, name)
    return record.reached.get(partition, 0) if record is not None else 0


def check_reached(store: ObjectStore, name: str, partition: int, *, reached: int, position: int) -> None:
    """Checks that a partition ends where it once did, or further: what is missing at its end shows nowhere else.

    Args:
        store: of the archive.
        name: the topic's folder.
        partition: its number.
        reached: where it ended once, as recorded before ``position`` was looked for; 0 where that is not known.
        position: where it ends now; 0 where no segment is there.

    Raises:
        ChainBrokenError: it ends before.
    """
    if position < reached:
        raise lost_partition(store, name, partition, reached=reached, position=position)


def partitions_in(store: ObjectStore, name: str) -> frozenset[int]:
    """Returns the partitions that have a folder in the topic's folder ``name``.

    Raises:
        ChainBrokenError: another folder of a number, as `00`, holds files of an archive: of which partition, and
            whether they count, nobody can tell.
        MirrorlakeError: the store could not be read.
    """
    folders = tuple(store.folders(name))
    for error in strays_in(store, name, (folder for folder in folders if _NUMBER.fullmatch(folder))):
        raise error
    return frozenset(number for folder in folders if (number := parse_partition_folder(folder)) is not None)


def strays_in(store: ObjectStore, name: str, folders: Iterable[str]) -> Iterator[ChainBrokenError]:
    """Yields an error for each of some folders in a topic's that holds files of an archive and is no partition's.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    for folder in folders:
        is_ours = folder.startswith(RESERVED_MARK) or parse_partition_folder(folder) is not None
        if not is_ours and _holds_segments(store, f"{name}/{folder}"):
            yield _stray(name, folder)


def _holds_segments(store: ObjectStore, prefix: str) -> bool:
    names = (info.name for info in store.list(prefix))
    return any(each.rpartition(".")[2] in EXTENSIONS and each[0] not in (RESERVED_MARK, ".") for each in names)


def _stray(name: str, folder: str) -> ChainBrokenError:
    number = parse_partition_folder(str(int(folder))) if _NUMBER.fullmatch(folder) else None
    named = "" if number is None else f" (partition {number} lies in {name}/{number})"
    return ChainBrokenError(
        f"{name}/{folder} holds files of an archive, and is no partition's folder{named}: who reads {name}/*/* takes "
        "them for the topic's",
        hint=f"move it out of {name}" + (f"; or, where {name}/{number} is gone, give it that name" if named else ""),
        name=folder,
    )


def _register(store: ObjectStore, name: str) -> None:
    if not is_recorded(store, name):
        with contextlib.suppress(ObjectExistsError):
            store.create(f"{TOPICS_FOLDER}/{name}", encode_marker({}))


def _has_partitions(store: ObjectStore, name: str) -> bool:
    return any(parse_partition_folder(folder) is not None for folder in store.folders(name))


def _newest_number(store: ObjectStore, name: str) -> int | None:
    return max(_numbers(store, name), default=None)


def _numbers(store: ObjectStore, name: str) -> Iterator[int]:
    # Partitions sort before, so this is short however long the archive is.
    names = (info.name for info in store.list(name, start_after=_TOPIC_STEM))
    return (int(match[1] or 0) for each in names if (match := _TOPIC_OBJECT.fullmatch(each)))


def _topic_name(number: int) -> str:
    return f"{_TOPIC_STEM}.{number}.json" if number else f"{_TOPIC_STEM}.json"


def _read_topic(store: ObjectStore, key: str) -> TopicRecord:
    fields = decode_marker(store.read(key), where=key)
    try:
        return TopicRecord(
            cluster_id=text_of(fields["cluster_id"]),
            topic=text_of(fields["topic"]),
            topic_id=None if fields["topic_id"] is None else text_of(fields["topic_id"]),
            partitions=number_of(fields["partitions"]),
            format=text_of(fields["format"]),
            holds_snapshots=fields["holds_snapshots"] is True,
            configs={
                key: None if value is None else text_of(value) for key, value in object_of(fields["configs"]).items()
            },
            reached={int(key): number_of(value) for key, value in object_of(fields["reached"]).items()},
            writer=text_of(fields["writer"]),
            created_at=text_of(fields["created_at"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(key) from error


def _encode_topic(record: TopicRecord) -> bytes:
    reached = {str(partition): position for partition, position in record.reached.items()}
    return encode_marker({**asdict(record), "configs": dict(record.configs), "reached": reached})


def _without_detail(record: TopicRecord) -> TopicRecord:
    return replace(record, reached={}, writer="", created_at="")
