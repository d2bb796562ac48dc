"""An archive as destination of a mirror: its files, and how they are cut, merged and retired."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import time
from enum import StrEnum
from pathlib import PurePosixPath
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination, Flaw
from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.problems import Place
from mirrorlake.config.systems.store import Store
from mirrorlake.filters.branch import Branch
from mirrorlake.offsets import StartKind
from mirrorlake.page_compression import Compression
from mirrorlake.schedule import Schedule


class ArchiveFormat(StrEnum):
    """What a segment file holds."""

    PARQUET = "parquet"
    NDJSON = "ndjson"
    LOG = "log"


class Compaction(StrEnum):
    """Whether segments are every record, or snapshots of the latest record per key."""

    NONE = "none"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """When an archive's segment is cut: whichever comes first. All bounds are above zero."""

    bytes_max: int
    records_max: int
    time_seconds_max: float
    daily_at_utc: time | None = None


DEFAULT_MERGE_STEPS = ((3600.0, 64 * 1024**2), (86400.0, 1024**3))
"""After an hour 64 MiB, after a day 1 GiB: files a query engine reads at one go, and few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """How segments are merged. ``steps`` are pairs of a least age in seconds and a size in bytes.

    ``compression`` None is the destination's. ``parallelism`` None is as many at one time as the engine has slots.
    ``schedule`` is when `run` merges; None for never.
    """

    steps: tuple[tuple[float, int], ...]
    files_min: int
    files_max: int
    bytes_min: int
    keep_inputs_seconds: float
    parallelism: int | None
    compression: Compression | None = None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainSettings:
    """What stays of a topic; None is no bound, and one is given. ``schedule`` is when `run` retires; None for never."""

    age_seconds_max: float | None
    bytes_max: int | None
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDestination(Destination):
    """An archive as destination.

    ``name_template`` gives the folder below the store's root; of the placeholders only ``{topic}`` is left.
    ``snapshots_kept`` is how many snapshots of a partition stay, the newest among them; None for all. Without ``merge``
    nothing is merged, without ``retain`` everything stays, without ``groups`` no consumer group's offsets are kept.
    """

    type_in_file: ClassVar[str] = "archive"

    store: Store
    name_template: str = "{topic}"
    format: ArchiveFormat = ArchiveFormat.PARQUET
    compression: Compression = Compression.ZSTD_1
    compaction: Compaction = Compaction.NONE
    snapshots_kept: int | None = None
    flush: Flush
    merge: MergeSettings | None = None
    retain: RetainSettings | None = None
    groups: GroupSettings | None = None

    @property
    def kept_compression(self) -> Compression:
        """Returns how what merges and erasures make is compressed."""
        own = self.merge.compression if self.merge is not None else None
        return self.compression if own is None else own

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """Returns when `run` does what to it, by ``retain`` and ``merge``; in this order where both are due."""
        wanted = {"retain": self.retain, "merge": self.merge}
        return {
            what: settings.schedule
            for what, settings in wanted.items()
            if settings is not None and settings.schedule is not None
        }

    @property
    def type_name(self) -> str:
        """Returns the type as users name it: that of the store."""
        return self.store.type_name

    @property
    def schema_store(self) -> Store:
        """Returns the archive's own store."""
        return self.store

    @property
    def has_view(self) -> bool:
        """True with ``compaction: log``."""
        return self.compaction is Compaction.LOG

    def name_for(self, topic: str) -> str:
        """Returns the folder name of a source topic; one path segment."""
        return self.name_template.replace("{topic}", topic)

    def place_of(self, name: str) -> PurePosixPath:
        """Returns the folder, with the store in front."""
        return self.store.folder(name)

    def where(self, name: str) -> str:
        """Returns folder and store."""
        return f"folder {name} of store {self.store.name}"

    def start_flaw(self, start: StartKind) -> Flaw:
        """Returns that a chain of files begins at the source's first offset."""
        del start
        return Flaw(
            message=f"an archive begins at `earliest` only, and {self.label} is one",
            hint="use `start: earliest`, or a mirror of its own for this one",
        )

    def filter_flaw(self) -> Flaw | None:
        """Returns why a view needs every record."""
        message = f"a filter cannot be had with `compaction: log`, which {self.label} has"
        hint = "archive the records with the filter, and take snapshots of that by `mirrorlake archive snapshot`"
        return Flaw(message=message, hint=hint) if self.has_view else None

    def select_flaw(self) -> Flaw | None:
        """Returns why a view needs records as they are."""
        message = f"`select` cannot be had with `compaction: log`, which {self.label} has"
        hint = "archive the records with `select`, and take snapshots of that by `mirrorlake archive snapshot`"
        return Flaw(message=message, hint=hint) if self.has_view else None

    def restart_flaw(self) -> Flaw:
        """Returns that what is archived stays."""
        return Flaw(
            message=f"`on-recreate: restart` deletes the copy, and archive {self.label} is never deleted",
            hint="use `on-recreate: new-topic`",
        )

    def of_route(self, branch: Branch, place: Place) -> "ArchiveDestination":
        """Returns what it is for one folder of a route, which stands at ``place``; its label has that one's name.

        Also where there is but one: the next must not give it another name.
        """
        return replace(
            self, label=f"{self.label}/{branch.topic}", name_template=branch.topic, branch=branch, place=place
        )
