"""What ``archive diff`` is told to compare, and which partitions that comes to."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirrorlake.archive.inspection import archived_folders
from mirrorlake.archive.layouts.registry import seen_as
from mirrorlake.archive.topic_record import recorded_topics
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.errors import ConfigurationError, MirrorlakeError, StoreUnusableError
from mirrorlake.foreign_layout import ForeignLayout
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.source import SourceWork
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.os_errors import file_in_the_way
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.topics.sources import cluster_source
from mirrorlake.verify.diff.looks import archive_work, find_topics
from mirrorlake.verify.diff.side import Pair, Place
from mirrorlake.verify.diff.values import Result
from mirrorlake.verify.diff.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What was named on the command line: a store or cluster, and a topic of it, empty for all."""

    work: SourceWork
    topic: str = ""

    @property
    def is_archive(self) -> bool:
        """True for a store, False for a cluster."""
        return isinstance(self.work, ArchiveSourceWork)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The partitions to compare, and verdicts on topics of which there is nothing to compare."""

    pairs: tuple[Pair, ...]
    verdicts: tuple[Verdict, ...]


def read_place(text: str, config: Configuration) -> Named:
    """Returns what ``STORE:FOLDER``, ``CLUSTER:TOPIC``, a name alone, or the path of an archive's root means.

    A store is read in the layout in which the mirrors of the file read it; a path in mirrorlake's own.

    Raises:
        ConfigurationError: no store or cluster has that name, or both have it; or mirrors read it in several layouts.
        StoreUnusableError: there is no such folder.
    """
    name, _, topic = text.partition(":")
    stores = {each.name: each for each in config.stores}
    clusters = {each.name: each for each in config.clusters}
    if name in stores and name in clusters:
        raise ConfigurationError(
            f"{config.file} has a store and a cluster {name}: it is not known which one {text} means",
            hint="give one of them another name",
        )
    if name in stores:
        work = ArchiveSourceWork(store_name=name, store=stores[name].settings, layout=_layout_of(name, config))
        return Named(work=work, topic=topic.strip("/"))
    if name in clusters:
        return Named(work=cluster_source(clusters[name].settings), topic=topic)
    if "/" in text and "://" not in text:
        return _at_path(Path(text))
    known = ", ".join(sorted({*stores, *clusters})) or "none"
    raise ConfigurationError(
        f"{text}: {config.file} has no store and no cluster {name}",
        hint=f"write STORE:FOLDER, CLUSTER:TOPIC or the path of an archive's root; there: {known}",
    )


def _layout_of(store: str, config: Configuration) -> ForeignLayout | None:
    """Returns the layout of a store's archive: None for mirrorlake's own.

    Raises:
        ConfigurationError: mirrors of the file read or write it in several.
    """
    found: list[ForeignLayout | None] = []
    for mirror in config.mirrors:
        if isinstance(mirror.source, ArchiveSource) and mirror.source.name == store:
            found.append(mirror.source.layout)
        found += [None for each in mirror.archive_destinations if each.store.name == store]
    layouts = list(dict.fromkeys(found))
    if len(layouts) > 1:
        raise ConfigurationError(
            f"{config.file}: mirrors have archives of {len(layouts)} layouts in store {store}: it is not known "
            "which one is meant",
            hint="give each layout a store of its own name, with the same place",
        )
    return layouts[0] if layouts else None


def _at_path(root: Path) -> Named:
    if not root.is_dir():
        raise file_in_the_way(root.absolute()) or StoreUnusableError(
            f"the archive's root {root.absolute()} does not exist",
            hint="name the folder that holds the topics' folders; is its file system mounted?",
        )
    return Named(work=ArchiveSourceWork(store_name=str(root), store=FilesystemSettings(root=root.absolute())))


def pairs_of(a: Named, b: Named, *, topics: Collection[str] = (), partitions: Collection[int] = ()) -> Asked:
    """Returns the partitions to compare: of the topics that were named, or of all with the same name.

    Of a cluster only topics are looked at that the archive has. A topic, or a partition, that only one side has is
    compared too: it is not known then.

    Args:
        a: one side.
        b: the other.
        topics: leaves out all others; each must be on a side.
        partitions: likewise, by number.

    Raises:
        ConfigurationError: nothing says which topics are meant.
        MirrorlakeError: a side could not be asked.
    """
    names = _names(a, b, topics)
    a, b = _with_folders(a, [each for each, _ in names]), _with_folders(b, [each for _, each in names])
    there = _partitions(a.work, [each for each, _ in names]), _partitions(b.work, [each for _, each in names])
    pairs: list[Pair] = []
    verdicts: list[Verdict] = []
    for name_a, name_b in names:
        place_a, place_b = Place(work=a.work, topic=name_a), Place(work=b.work, topic=name_b)
        known = [each for each in (there[0][name_a], there[1][name_b]) if not isinstance(each, MirrorlakeError)]
        numbers = sorted({*partitions} or {number for each in known for number in each})
        errors = [each for each in (there[0][name_a], there[1][name_b]) if isinstance(each, MirrorlakeError)]
        if errors or not numbers:
            verdicts += _nothing(place_a, place_b, numbers, errors)
            continue
        pairs += [Pair(a=place_a, b=place_b, partition=number) for number in numbers]
    return Asked(pairs=tuple(pairs), verdicts=tuple(verdicts))


def _nothing(a: Place, b: Place, numbers: Sequence[int], errors: Sequence[MirrorlakeError]) -> Iterator[Verdict]:
    """Yields the verdicts on a topic of which one side says nothing."""
    error = errors[0] if errors else ConfigurationError(f"{a.label} and {b.label} have no partition")
    rows: list[int | None] = [*numbers]
    for number in rows or [None]:
        yield Verdict(a=a.label, b=b.label, partition=number, result=Result.UNKNOWN, error=error)


def _names(a: Named, b: Named, topics: Collection[str]) -> list[tuple[str, str]]:
    if a.topic or b.topic:
        pair = (a.topic or b.topic, b.topic or a.topic)
        if topics and not {*topics} <= {*pair}:
            raise ConfigurationError(
                f"--topic {', '.join(sorted(topics))} is not the topic that was named: {' and '.join(pair)}",
                hint="leave --topic out where a place names a topic",
            )
        return [pair]
    if topics:
        return [(name, name) for name in sorted(topics)]
    if not (a.is_archive or b.is_archive):
        raise ConfigurationError(
            "nothing says which topics of the clusters are to be compared",
            hint="write CLUSTER:TOPIC, or name them with --topic",
        )
    found = {name for each in (a, b) for name in (_folders(each.work) if each.is_archive else ())}
    if not found:
        raise ConfigurationError(
            f"{' and '.join(each.work.place for each in (a, b) if each.is_archive)} holds no topic",
            hint="is this the root of an archive, and is its file system mounted?",
        )
    return [(name, name) for name in sorted(found)]


def _folders(work: SourceWork) -> set[str]:
    """Returns the topics' folders of a store: those that are there, and those that were recorded.

    Raises:
        MirrorlakeError: the store or a folder of it could not be read.
    """
    assert isinstance(work, ArchiveSourceWork)
    store = seen_as(work.layout, open_store(work.store))
    if work.layout is not None:
        return {*store.folders("")}

    def pass_over(name: str, error: MirrorlakeError) -> None:
        del name
        if not isinstance(error, ConfigurationError):  # a name that mirrorlake never writes
            raise error

    return {name for name, _ in archived_folders(store, pass_over=pass_over)} | recorded_topics(store)


def _with_folders(named: Named, folders: Sequence[str]) -> Named:
    if isinstance(named.work, ArchiveSourceWork):
        return replace(named, work=archive_work(named.work, folders))
    return named


def _partitions(work: SourceWork, names: Sequence[str]) -> Mapping[str, frozenset[int] | MirrorlakeError]:
    return asyncio.run(find_topics(work, list(dict.fromkeys(names)))).partitions
