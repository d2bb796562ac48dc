"""What one run consists of, built from its configuration."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.clock import Clock, SystemClock
from mirrorlake.config.read_limits import limits_of
from mirrorlake.config.resolved import Configuration, Form
from mirrorlake.config.spark.settings import is_local
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ConfigurationError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.pipeline.engine import EngineBuilder, settings_of
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.groups.archiving import GroupArchive
from mirrorlake.service.groups.syncing import GroupSync
from mirrorlake.service.heartbeats.writing import HeartbeatWriter
from mirrorlake.service.lease_plans import lease_seconds_max, seconds_until_over, send_seconds_max
from mirrorlake.service.leases.lease_orders import NO_SCHEMA_IDS
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.reloading import CurrentConfiguration
from mirrorlake.service.selection import Pauses
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.health import Pulse
from mirrorlake.service.sight.keeping_board import KeepingBoard
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.sight.staleness import StalenessAlarm
from mirrorlake.service.state_table import StateTable
from mirrorlake.service.states import writer_name
from mirrorlake.service.supervisor import Supervisor
from mirrorlake.service.topics.syncing import TopicLooks
from mirrorlake.sources.source import SourceWork
from mirrorlake.topics.sources import modules_of, source_of

if TYPE_CHECKING:
    from mirrorlake.service.subjects.syncing import SchemaSync

PAUSES_VARIABLE = "MIRRORLAKE_PAUSES"
"""What was paused when this process started itself again, because its engine had died."""

PRELOAD = (
    "mirrorlake.freed_memory:keep_freed_memory",
    "mirrorlake.mirror.lease_worker",
    "mirrorlake.kafka.records.checksum_kernels",
    "mirrorlake.kafka.records.codec:warm",
)

KEEPING = "mirrorlake.archive.maintenance.work"
"""What workers load beside that where archives are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line adds to the configuration.

    ``takes_over`` lets a bounded run take mirrors from an owner that is alive; a service always does.
    ``progressed`` is called now and then, with offsets copied and offsets to copy of a bounded run. ``engine`` starts
    what runs the leases.
    """

    once: bool = False
    takes_over: bool = False
    progressed: Callable[[int, int], None] | None = None
    engine: EngineBuilder = build_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything of a run but its engine and its threads; each part is safe to use from any thread.

    ``wake`` is set when the loop should look again at once. ``current`` is the configuration as it is now.
    ``schemas`` is None where no mirror takes schemas along.
    """

    current: CurrentConfiguration
    options: RunOptions
    clock: Clock
    clients: WorkerCache
    wake: threading.Event
    writer: str
    owners: Owners
    markers: ArchiveMarkers
    groups: GroupArchive
    group_sync: GroupSync
    schemas: "SchemaSync | None"
    topics: TopicLooks
    heartbeats: HeartbeatWriter
    staleness: StalenessAlarm
    metrics: Metrics
    pulse: Pulse
    events: Events
    table: StateTable
    keeping: KeepingBoard

    @property
    def config(self) -> Configuration:
        """The configuration as it is now."""
        return self.current.configuration

    @property
    def sources(self) -> Mapping[str, SourceWork]:
        """Where to read, by mirror."""
        return {mirror.name: source_of(mirror) for mirror in self.config.enabled_mirrors}


def build_parts(config: Configuration, options: RunOptions) -> Parts:
    """Returns the parts of a run; touches nothing outside this process."""
    clock, clients, wake, writer = SystemClock(), WorkerCache(), threading.Event(), writer_name()
    is_v3 = config.form is Form.MIRROR_V3
    metrics = Metrics(clock=clock, has_v3=is_v3)
    keeping = KeepingBoard()
    metrics.registry.register(keeping)
    first_destinations = {mirror.name: mirror.destinations[0].label for mirror in config.enabled_mirrors}
    markers = ArchiveMarkers(writer=writer, clock=clock)
    events = Events(metrics, clock, first_destinations, is_v3=is_v3)
    owners = Owners(clients, owner=writer, clock=clock, hold_seconds=_send_seconds_max(config))
    table = StateTable(once=options.once, clock=clock, events=events, changed=wake.set, pauses=_pauses_before())
    current = CurrentConfiguration(config)
    return Parts(
        current=current,
        options=options,
        clock=clock,
        clients=clients,
        wake=wake,
        writer=writer,
        owners=owners,
        markers=markers,
        groups=GroupArchive(markers, metrics, writer=writer, clock=clock),
        group_sync=GroupSync(metrics, owns=owners.owns, clock=clock),
        schemas=_schema_sync(config, metrics, owners, markers, writer, clock, table),
        heartbeats=HeartbeatWriter(
            metrics.heartbeats,
            mirrors=lambda: current.configuration.enabled_mirrors,
            clients=clients,
            clock=clock,
        ),
        staleness=StalenessAlarm(metrics.registry, clock=clock, limits=lambda: stale_limits_of(current.configuration)),
        topics=TopicLooks(metrics.topics, config=lambda: current.configuration, owns=owners.owns, clock=clock),
        metrics=metrics,
        pulse=Pulse(clock, stop_seconds=config.engine.stop_seconds),
        events=events,
        table=table,
        keeping=keeping,
    )


def _schema_sync(
    config: Configuration,
    metrics: Metrics,
    owners: Owners,
    markers: ArchiveMarkers,
    writer: str,
    clock: Clock,
    table: StateTable,
) -> "SchemaSync | None":
    if not any(mirror.schemas for mirror in config.enabled_mirrors):
        return None
    # A run without registries does without the memory of their client's library.
    from mirrorlake.service.subjects.syncing import SchemaSync

    return SchemaSync(
        metrics.schemas,
        owns=owners.owns,
        markers=markers,
        writer=writer,
        clock=clock,
        answered=table.ids_known,
    )


def _pauses_before() -> Pauses:
    """Returns what was paused before this process started itself again."""
    text = os.environ.pop(PAUSES_VARIABLE, "")
    try:
        return Pauses.of_text(text)
    except (ValueError, TypeError, KeyError) as error:
        hint = "a service sets it for itself, when it starts itself again: unset it"
        raise ConfigurationError(f"{PAUSES_VARIABLE} holds something that no service wrote", hint=hint) from error


def supervisor_of(parts: Parts, lease_files: LeaseFiles) -> Supervisor:
    """Returns what makes leases of the parts' table.

    Args:
        parts: of the run.
        lease_files: of the engine that runs the leases.
    """
    engine = parts.config.engine
    return Supervisor(
        parts.table,
        lanes=engine.lanes,
        lease_seconds=engine.lease_seconds,
        memory_bytes_max=engine.memory_bytes // 8,
        largest_batch_bytes=engine.largest_batch_bytes,
        archive_id_of=parts.markers.archive_id,
        clock=parts.clock,
        events=parts.events,
        holding=parts.owners.holding,
        lease_files=lease_files,
        changed=parts.wake.set,
        limits=lambda: limits_of(parts.config),
        # On a cluster lanes are on hosts that are there for them.
        gathers=is_local(engine.master),
        schemas=parts.schemas or NO_SCHEMA_IDS,
    )


def stale_limits_of(config: Configuration) -> dict[str, float]:
    """Returns the seconds after which copies are stale, by mirror, of mirrors that say so."""
    return {m.name: m.stale_after_seconds for m in config.enabled_mirrors if m.stale_after_seconds is not None}


def session_settings_of(config: Configuration, *, is_stopping: Callable[[], bool]) -> SessionSettings:
    """Returns what the engine is told at its start.

    Args:
        config: of the run.
        is_stopping: ends a start that takes its time.
    """
    destinations = [destination for mirror in config.enabled_mirrors for destination in mirror.destinations]
    keeping = (KEEPING,) if config.keeps_schedules else ()
    of_kinds = {module: None for each in destinations for module in kind_of(each).preload(each)}
    return settings_of(
        config,
        preload=(*PRELOAD, *of_kinds, *modules_of(config.enabled_mirrors), *keeping),
        batch_slots=config.engine.batch_slots,
        serves_page=True,
        is_stopping=is_stopping,
    )


def _send_seconds_max(config: Configuration) -> float:
    """Returns how long after its planning a lease of this configuration may append to a Kafka destination, at most."""
    destinations = [d for mirror in config.enabled_mirrors for d in mirror.destinations]
    sizes = [size for each in destinations if (size := kind_of(each).segment_bytes_max(each)) is not None]
    live_seconds = lease_seconds_max(config.engine.lease_seconds)
    return seconds_until_over(send_seconds_max(live_seconds, max(sizes, default=None)))
