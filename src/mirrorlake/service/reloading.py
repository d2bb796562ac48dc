"""What a changed configuration changes in a running service: some settings at once, all others with a restart."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from mirrorlake.config.resolved import Configuration, Heartbeats, Mirror
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store
from mirrorlake.config.topics.heartbeats import with_heartbeats
from mirrorlake.errors import CommandRefusedError

LIVE = frozenset({"engine.discovery", "engine.tail-check", "engine.stop-timeout", "service.heartbeat", "on-park"})
"""Settings that nothing was built from: they are read whenever they matter."""

MIRROR_SETTINGS = {"limit": "read_bytes_per_second", "heartbeats": "heartbeats"}
"""What a running service takes of a mirror, by its name in a configuration: the field."""

CLUSTER_SETTINGS = {"limit": "read_bytes_per_second"}
"""The same of a cluster."""

OPTION_NAMES = {
    "lease_seconds": "lease",
    "discovery_seconds": "discovery",
    "tail_check_seconds": "tail-check",
    "stop_seconds": "stop-timeout",
    "memory_bytes": "memory",
    "largest_batch_bytes": "largest-batch",
    "heartbeat_seconds": "heartbeat",
}
"""Fields that are called otherwise in a configuration; all others have their own name there, with dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One setting, or one named part, that two configurations have otherwise.

    ``is_part_live`` is True for a setting of a mirror or a cluster that a running service takes: one of
    `MIRROR_SETTINGS` or `CLUSTER_SETTINGS`, and nothing else of it.
    """

    name: str
    is_part_live: bool = False

    @property
    def is_live(self) -> bool:
        """True where a running service can take it."""
        return self.is_part_live or self.name in LIVE


def find_differences(before: Configuration, after: Configuration) -> list[Difference]:
    """Returns what differs, in the order of a configuration; a mirror also where its cluster or store differs."""
    found = [] if before.form is after.form else ["the form of the file"]
    found += _of_parts("clusters", _by_name(before.clusters), _by_name(after.clusters))
    found += _of_parts("stores", _by_name(before.stores), _by_name(after.stores))
    mirrors, new = _by_name(_without_live(before.mirrors)), _by_name(_without_live(after.mirrors))
    found += _of_parts("mirrors", mirrors, new)
    found += _of_fields("engine", before.engine, after.engine)
    found += _of_fields("service", before.service, after.service)
    found += [] if before.on_park is after.on_park else ["on-park"]
    live = _of_settings("clusters", CLUSTER_SETTINGS, _by_name(before.clusters), _by_name(after.clusters))
    live += _of_settings("mirrors", MIRROR_SETTINGS, _by_name(before.mirrors), _by_name(after.mirrors))
    return [
        *(Difference(name=name) for name in found),
        *(Difference(name=name, is_part_live=True) for name in live),
    ]


def _without_live(mirrors: Sequence[Mirror]) -> list[Mirror]:
    return [_with_settings(mirror, bytes_per_second=None, heartbeats=None) for mirror in mirrors]


def _with_settings(mirror: Mirror, *, bytes_per_second: int | None, heartbeats: Heartbeats | None) -> Mirror:
    return replace(
        mirror,
        source=with_heartbeats(mirror.source, heartbeats),
        heartbeats=heartbeats,
        read_bytes_per_second=bytes_per_second,
    )


def _by_name(parts: Sequence[Cluster | Store | Mirror]) -> dict[str, object]:
    return {part.settings.name if isinstance(part, Cluster) else part.name: part for part in parts}


def _of_parts(kind: str, before: dict[str, object], after: dict[str, object]) -> list[str]:
    named = [f"{kind}.{name}" for name in before if name in after and before[name] != after[name]]
    gone = [f"{kind}.{name} (removed)" for name in before if name not in after]
    return [*named, *gone, *(f"{kind}.{name} (added)" for name in after if name not in before)]


def _of_settings(
    kind: str, settings: Mapping[str, str], before: dict[str, object], after: dict[str, object]
) -> list[str]:
    return [
        f"{kind}.{name}.{setting}"
        for name, part in before.items()
        for setting, field in settings.items()
        if name in after and getattr(part, field) != getattr(after[name], field)
    ]


def _of_fields(section: str, before: object, after: object) -> list[str]:
    names = [field.name for field in fields(before)]  # type: ignore[arg-type]
    differ = [name for name in names if getattr(before, name) != getattr(after, name)]
    return [f"{section}.{OPTION_NAMES.get(name, name).replace('_', '-')}" for name in differ]


class CurrentConfiguration:
    """The configuration of a running service; it is replaced as a whole, or not at all. Thread-safe.

    Args:
        configuration: at the start.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()

    @property
    def configuration(self) -> Configuration:
        """As it is now."""
        return self._configuration

    def take(self, after: Configuration) -> list[str]:
        """Takes another configuration; returns the names of the settings that changed. Idempotent.

        Raises:
            CommandRefusedError: something differs that needs a restart. Nothing was taken then.
        """
        with self._lock:
            differences = find_differences(self._configuration, after)
            refused = [each.name for each in differences if not each.is_live]
            if refused:
                raise CommandRefusedError(
                    f"{after.file} was not taken, as these changes need a restart: {', '.join(refused)}",
                    hint="restart the service; while it runs, "
                    f"{', '.join(sorted(LIVE))}, "
                    "`limit` of clusters, and `limit` and `heartbeats` of mirrors can be changed",
                )
            now = self._configuration
            engine = replace(
                now.engine,
                discovery_seconds=after.engine.discovery_seconds,
                tail_check_seconds=after.engine.tail_check_seconds,
                stop_seconds=after.engine.stop_seconds,
            )
            service = replace(now.service, heartbeat_seconds=after.service.heartbeat_seconds)
            later = {mirror.name: mirror for mirror in after.mirrors}
            mirrors = tuple(
                _with_settings(
                    each,
                    bytes_per_second=later[each.name].read_bytes_per_second,
                    heartbeats=later[each.name].heartbeats,
                )
                for each in now.mirrors
            )
            self._configuration = replace(
                now,
                clusters=after.clusters,
                engine=engine,
                service=service,
                on_park=after.on_park,
                mirrors=mirrors,
            )
            return [each.name for each in differences]
