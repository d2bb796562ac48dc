"""What the two forms have in common once they are read."""

from dataclasses import dataclass, field

from mirrorlake.config.problems import FieldPath
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.schemas.mirrored import Registry, RegistryInArchive
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store


@dataclass(slots=True)
class Parts:
    """All of a file that could be read, while the rest is still being judged.

    ``names`` holds the name of every mirror and its place, those included that could not be read otherwise;
    ``destination_types`` may repeat themselves.
    """

    clusters: list[Cluster] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    registries: list[Registry | RegistryInArchive] = field(default_factory=list)
    mirrors: list[Mirror] = field(default_factory=list)
    names: list[tuple[str, FieldPath]] = field(default_factory=list)
    destination_types: list[str] = field(default_factory=list)
