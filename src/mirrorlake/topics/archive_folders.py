"""Which folder of an archive belongs to a source topic, where topics of its name were deleted and recreated.

The segments themselves say it: each names the id of the topic it was written from. So nothing has to be remembered,
and what a folder holds counts whatever the configuration says now. Reads only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mirrorlake.archive.folder import partition_folder
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import parse_partition_folder
from mirrorlake.config.resolved import RecreationPolicy
from mirrorlake.errors import MirrorlakeError
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.topics.provenance import GENERATION_FIRST, generation_name

OTHER_PARTITIONS_MAX = 16
"""Other partitions of a folder that are looked at: files of mirror-v3 do not say whose they are, and may be many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTopic:
    """A source topic, and the folder it is configured for. ``partitions`` are those one mirror archives.

    ``are_snapshots`` says that the folder holds views of the latest records, not every record.
    """

    base: str
    partitions: Sequence[int]
    extension: str
    are_snapshots: bool = False
    cluster_id: str
    topic_id: str


def find_folder(store: ObjectStore, topic: ArchivedTopic, *, policy: RecreationPolicy) -> str:
    """Returns the folder of the topic: the one it was archived to, else where it begins.

    Where the newest folder was written from a topic made before this one, a new folder follows if ``policy`` allows
    it; else that newest folder is returned, for whoever archives to refuse. What cannot be read counts as ours: it is
    found wrong, with its reason, where it is read to be continued.
    """
    if not topic.topic_id:
        return topic.base
    second = generation_name(topic.base, GENERATION_FIRST)
    if policy is not RecreationPolicy.NEW_TOPIC and not _has_folders(store, second):
        return topic.base
    number, name = GENERATION_FIRST - 1, topic.base
    while True:
        written = list(_sources(store, topic, name, topic.partitions)) or _of_other_partitions(store, topic, name)
        if not written:
            is_usable = policy is RecreationPolicy.NEW_TOPIC or number < GENERATION_FIRST
            return name if is_usable else _name(topic.base, number - 1)
        if all(_may_be_ours(topic, source) for source in written) or any(_is_ours(topic, s) for s in written):
            return name
        number += 1
        name = _name(topic.base, number)


def _name(base: str, number: int) -> str:
    return base if number < GENERATION_FIRST else generation_name(base, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What a newest segment was written from; empty where it does not say, or cannot be read."""

    cluster_id: str = ""
    topic_id: str = ""


def _of_other_partitions(store: ObjectStore, topic: ArchivedTopic, name: str) -> list[_Source]:
    """Returns what one of the other partitions in a folder was written from; empty where none says it.

    A folder is one topic's. Other mirrors may archive its other partitions, and a topic before may have had more of
    them, so a folder without a segment of ours need not be free.
    """
    try:
        there = {number for folder in store.folders(name) if (number := parse_partition_folder(folder)) is not None}
    except MirrorlakeError:
        return []
    others = _sources(store, topic, name, sorted(there - set(topic.partitions))[:OTHER_PARTITIONS_MAX])
    return list(islice((source for source in others if source.topic_id), 1))


def _sources(store: ObjectStore, topic: ArchivedTopic, name: str, partitions: Iterable[int]) -> Iterator[_Source]:
    """Yields what the newest segment of each partition was written from; nothing for partitions without any."""
    for partition in partitions:
        archived = partition_folder(
            store,
            destination_name=name,
            partition=partition,
            extension=topic.extension,
            are_snapshots=topic.are_snapshots,
        )
        try:
            tail = archived.find_end().tail
            if tail is None:
                continue
            with open_segment(store, f"{archived.prefix}/{tail.name}") as segment:
                envelope = segment.footer.envelope if segment.footer else None
        except MirrorlakeError:
            envelope = None
        if envelope is None:
            yield _Source()
        else:
            yield _Source(cluster_id=envelope.cluster_id, topic_id=envelope.topic_id or "")


def _is_ours(topic: ArchivedTopic, source: _Source) -> bool:
    return source.topic_id == topic.topic_id


def _may_be_ours(topic: ArchivedTopic, source: _Source) -> bool:
    """A topic of another cluster is none that was recreated: it is refused where the folder is continued."""
    is_other_cluster = bool(source.cluster_id and topic.cluster_id) and source.cluster_id != topic.cluster_id
    return not source.topic_id or is_other_cluster or _is_ours(topic, source)


def _has_folders(store: ObjectStore, name: str) -> bool:
    try:
        return next(iter(store.folders(name)), None) is not None
    except MirrorlakeError:
        return False
