"""Which mirrors a running service serves, so that who asks another one's service finds out whose answer it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMirror:
    """A mirror as a service tells of it: where it reads and writes, each place as its addresses.

    A place without addresses is not known.
    """

    name: str
    source: tuple[str, ...]
    destinations: Mapping[str, tuple[str, ...]]

    def is_same_as(self, other: "ServedMirror") -> bool:
        """Tells whether both read one place, and write to one where they have a destination of one name.

        Two places are one that have an address in common: a cluster may be told by other brokers.
        """
        common = self.destinations.keys() & other.destinations.keys()
        return _meet(self.source, other.source) and all(
            _meet(self.destinations[label], other.destinations[label]) for label in common
        )

    def as_json(self) -> dict[str, object]:
        """Returns what the listener tells of it."""
        destinations = {label: list(place) for label, place in self.destinations.items()}
        return {"name": self.name, "source": list(self.source), "destinations": destinations}


def served_by(config: Configuration) -> list[ServedMirror]:
    """Returns the mirrors that a service of this configuration serves."""
    return [_served(mirror) for mirror in config.enabled_mirrors]


def read_served(answer: Any) -> tuple[ServedMirror, ...] | None:
    """Returns the mirrors of an answer; None where a service of before does not tell them.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not one of a mirrorlake.
    """
    if "mirrors" not in answer:
        return None
    return tuple(
        ServedMirror(
            name=str(row["name"]),
            source=tuple(map(str, row["source"])),
            destinations={str(label): tuple(map(str, place)) for label, place in row["destinations"].items()},
        )
        for row in answer["mirrors"]
    )


def _served(mirror: Mirror) -> ServedMirror:
    source = mirror.source
    return ServedMirror(
        name=mirror.name,
        source=_place(source.cluster if isinstance(source, KafkaSource) else source.store),
        destinations={each.label: _place(_system(each)) for each in mirror.destinations},
    )


def _system(destination: object) -> Cluster | Store | None:
    """Returns where a destination lies; None of a kind of one's own that lies elsewhere."""
    system = getattr(destination, "cluster", None) or getattr(destination, "store", None)
    return system if isinstance(system, Cluster | Store) else None


def _place(system: Cluster | Store | None) -> tuple[str, ...]:
    if system is None:
        return ()
    return system.settings.bootstrap_servers if isinstance(system, Cluster) else (system.settings.where(""),)


def _meet(one: Sequence[str], other: Sequence[str]) -> bool:
    return not (one and other) or not set(one).isdisjoint(other)
