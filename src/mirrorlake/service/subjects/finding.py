"""Which subjects belong to the topics of configured mirrors; asks clusters and registries, and changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.archive.schemas.client import ArchivedRegistry
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry, RegistryInArchive
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ConfigurationError, MirrorlakeError
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.mirroring import SchemaReader
from mirrorlake.schemas.naming import NamedSubject, SubjectStrategy, subjects_of_topic
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target


class RegistryClients:
    """One client for each registry, and one reader for what an archive holds of one; to be closed."""

    def __init__(self) -> None:
        self._clients: dict[RegistrySettings, RegistryClient] = {}
        self._archived: dict[tuple[StoreSettings, str], ArchivedRegistry] = {}

    def reader(self, source: Registry | RegistryInArchive) -> SchemaReader:
        """Returns what reads the subjects of a source."""
        if isinstance(source, Registry):
            return self.client(source.settings)
        key = source.store, source.registry
        if key not in self._archived:
            schemas = ArchivedSchemas(open_store(source.store), source.registry)
            self._archived[key] = ArchivedRegistry(source.name, schemas, where=source.store.where(""))
        return self._archived[key]

    def client(self, settings: RegistrySettings) -> RegistryClient:
        """Returns the client of a registry."""
        if settings not in self._clients:
            self._clients[settings] = RegistryClient(settings)
        return self._clients[settings]

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.close()
        self._archived = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectWay:
    """The subjects of a mirror's topics on their way to one of its destinations.

    Attributes:
        mirror: its name.
        destination: the destination's label.
        schemas: how they are mirrored.
        subjects: those that can be told.
        notes: what is to be known of others.
        failures: what could not be found out.
    """

    mirror: str
    destination: str
    schemas: MirroredSchemas
    subjects: tuple[NamedSubject, ...]
    notes: tuple[str, ...] = ()
    failures: tuple[MirrorlakeError, ...] = ()


async def find_subjects(
    config: Configuration,
    clients: WorkerCache,
    registries: RegistryClients,
    *,
    mirrors: Sequence[str] | None = None,
    subjects: Sequence[str] | None = None,
) -> list[SubjectWay]:
    """Returns the subjects of each mirror that takes schemas to a registry, by its Kafka destinations.

    Args:
        config: says which mirrors.
        clients: of the clusters.
        registries: clients of the registries.
        mirrors: their names; None for all.
        subjects: only these, by the source's names; those that only records could tell are taken as they are. None for
            all that can be told.

    Raises:
        ConfigurationError: no mirror takes schemas to a registry, or none has a subject that was asked for.
    """
    meant = [m for m in config.enabled_mirrors if m.schemas and (mirrors is None or m.name in mirrors)]
    chosen = [m for m in meant if m.schemas and m.schemas.destination is not None]
    if meant and not chosen:
        raise ConfigurationError(
            "no mirror that is meant takes schemas to a registry: they are archived while `mirrorlake run` runs",
            hint="this command is about mirrors with `schemas: {from: …, to: …}`",
        )
    if not chosen:
        raise ConfigurationError("no mirror that is meant has `schemas`", hint="say there which registries it takes")
    targets = await find_targets(config, clients, only=[mirror.name for mirror in chosen])
    ways = []
    for mirror in chosen:
        assert mirror.schemas is not None
        for destination in mirror.kafka_destinations:
            own = [t for t in targets if (t.mirror.name, t.destination.label) == (mirror.name, destination.label)]
            ways.append(await way_of(own, mirror.name, destination.label, mirror.schemas, registries, asked=subjects))
    known = {each.source for way in ways for each in way.subjects}
    for name in subjects or ():
        if name not in known and not any(way.failures for way in ways):
            raise ConfigurationError(
                f"no mirror that is meant has the subject {name}",
                hint="subjects are named as the source's registry does, and by the strategies of `schemas`",
            )
    return ways


async def way_of(
    targets: Sequence[Target],
    mirror: str,
    destination: str,
    schemas: MirroredSchemas,
    registries: RegistryClients,
    *,
    asked: Sequence[str] | None = None,
) -> SubjectWay:
    """Returns the subjects of a mirror's topics on their way to one destination.

    Args:
        targets: the mirror's partitions at that destination.
        mirror: its name.
        destination: the destination's label.
        schemas: how they are mirrored.
        registries: clients of the registries.
        asked: only these; see `find_subjects`.
    """
    strategies = {True: schemas.key, False: schemas.value}
    failures = {str(each.error): each.error for each in targets if each.error and _is_unknown(each)}
    listed: list[str] = []
    if SubjectStrategy.TOPIC_RECORD_NAME in strategies.values():
        try:
            listed = await registries.reader(schemas.source).subjects()
        except MirrorlakeError as error:
            failures[str(error)] = error
    topics = dict.fromkeys((t.source.topic, t.destination_topic) for t in targets if not _is_unknown(t))
    found: dict[NamedSubject, None] = {}
    for topic, there in topics:
        for is_key, strategy in strategies.items():
            found |= dict.fromkeys(subjects_of_topic(strategy, topic, there, is_key=is_key, listed=listed))
    by_record = [side for side, s in (("keys", schemas.key), ("values", schemas.value)) if s is _BY_RECORD]
    if asked is not None:
        known = {each.source for each in found}
        found = {each: None for each in found if each.source in asked}
        others = [name for name in asked if name not in known] if by_record else []
        found |= {NamedSubject(source=name, destination=name): None for name in others}
    notes = [f"which subjects its {side} have only the records say: name them by --subject" for side in by_record]
    return SubjectWay(
        mirror=mirror,
        destination=destination,
        schemas=schemas,
        subjects=tuple(found),
        notes=tuple(notes) if asked is None else (),
        failures=tuple(failures.values()),
    )


_BY_RECORD = SubjectStrategy.RECORD_NAME


def _is_unknown(target: Target) -> bool:
    """Tells whether a target stands for topics that could not be found."""
    return target.source.partition == UNKNOWN_PARTITION
