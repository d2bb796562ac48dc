"""Which partition folders `mirrorlake archive` looks at: those of a configuration's mirrors, or all below a folder.

Only stores are asked, never a cluster: an archive can be looked at where its source is gone.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.inspection import archived_folders, are_snapshots, extension_found
from mirrorlake.archive.names import partition_prefix
from mirrorlake.config.resolved import ArchiveDestination, Compaction, Configuration, Mirror
from mirrorlake.errors import ConfigurationError
from mirrorlake.service.archive_stores import store_settings
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings

_GENERATION = re.compile(r"(.+)\.[0-9]+")
"""The folder of a topic that was made again, after ``provenance.generation_name``."""


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


def places_below(root: Path, filters: Filters) -> list[ArchivePlace]:
    """Returns every partition folder of an archive on a file system.

    Raises:
        MirrorlakeError: the folder could not be read.
    """
    return list(_places(FilesystemSettings(root=root.absolute()), filters, ()))


def places_of(config: Configuration, filters: Filters) -> list[ArchivePlace]:
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
                owners.setdefault(store_settings(destination), []).append((mirror, destination))
    if not owners:
        raise ConfigurationError(f"{config.file} has no mirror with an archive destination")
    return [place for store, pairs in owners.items() for place in _places(store, filters, pairs)]


def _places(
    store: StoreSettings, filters: Filters, owners: Iterable[tuple[Mirror, ArchiveDestination]]
) -> Iterator[ArchivePlace]:
    pairs = list(owners)
    for name, partition in archived_folders(open_store(store)):
        if filters.names and name not in filters.names:
            continue
        if filters.partitions and partition not in filters.partitions:
            continue
        owner = next((pair for pair in pairs if _writes(*pair, name)), None)
        if owner is not None:
            mirror, destination = owner
            snapshots = destination.compaction is Compaction.LOG
            yield ArchivePlace(store=store, name=name, partition=partition, mirror=mirror.name, are_snapshots=snapshots)
        elif not pairs:
            yield ArchivePlace(store=store, name=name, partition=partition)


def _writes(mirror: Mirror, destination: ArchiveDestination, name: str) -> bool:
    """Tells whether a folder is one a mirror writes to: of a topic it selects, or of one that was made again."""
    template = re.escape(destination.name_template).replace(re.escape("{topic}"), "(?P<topic>.+)", 1)
    generation = _GENERATION.fullmatch(name)
    for base in (name, generation[1]) if generation else (name,):
        found = re.fullmatch(template, base)
        if found and ("topic" not in found.groupdict() or mirror.source.topics.selects(found["topic"])):
            return True
    return False
