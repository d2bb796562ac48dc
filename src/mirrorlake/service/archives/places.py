"""Which partition folders `mirrorlake archive` looks at: those of a configuration's mirrors, or all below a folder.

Only stores are asked, never a cluster: an archive can be looked at where its source is gone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.inspection import archived_folders, are_snapshots, extension_found
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.topic_record import read_topic_record, recorded_origins
from mirrorlake.config.destinations.archive import ArchiveDestination, Compaction
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.errors import ConfigurationError, MirrorlakeError, StoreUnusableError
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.os_errors import file_in_the_way
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings

_GENERATION = re.compile(r"(.+)\.[0-9]+")
"""The folder of a topic that was recreated, after ``provenance.generation_name``."""

SNAPSHOT_SUFFIX = ".snapshot"
"""How the folder's name ends where `archive snapshot` puts what it makes of a topic, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What to leave out; empty lets everything pass. ``names`` are folder names."""

    mirrors: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()


def _nothing(topic: str) -> bool:
    del topic
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlace:
    """One partition folder. ``mirror`` is None where no configuration says whose it is.

    ``are_snapshots`` is None where the files have to say it. ``destination`` is the mirror's, None with it. ``selects``
    tells the source topics whose records that mirror would write there, and ``rivals`` are other mirrors that a name
    cannot tell from it.
    """

    store: StoreSettings
    name: str
    partition: int
    mirror: str | None = None
    are_snapshots: bool | None = None
    destination: ArchiveDestination | None = None
    selects: Callable[[str], bool] = field(default=_nothing, compare=False, repr=False)
    rivals: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The folder as people write it."""
        return self.store.where(partition_prefix(self.name, self.partition))

    def open(self) -> PartitionFolder:
        """Returns the archive, with the format its files have.

        Raises:
            MirrorlakeError: the store could not be read.
        """
        store = open_store(self.store)
        prefix = partition_prefix(self.name, self.partition)
        return partition_folder(
            store,
            destination_name=self.name,
            partition=self.partition,
            # Without a segment there is nothing whose format could be wrong.
            extension=extension_found(store, prefix) or "parquet",
            are_snapshots=are_snapshots(store, prefix) if self.are_snapshots is None else self.are_snapshots,
        )


def doubt_about(place: ArchivePlace) -> str:
    """Returns why it is not certain that a folder is its mirror's; empty where it is.

    A name alone does not prove it: a folder of another configuration, or of a topic with a number in its name, may look
    the same. What was recorded of the folder says whose records it holds.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    if place.mirror is None:
        return "no mirror of the configuration writes there"
    if place.rivals:
        return f"by its name it may be of mirror {place.mirror}, or of {', '.join(place.rivals)}"
    origins = recorded_origins(open_store(place.store), place.name, place.partition)
    if not origins:
        return f"nothing recorded says whose records it holds: `run` mirror {place.mirror} once, which records it"
    strange = next((origin.topic for origin in origins if not place.selects(origin.topic)), None)
    if strange is not None:
        return f"it holds records of topic {strange}, which mirror {place.mirror} does not write there"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with something that is no partition folder that is there.

    ``name`` is a folder of the store, empty for the store itself; ``partition`` is None where it is not of one.
    ``is_odd_name`` is True where nothing is wrong but a name that mirrorlake never writes. ``is_beside`` is True where
    files lie beside partitions, each of which is as it should be.
    """

    store: StoreSettings
    name: str = ""
    partition: int | None = None
    error: MirrorlakeError
    is_odd_name: bool = False
    is_beside: bool = False


Owners = Sequence[tuple[Mirror, ArchiveDestination]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What there is to look at: stores, their partition folders, and what could not be looked into.

    ``owners`` are the mirrors that write to each store, those not asked for included, empty where no configuration says
    it. ``names`` are those of all topics' folders that are there, asked for or not.
    """

    filters: Filters
    owners: Mapping[StoreSettings, Owners]
    places: list[ArchivePlace] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    _recorded: dict[tuple[StoreSettings, str], bool | None] = field(default_factory=dict, repr=False)

    def is_asked_for(self, store: StoreSettings, name: str) -> bool:
        """Tells whether a folder of a store is one that is to be looked at."""
        owners = self.owners[store]
        is_owned = not owners or any(
            _is_asked_for(self.filters, pair[0]) and _topics_of(*pair, name) for pair in owners
        )
        return is_owned and (not self.filters.names or name in self.filters.names)

    def place(self, store: StoreSettings, name: str, partition: int) -> ArchivePlace | None:
        """Returns a partition folder with the mirror that writes to it; None where that mirror is not asked for."""
        if not self.owners[store]:
            return ArchivePlace(store=store, name=name, partition=partition)
        found = _writers(self.owners[store], name, partition)
        wanted = [each for each in found if _is_asked_for(self.filters, each[0])]
        if not wanted:
            return None
        mirror, destination, selects = wanted[0]
        return ArchivePlace(
            store=store,
            name=name,
            partition=partition,
            mirror=mirror.name,
            are_snapshots=True if destination.compaction is Compaction.LOG else self._recorded_kind(store, name),
            destination=destination,
            selects=selects,
            rivals=tuple(dict.fromkeys(each.name for each, _, _ in found if each is not mirror)),
        )

    def _recorded_kind(self, store: StoreSettings, name: str) -> bool | None:
        """Tells whether a folder is of snapshots, whatever its mirror writes: `archive snapshot` makes such ones.

        None where nothing was recorded: a run that died behind its snapshot has left none, so the files have to say it.
        """
        if (store, name) not in self._recorded:
            try:
                record = read_topic_record(open_store(store), name)
            except MirrorlakeError:
                record = None  # which is said where the record counts
            self._recorded[store, name] = None if record is None else record.holds_snapshots
        return self._recorded[store, name]


def places_below(root: Path, filters: Filters) -> Survey:
    """Returns every partition folder of an archive on a file system.

    Raises:
        MirrorlakeError: the folder could not be read.
    """
    if not root.is_dir():
        raise file_in_the_way(root.absolute()) or StoreUnusableError(
            f"the archive's root {root.absolute()} does not exist",
            hint="name the folder that holds the topics' folders; is its file system mounted?",
        )
    return _survey({FilesystemSettings(root=root.absolute()): ()}, filters)


def places_of(config: Configuration, filters: Filters) -> Survey:
    """Returns the partition folders that the mirrors of a configuration write to, of those that are there.

    Raises:
        ConfigurationError: no such mirror, or none that archives.
        MirrorlakeError: a store could not be read.
    """
    unknown = filters.mirrors - {mirror.name for mirror in config.mirrors}
    if unknown:
        raise ConfigurationError(
            f"{config.file} has no mirror {', '.join(sorted(unknown))}",
            hint=f"its mirrors: {', '.join(mirror.name for mirror in config.mirrors)}",
        )
    owners = _owners(config)
    asked = {store: pairs for store, pairs in owners.items() if any(_is_asked_for(filters, m) for m, _ in pairs)}
    if not asked:
        raise ConfigurationError(f"{config.file} has no mirror with an archive destination")
    return _survey(asked, filters)


def places_in(config: Configuration, store: StoreSettings) -> Survey:
    """Returns the partition folders of one store that the mirrors of a configuration write to, of those there are.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    return _survey({store: _owners(config).get(store, ())}, Filters())


def _owners(config: Configuration) -> dict[StoreSettings, list[tuple[Mirror, ArchiveDestination]]]:
    owners: dict[StoreSettings, list[tuple[Mirror, ArchiveDestination]]] = {}
    for mirror in config.mirrors:
        for destination in mirror.archive_destinations:
            owners.setdefault(destination.store.settings, []).append((mirror, destination))
    return owners


def _is_asked_for(filters: Filters, mirror: Mirror) -> bool:
    return not filters.mirrors or mirror.name in filters.mirrors


def _survey(owners: Mapping[StoreSettings, Owners], filters: Filters) -> Survey:
    survey = Survey(filters=filters, owners=owners)
    for store in owners:
        for name, partition in archived_folders(
            open_store(store), pass_over=partial(_pass_over, survey, store), strays=partial(_stray, survey, store)
        ):
            survey.names.add(name)
            if not survey.is_asked_for(store, name) or (filters.partitions and partition not in filters.partitions):
                continue
            place = survey.place(store, name, partition)
            if place is not None:
                survey.places.append(place)
    return survey


def _pass_over(survey: Survey, store: StoreSettings, name: str, error: MirrorlakeError) -> None:
    is_odd = isinstance(error, ConfigurationError)
    survey.findings.append(Finding(store=store, name=name, error=error, is_odd_name=is_odd))


def _stray(survey: Survey, store: StoreSettings, name: str, error: MirrorlakeError) -> None:
    if survey.is_asked_for(store, name):
        survey.findings.append(Finding(store=store, name=name, error=error, is_beside=True))


Writer = tuple[Mirror, ArchiveDestination, Callable[[str], bool]]
"""A mirror that may write a folder, and which source topics' records it would write there."""


def _writers(owners: Owners, name: str, partition: int) -> list[Writer]:
    """Returns who may write a partition folder: a mirror whose folder has the very name goes before a generation's.

    One of which it is both may write either: an expression selects `orders`, whose second folder is `orders.2`, and a
    topic of that name too.
    """
    found: list[tuple[bool, Writer]] = []
    for mirror, destination in owners:
        if mirror.source.partitions is not None and partition not in mirror.source.partitions:
            continue
        if ways := _topics_of(mirror, destination, name):
            is_generation = all(each for each, _ in ways)
            found.append((is_generation, (mirror, destination, partial(_is_any, [selects for _, selects in ways]))))
    is_exact = any(not is_generation for is_generation, _ in found)
    return [writer for is_generation, writer in found if not (is_generation and is_exact)]


def _is_any(ways: Sequence[Callable[[str], bool]], topic: str) -> bool:
    return any(selects(topic) for selects in ways)


def _topics_of(mirror: Mirror, destination: ArchiveDestination, name: str) -> list[tuple[bool, Callable[[str], bool]]]:
    """Returns how a folder can be a mirror's, and of which topics.

    And whether it is so only as that of a topic that was recreated, or of the snapshots made of its folder.
    """
    template = re.escape(destination.name_template).replace(re.escape("{topic}"), "(?P<topic>[^/]+)", 1)
    records = name.removesuffix(SNAPSHOT_SUFFIX)
    generation = _GENERATION.fullmatch(records)
    bases = dict.fromkeys((name, records, generation[1] if generation else records))
    ways: list[tuple[bool, Callable[[str], bool]]] = []
    for base in bases:
        is_generation = base != name
        if (found := re.fullmatch(template, base)) is None:
            continue
        if "topic" not in found.groupdict():
            ways.append((is_generation, mirror.source.topics.selects))
        elif mirror.source.topics.selects(found["topic"]):
            ways.append((is_generation, found["topic"].__eq__))
    return ways
