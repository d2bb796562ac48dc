"""Which partition folders `mirrorlake archive` looks at: those of a configuration's mirrors, or all below a folder.

Only stores are asked, never a cluster: an archive can be looked at where its source is gone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.inspection import archived_folders, are_snapshots, extension_found
from mirrorlake.archive.names import partition_prefix
from mirrorlake.config.resolved import ArchiveDestination, Compaction, Configuration, Mirror
from mirrorlake.errors import ConfigurationError, MirrorlakeError
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings

_GENERATION = re.compile(r"(.+)\.[0-9]+")
"""The folder of a topic that was recreated, after ``provenance.generation_name``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What to leave out; empty lets everything pass. ``names`` are folder names."""

    mirrors: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlace:
    """One partition folder. ``mirror`` is None where no configuration says whose it is.

    ``are_snapshots`` is None where the files have to say it.
    """

    store: StoreSettings
    name: str
    partition: int
    mirror: str | None = None
    are_snapshots: bool | None = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with something that is no partition folder that is there.

    ``name`` is a folder of the store, empty for the store itself; ``partition`` is None where it is not of one.
    ``is_odd_name`` is True where nothing is wrong but a name that mirrorlake never writes.
    """

    store: StoreSettings
    name: str = ""
    partition: int | None = None
    error: MirrorlakeError
    is_odd_name: bool = False


Owners = Sequence[tuple[Mirror, ArchiveDestination]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What there is to look at: stores, their partition folders, and what could not be looked into.

    ``owners`` are the mirrors that write to each store, empty where no configuration says it.
    """

    filters: Filters
    owners: Mapping[StoreSettings, Owners]
    places: list[ArchivePlace] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def is_asked_for(self, store: StoreSettings, name: str) -> bool:
        """Tells whether a folder of a store is one that is to be looked at."""
        owners = self.owners[store]
        is_owned = not owners or any(_writes(*owner, name) for owner in owners)
        return is_owned and (not self.filters.names or name in self.filters.names)


def places_below(root: Path, filters: Filters) -> Survey:
    """Returns every partition folder of an archive on a file system.

    Raises:
        MirrorlakeError: the folder could not be read.
    """
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
    owners: dict[StoreSettings, list[tuple[Mirror, ArchiveDestination]]] = {}
    for mirror in config.mirrors:
        for destination in mirror.destinations:
            if isinstance(destination, ArchiveDestination) and (not filters.mirrors or mirror.name in filters.mirrors):
                owners.setdefault(destination.store.settings, []).append((mirror, destination))
    if not owners:
        raise ConfigurationError(f"{config.file} has no mirror with an archive destination")
    return _survey(owners, filters)


def _survey(owners: Mapping[StoreSettings, Owners], filters: Filters) -> Survey:
    survey = Survey(filters=filters, owners=owners)
    for store in owners:
        for name, partition in archived_folders(open_store(store), pass_over=partial(_pass_over, survey, store)):
            if not survey.is_asked_for(store, name) or (filters.partitions and partition not in filters.partitions):
                continue
            owner = next((pair for pair in owners[store] if _writes(*pair, name)), None)
            if owner is None:
                survey.places.append(ArchivePlace(store=store, name=name, partition=partition))
                continue
            mirror, destination = owner
            snapshots = destination.compaction is Compaction.LOG
            survey.places.append(
                ArchivePlace(store=store, name=name, partition=partition, mirror=mirror.name, are_snapshots=snapshots)
            )
    return survey


def _pass_over(survey: Survey, store: StoreSettings, name: str, error: MirrorlakeError) -> None:
    is_odd = isinstance(error, ConfigurationError)
    survey.findings.append(Finding(store=store, name=name, error=error, is_odd_name=is_odd))


def _writes(mirror: Mirror, destination: ArchiveDestination, name: str) -> bool:
    """Tells whether a folder is one a mirror writes to: of a topic it selects, or of one that was recreated."""
    template = re.escape(destination.name_template).replace(re.escape("{topic}"), "(?P<topic>.+)", 1)
    generation = _GENERATION.fullmatch(name)
    for base in (name, generation[1]) if generation else (name,):
        found = re.fullmatch(template, base)
        if found and ("topic" not in found.groupdict() or mirror.source.topics.selects(found["topic"])):
            return True
    return False
