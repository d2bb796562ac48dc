"""Finds the targets of a configuration by asking the clusters; reads only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceTopic, SourceTopics
from mirrorlake.together import all_of
from mirrorlake.topics.clashes import Way, judged_together, origins_of
from mirrorlake.topics.destination_topics import TopicConfigs
from mirrorlake.topics.finding.finder import finder_of
from mirrorlake.topics.finding.look import SourceLook, partitions_of, refused_target
from mirrorlake.topics.handover import States
from mirrorlake.topics.heartbeat_topics import without_heartbeats_of_others
from mirrorlake.topics.letter_topics import without_own_letters
from mirrorlake.topics.sources import identified, source_of, window_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target
from mirrorlake.topics.windows import with_window


async def find_targets(
    config: Configuration,
    clients: WorkerCache,
    *,
    only: Collection[str] | None = None,
    served: Collection[Way] = (),
) -> list[Target]:
    """Returns every target of every enabled mirror, in the configuration's order, partitions ascending.

    What cannot be found out becomes the target's error; one mirror's trouble does not hide another's.

    Args:
        config: says what to look for.
        clients: of the clusters.
        only: names of mirrors; None for all.
        served: what is being copied already.
    """
    mirrors = [m for m in config.enabled_mirrors if only is None or m.name in only]
    everyone = config.enabled_mirrors
    found = await all_of(_MirrorDiscovery(m, clients, everyone).targets() for m in mirrors)
    return judged_together([target for targets in found for target in targets], everyone, served)


class _MirrorDiscovery:
    """Finds one mirror's targets; ``everyone`` are all mirrors of the configuration."""

    def __init__(self, mirror: Mirror, clients: WorkerCache, everyone: Sequence[Mirror]) -> None:
        self._mirror = mirror
        self._everyone = everyone
        self._clients = clients
        self._source_work = source_of(mirror)
        self._source = self._source_work.client(clients)
        self._outside: Mapping[TopicPartition, MirrorlakeError] = {}
        self._not_due: frozenset[TopicPartition] = frozenset()

    async def targets(self) -> list[Target]:
        selection = self._mirror.source.topics
        try:
            asked = None if selection.needs_discovery else sorted(selection.known_names)
            source = await self._source.topics(asked)
            self._source_work = identified(self._source_work, source.source_id)
            # An archive of mirror-v3 has no marker: it is known by its place.
            source = source if source.source_id else replace(source, source_id=self._unnamed())
            missing = [name for name in selection.names if name not in source.topics]
            missing += self._unread(source, missing)
            chosen = [t for n, t in sorted(source.topics.items()) if selection.selects(n) and not t.is_internal]
            chosen = without_own_letters(self._mirror, chosen)
            chosen = without_heartbeats_of_others(self._mirror, self._everyone, chosen)
            configs = await self._source.topic_configs([t.name for t in chosen])
            await self._find_window(chosen)
        except MirrorlakeError as error:
            names = selection.names or ("(by pattern)",)
            return [self._refused(d, TopicPartition(n, UNKNOWN_PARTITION), error) for n in names for d in self._all()]
        targets = [self._missing(name, d, source.errors.get(name)) for name in missing for d in self._all()]
        look = self._look(source.source_id, chosen, configs)
        copies = await self._copies()
        for destination in self._all():
            found = await finder_of(destination)(look, destination)
            targets += _with_origins(found, copies) if destination.is_topic else found
        if self._not_due:
            targets = [replace(each, is_due=each.source not in self._not_due) for each in targets]
        return sorted(targets, key=lambda t: (t.source, [d.label for d in self._all()].index(t.destination.label)))

    def _look(self, source_id: str, topics: Sequence[SourceTopic], configs: TopicConfigs) -> SourceLook:
        return SourceLook(
            mirror=self._mirror,
            everyone=self._everyone,
            clients=self._clients,
            work=self._source_work,
            client=self._source,
            source_id=source_id,
            topics=topics,
            configs=configs,
            outside=self._outside,
        )

    def _unread(self, source: SourceTopics, missing: Sequence[str]) -> list[str]:
        """Returns the topics that an expression selects and that could not be looked into: they are there all the same.

        One that was deleted between two requests is not.
        """
        errors = sorted(source.errors.items())
        unread = [name for name, error in errors if not isinstance(error, TopicMissingError)]
        return [name for name in unread if name not in missing and self._mirror.source.topics.selects(name)]

    async def _find_window(self, topics: Sequence[SourceTopic]) -> None:
        """Bounds the source by the mirror's window; what is found is of this look."""
        partitions = [
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in partitions_of(self._mirror, topic)
            if partition in topic.partitions
        ]
        found = await with_window(self._source_work, window_of(self._mirror), partitions, self._clients)
        self._source_work, self._outside, self._not_due = found.work, found.errors, found.not_due

    async def _copies(self) -> States | MirrorlakeError:
        """Returns the state records of the source cluster, which say which of its topics are copies; or why not.

        Where this user may not read them nothing is known of copies, which is no reason to copy nothing.
        """
        if not any(destination.is_topic for destination in self._all()):
            return {}
        try:
            return await self._source.owner_states()
        except MirrorlakeError as error:
            return error

    def _all(self) -> Sequence[Destination]:
        return self._mirror.destinations

    def _refused(self, destination: Destination, source: TopicPartition, error: MirrorlakeError) -> Target:
        return refused_target(self._mirror, destination, self._source_work, source, error)

    def _missing(self, topic: str, destination: Destination, error: MirrorlakeError | None) -> Target:
        partitions = self._mirror.source.partitions
        return self._refused(
            destination,
            TopicPartition(topic, partitions[0] if partitions else UNKNOWN_PARTITION),
            error
            or TopicMissingError(
                f"source topic {topic} does not exist on {self._source_work.label} ({self._source_work.place})",
                hint="check the name, and that this user may describe it",
                topic=topic,
            ),
        )

    def _unnamed(self) -> str:
        """Returns what tells a source from others that has no id of its own; empty where nothing does."""
        return self._source_work.place if isinstance(self._mirror.source, ArchiveSource) else ""


def _with_origins(targets: Sequence[Target], copies: States | MirrorlakeError) -> list[Target]:
    if isinstance(copies, MirrorlakeError):
        return [replace(target, origins_unread=copies) for target in targets]
    origins = {topic: origins_of(topic, copies) for topic in {target.source.topic for target in targets}}
    return [replace(target, origins=found) if (found := origins[target.source.topic]) else target for target in targets]
