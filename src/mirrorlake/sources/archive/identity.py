"""Which archive it is, and which folder of it holds a topic: by its markers, and its folders' names.

Blocking; called in threads. Nothing is remembered here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.archive.root_marker import read_root_marker
from mirrorlake.archive.topic_record import (
    TopicRecord,
    check_reached,
    is_recorded,
    lost_topic,
    partitions_in,
    read_topic_record,
    recorded_with_suffix,
)
from mirrorlake.errors import (
    SourceAbsentError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.object_store import ObjectStore

GENERATION_FIRST = 2
"""The number of the first folder that was made for a recreated topic; the one before has none."""

_GENERATION = re.compile(r"(.+)\.([2-9]|[1-9][0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFolder:
    """The folder of one topic, and what its record says; None where it has none.

    ``partitions`` are those there are: as many as the source had, or that have folders.
    """

    topic: str
    folder: str
    record: TopicRecord | None
    partitions: frozenset[int]

    def reached(self, partition: int) -> int:
        """Returns the position that was recorded of a partition, 0 where none was."""
        return self.record.reached.get(partition, 0) if self.record is not None else 0

    @property
    def holds_snapshots(self) -> bool | None:
        """Whether it holds snapshots; None where that is not recorded."""
        return self.record.holds_snapshots if self.record is not None else None


def check_archive(store: ObjectStore, *, archive_id: str, place: str) -> str:
    """Returns the id of the archive that is there, empty where it has none.

    Raises:
        SourceAbsentError: it is not the one of ``archive_id``: another one is there, or none. Waited for, as a broker
            that does not answer is: nothing is read of what is there instead, and a mount may come back by itself.
        MirrorlakeError: the store could not be read.
    """
    marker = read_root_marker(store)
    found = marker.archive_id if marker is not None else ""
    if archive_id and not found:
        raise SourceAbsentError(
            f"{place}: the marker of the archive (id {archive_id}) is gone, or its file system is not mounted",
            hint="mount it, or put `_mirrorlake.json` back; nothing was concluded from what is not there",
        )
    if archive_id and found != archive_id:
        raise SourceAbsentError(
            f"{place} is another archive now: its id is {found}, it was {archive_id}",
            hint="bring the right one back; or begin a new copy, of this one",
            expected=archive_id,
            found=found,
        )
    return found


def topic_folder(
    store: ObjectStore, topic: str, *, folder: str, given: Mapping[str, str], generation: int | None
) -> TopicFolder:
    """Returns where a topic lies.

    Args:
        store: the archive's.
        topic: its name.
        folder: the folder that holds the topics' folders.
        given: folder by topic, where one is configured.
        generation: which of a recreated topic's, None for the newest.

    Raises:
        TopicMissingError: there is no such folder.
        ChainBrokenError: its record is damaged, or the folder is gone as a whole; or see `partitions_in`.
        MirrorlakeError: the store could not be read.
    """
    base = given.get(topic) or (f"{folder}/{topic}" if folder else topic)
    name = base
    if topic not in given:
        found = _generations(store, base)
        number = generation if generation is not None else max(found)
        if number not in found and number != 1:
            raise TopicMissingError(f"the archive has no generation {number} of topic {topic}: it has {sorted(found)}")
        name = found.get(number, base)
    record = read_topic_record(store, name)
    there = partitions_in(store, name)
    if record is None and not there:
        if is_recorded(store, name):
            raise lost_topic(name)
        raise TopicMissingError(
            f"the archive has no topic {topic}: there is no folder {name}",
            hint="check its name, and that the archive's file system is mounted",
            topic=topic,
        )
    counted = range(record.partitions) if record is not None else range(0)
    recorded = record.reached if record is not None else {}
    return TopicFolder(topic=topic, folder=name, record=record, partitions=there | {*counted} | {*recorded})


def _generations(store: ObjectStore, base: str) -> dict[int, str]:
    """Returns the folders of a topic by generation: its own, and those of the same topic with a number behind it.

    One that was recorded and is gone may have been the newest: then nobody can tell which is.

    Raises:
        ChainBrokenError: a folder of such a name is gone; or a record is damaged.
        MirrorlakeError: the store could not be read.
    """
    parent, _, last = base.rpartition("/")
    there = {number for each in store.folders(parent) if (number := _number(each, last)) is not None}
    for each in recorded_with_suffix(store, base):
        if (number := _number(each.rpartition("/")[2], last)) is not None and number not in there:
            raise lost_topic(each)
    numbered = ((number, f"{base}.{number}") for number in sorted(there))
    return {1: base} | {number: name for number, name in numbered if is_generation(store, base, name)}


def _number(name: str, last: str) -> int | None:
    match = _GENERATION.fullmatch(name)
    return int(match[2]) if match is not None and match[1] == last else None


def base_of(name: str) -> str | None:
    """Returns the folder of whose topic this one may be a further generation, by their names alone; else None."""
    match = _GENERATION.fullmatch(name)
    return match[1] if match is not None else None


def is_generation(store: ObjectStore, base: str, name: str) -> bool:
    """Tells whether a folder holds a further generation of the topic of the folder ``base``. Their records say so.

    A topic may be called like that itself: `events.2` beside `events`. A folder without a record is a topic of its own.
    Where ``base`` has none, as mirror-v3 wrote it or it is gone, it is its name that the other's record must name.

    Raises:
        ChainBrokenError, UnsupportedError: a record cannot be read.
        MirrorlakeError: the store could not be read.
    """
    record = read_topic_record(store, name)
    if record is None:
        return False
    first = read_topic_record(store, base)
    if first is None:
        return record.topic == base.rpartition("/")[2]
    return first.topic == record.topic and first.cluster_id == record.cluster_id


def check_partition(
    found: TopicFolder, partition: TopicPartition, *, topic_id: str, store: ObjectStore, label: str, is_empty: bool
) -> None:
    """Checks that a partition is there and of the topic that is meant.

    Args:
        found: the topic's folder.
        partition: which one.
        topic_id: the id its topic must have; empty for any.
        store: the archive's.
        label: what messages call it.
        is_empty: whether its folder shows no segment.

    Raises:
        TopicMissingError: the topic has no such partition.
        TopicRecreatedError: it is of another topic.
        ChainBrokenError: it had segments, and all are gone.
    """
    if partition.partition not in found.partitions:
        raise TopicMissingError(
            f"{label} has no partition {partition}: {found.folder} has {len(found.partitions)}",
            hint="check the name, and that all of the archive is there",
            topic=partition.topic,
        )
    known = found.record.topic_id if found.record is not None else None
    if topic_id and known and known != topic_id:
        raise TopicRecreatedError(
            f"topic {partition.topic} of {label} is another one now: {found.folder} holds records of topic id {known}, "
            f"and the copy those of {topic_id}",
            hint="name the generation that is to be copied, or begin a new copy; nothing was appended",
            expected=topic_id,
            found=known,
        )
    if is_empty:
        reached = found.reached(partition.partition)
        check_reached(store, found.folder, partition.partition, reached=reached, position=0)
