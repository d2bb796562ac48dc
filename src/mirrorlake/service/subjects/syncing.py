"""Takes subjects along while a service runs, and tells leases which schema ids records have at the destination.

In a thread of its own: no lease waits for a registry. A lease that meets an id nobody knows ends for that partition
alone, with an error that names the id (`SchemaUnknownError`); its subject is brought, and the partition is leased again
at once. So a schema is at the destination before its first record is.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from uuid import UUID

import structlog

from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.clock import Clock
from mirrorlake.config.schemas.mirrored import MirroredSchemas, RegistryInArchive
from mirrorlake.errors import MirrorlakeError, StoreUnavailableError
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.groups.syncing import Owns
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.schema_series import SchemaSeries
from mirrorlake.service.subjects.archiving import SubjectArchive
from mirrorlake.service.subjects.bringing import Brought, bring, bring_ids, refusals_of, seen_in, together
from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay, way_of
from mirrorlake.service.subjects.known_ids import KnownIds
from mirrorlake.service.subjects.planning import WayPlan, mirroring_of, plan_way, without_contradictions
from mirrorlake.service.subjects.saying import Key, say_done, say_lost, say_moved, say_unreadable, say_waiting
from mirrorlake.service.subjects.still_there import lost_of, meanings_at
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

FIRST_LOOK_SECONDS_MAX = 10.0
"""Registries that take longer hold up only what needs them."""

CLOSE_SECONDS_MAX = 2.0
"""A registry that does not answer for so long at a stop is left to the end of the process."""

RETRY_SECONDS = 1.0
"""Between two looks at the registries of one mirror while leases wait for an id, or a look has failed."""


@dataclass(slots=True)
class _Way:
    """One mirror on its way to one destination, and how its registries were last seen.

    Either ``cluster`` says to which cluster its records go, or ``store`` to which archive, whose ``folder`` of schemas
    is opened at the first look.
    """

    schemas: MirroredSchemas
    cluster: str
    store: StoreSettings | None
    known: KnownIds
    folder: ArchivedSchemas | None = None
    targets: dict[object, Target] = field(default_factory=dict)
    plan: WayPlan | None = None
    looked_at: float = -inf
    tried_at: float = -inf
    said: str = ""
    damage_said: set[str] = field(default_factory=set)
    guids_said: set[UUID] = field(default_factory=set)

    def shares_registry_with(self, other: "_Way") -> bool:
        """Tells whether both have a registry in common."""
        ends = [other.schemas.source, other.schemas.destination]
        return self.schemas.source in ends or (self.schemas.destination or self.schemas.source) in ends

    def is_due(self, now: float) -> bool:
        """Tells whether a look is due; one that failed, or found an id unknown, is taken again after a pause."""
        if self.known.has_news:
            return True
        is_waited_for = self.known.is_asked or now - self.looked_at >= self.schemas.interval_seconds
        return is_waited_for and now - self.tried_at >= RETRY_SECONDS


class SchemaSync:
    """The subjects of everything a run mirrors with `schemas`. Several threads may call it.

    Args:
        series: told what was done, and what failed.
        owns: tells whose a mirror is.
        markers: knows whether an archive's root is still the one it was.
        writer: names this process in archives.
        clock: tells when a look is due.
        answered: called with a mirror and a destination's label when ids that its leases wait for are known.
    """

    def __init__(
        self,
        series: SchemaSeries,
        *,
        owns: Owns,
        markers: ArchiveMarkers,
        writer: str,
        clock: Clock,
        answered: Callable[[str, str], None],
    ) -> None:
        self._series = series
        self._owns = owns
        self._markers = markers
        self._writer = writer
        self._clock = clock
        self._answered = answered
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        # One for all looks, so that the clients' connections and what they know outlive one; by one thread at a time.
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._registries = RegistryClients()
        self._ways: dict[Key, _Way] = {}
        self._altered: set[Key] = set()

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]]) -> None:
        """Takes partitions of all mirrors; a mirror whose `schemas` have changed begins anew."""
        with self._lock:
            for target, _ in pairs:
                schemas = target.mirror.schemas_of(target.source.topic)
                if schemas is None or not (target.is_topic or target.destination.schema_store):
                    continue
                key = target.mirror.name, target.destination.label
                way = self._ways.get(key)
                if way is None or way.schemas != schemas:
                    way = self._ways[key] = self._way(target, schemas)
                if target.source not in way.targets:
                    way.looked_at = -inf  # its topic may be new, and so its subjects
                way.targets[target.source] = target

    def _way(self, target: Target, schemas: MirroredSchemas) -> _Way:
        store = target.destination.schema_store
        known = KnownIds(schemas, clock=self._clock, is_archived=store is not None)
        if store is not None:
            return _Way(schemas, "", store.settings, known)
        return _Way(schemas, target.kafka.cluster.name, None, known)

    def map_of(self, mirror: str, destination: str) -> SchemaIdMap | None:
        """Returns what is known by now of the ids on a way; None where records keep theirs."""
        way = self._ways.get((mirror, destination))
        return None if way is None else way.known.map

    def ask(self, mirror: str, destination: str, ids: tuple[SchemaName, ...]) -> None:
        """Takes ids and GUIDs that a lease has met and the map does not hold; says so once, until there are more."""
        way = self._ways.get((mirror, destination))
        if way is not None and (waited_for := way.known.ask(ids)):
            say_waiting((mirror, destination), way.schemas, waited_for)

    def look(self) -> None:
        """Looks at what is due: subjects as often as their mirror says, ids that leases wait for at once."""
        with self._looking:
            now = self._clock.elapsed_seconds()
            with self._lock:
                ways = dict(self._ways)
            # An archive has no owner: several processes may write there, and so may they archive schemas.
            due = {
                key: way
                for key, way in ways.items()
                if way.is_due(now) and (way.store is not None or self._owns(key[0], [way.cluster]))
            }
            if due:
                self._event_loop = self._event_loop or asyncio.new_event_loop()
                self._event_loop.run_until_complete(self._look(due, now))

    def take_altered(self) -> set[Key]:
        """Returns where ids that leases may use were seen to be others or lost, since this was asked last."""
        with self._lock:
            altered, self._altered = self._altered, set()
        return altered

    def look_first(self) -> None:
        """Takes the first look, which leases would only wait for; for `FIRST_LOOK_SECONDS_MAX` at most."""
        first = threading.Thread(target=self.look, name="schema-first-look", daemon=True)
        first.start()
        first.join(FIRST_LOOK_SECONDS_MAX)

    def close(self) -> None:
        """Closes the connections. No look follows; one that is under way is waited for, for a moment."""
        with self._lock:
            self._ways = {}
        if self._looking.acquire(timeout=CLOSE_SECONDS_MAX):
            try:
                if self._event_loop is not None:
                    self._event_loop.run_until_complete(self._registries.close())
                    self._event_loop.close()
                    self._event_loop = None
            finally:
                self._looking.release()

    async def _look(self, due: dict[Key, _Way], now: float) -> None:
        for key, way in due.items():
            try:
                failures = await self._look_at(key, way, now)
            except MirrorlakeError as error:
                failures = [error]
                way.known.not_answered()
            self._say(key, way, failures)

    async def _look_at(self, key: Key, way: _Way, now: float) -> list[MirrorlakeError]:
        """Brings subjects that are due, then ids that are asked for; returns what went wrong."""
        way.tried_at = now
        way.known.looking()
        found = await way_of([*way.targets.values()], *key, way.schemas, self._registries)
        if way.store is not None:
            await self._archive(key, way, way.store, found, now)
            return [*found.failures]
        mirroring, failures = mirroring_of(found, self._registries), [*found.failures]
        asked = way.known.asked
        if now - way.looked_at >= way.schemas.interval_seconds:
            way.plan = await plan_way(found, self._registries)
            with self._lock:
                others = [each.plan for each in self._ways.values() if each.plan is not None and each is not way]
            planned, *_ = without_contradictions([way.plan, *others])
            failures = [*planned.failures]
            if planned.plan is not None:
                await self._bring(key, way, planned.plan, mirroring)
                way.looked_at = now
                failures += refusals_of(planned.plan)
            asked = (*way.known.asked, *way.known.absent)
        if asked:
            self._take(key, way, await bring_ids(asked, mirroring, named={each.source for each in found.subjects}))
        return failures

    async def _bring(self, key: Key, way: _Way, plan: MirrorPlan, mirroring: SubjectMirroring) -> None:
        """Brings what the mirror names and what only ids of records need.

        What a registry has lost is told first: bringing it back may take long, or fail.
        """
        plans = [plan]
        if others := way.known.subjects - {each.source.subject for each in plan.plans}:
            plans.append(await mirroring.plan(sorted(others)))
        seen = together(seen_in(each) for each in plans)
        unseen = way.known.unseen(seen)
        awaited = unseen.keys() & {name for each in plans for name in each.awaited}
        asked = {name: there for name, there in unseen.items() if name not in awaited}
        lost = await lost_of(asked, mirroring.destination)
        self._take(key, way, replace(seen, lost=lost | awaited))
        self._take(key, way, Brought(meanings=await meanings_at(asked, mirroring.source)))
        for each in plans:
            # A subject that no mirror names keeps the level it came with: two that want others would undo each other's.
            if each is plan or each.awaited:
                self._take(key, way, await bring(each, mirroring))

    async def _archive(self, key: Key, way: _Way, store: StoreSettings, found: SubjectWay, now: float) -> None:
        """Archives subjects that are due, then those of ids that are asked for."""
        await asyncio.to_thread(self._check_root, store)
        source = way.schemas.source
        if way.folder is None:
            registry = source.registry if isinstance(source, RegistryInArchive) else source.name
            way.folder = ArchivedSchemas(open_store(store), registry)
        archive = SubjectArchive(
            source=self._registries.reader(source), schemas=way.folder, writer=self._writer, clock=self._clock
        )
        asked = way.known.asked
        named = [each.source for each in found.subjects]
        if now - way.looked_at >= way.schemas.interval_seconds:
            brought = await archive.bring([*dict.fromkeys([*named, *sorted(way.known.subjects)])])
            self._take(key, way, brought)
            way.looked_at = now
            self._take(key, way, Brought(meanings=await meanings_at(way.known.unseen(brought), archive.source)))
            asked = (*way.known.asked, *way.known.absent)
        if asked:
            self._take(key, way, await archive.bring_ids(asked, named=named))

    def _check_root(self, store: StoreSettings) -> None:
        """Checks that a root is the archive that is meant: one that is not mounted gets no schemas.

        Raises:
            MirrorlakeError: it is another one, or it is not known yet.
        """
        if not self._markers.archive_id(store):
            self._markers.update()
        if error := self._markers.gone_roots().get(store):
            raise error
        if not self._markers.archive_id(store):
            raise StoreUnavailableError(f"{store.where('')} has no marker yet that says which archive it is")

    def _take(self, key: Key, way: _Way, brought: Brought) -> None:
        mirror, destination = key
        waited = way.known.is_asked
        moved = way.known.take(brought)
        registry = way.schemas.source if way.store is not None else way.schemas.there
        say_done(key, brought.done, registry=registry.name, is_archive=way.store is not None)
        for damage in brought.damage:
            if damage.text not in way.damage_said:
                way.damage_said.add(damage.text)
                _log.warning("archived schemas are damaged", name=mirror, destination=destination, error=damage.text)
        say_moved(key, way.schemas, moved)
        if brought.lost:
            say_lost(key, way.schemas, brought.lost)
        if moved or brought.lost:
            self._look_again_for(way)
            with self._lock:
                self._altered.add(key)
        unreadable = way.known.unnamed
        if way.schemas.rules.keeps_ids and way.store is None:
            # Nobody looks at records, and so it is said of those of all subjects.
            others = {g for g, there in brought.pairs.items() if isinstance(g, UUID) and g != there}
            unreadable = brought.unnamed | others
        if not unreadable <= way.guids_said:
            say_unreadable(key, way.schemas, unreadable - way.guids_said)
            way.guids_said |= unreadable
        self._series.looked(mirror, destination, brought, way.known.counts)
        if waited and not way.known.is_asked:
            self._answered(mirror, destination)

    def _look_again_for(self, way: _Way) -> None:
        """Lets all who share a registry with one in which something has changed look at once."""
        with self._lock:
            for other in self._ways.values():
                if other is not way and way.shares_registry_with(other):
                    other.looked_at = -inf

    def _say(self, key: Key, way: _Way, failures: Iterable[MirrorlakeError]) -> None:
        """Says what failed, once until it changes."""
        said = "; ".join(sorted(map(str, failures)))
        mirror, destination = key
        if said:
            self._series.failed(mirror, destination)
        if said and said != way.said:
            _log.warning(
                "subjects could not be taken along, and are tried again",
                name=mirror,
                destination=destination,
                error=said,
            )
        if way.said and not said:
            _log.info("subjects are taken along again", name=mirror, destination=destination)
        way.said = said
