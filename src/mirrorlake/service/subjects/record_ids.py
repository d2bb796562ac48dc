"""Which schema ids the records of mirrors' topics carry, and who can read them. Changes nothing.

Records are read for it but for those of archived segments that say it of themselves.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from uuid import UUID

from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.schema_ids.counts import Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.kafka.schema_ids.id_map import KEY, VALUE, SchemaName
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay
from mirrorlake.service.subjects.id_places import IdPlace, find_id_places
from mirrorlake.service.subjects.planning import mirroring_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

NAMES_ASKED_AT_ONCE = 64

READABLE = frozenset({Framing.NULL, Framing.KNOWN})
"""What a reader with the source's registry has no trouble with."""


@dataclass(slots=True, kw_only=True)
class SideIds:
    """What one side, keys or values, of a topic's records carries.

    ``first`` says by partition and offset where the first record of each framing was met.
    """

    records: Counter[Framing] = field(default_factory=Counter)
    first: dict[Framing, tuple[int, int]] = field(default_factory=dict)

    def note(self, framing: Framing, partition: int, seen: Seen) -> None:
        """Adds records of a partition."""
        self.records[framing] += seen.records
        place = (partition, seen.first_offset)
        self.first[framing] = min(place, self.first.get(framing, place))

    @property
    def unreadable(self) -> int:
        """Records no reader could make anything of."""
        return sum(count for framing, count in self.records.items() if framing not in READABLE)


@dataclass(slots=True, kw_only=True)
class WayIds:
    """What was found of a mirror's topics on their way to one destination."""

    way: SubjectWay
    sides: dict[tuple[str, str], SideIds] = field(default_factory=lambda: defaultdict(SideIds))
    """By the source's topic, and ``key`` or ``value``."""
    ids: dict[SchemaName, IdPlace] = field(default_factory=dict)
    failures: list[MirrorlakeError] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True where a record cannot be read on both sides, or something is not known."""
        is_lost = any(each.there is None for each in self.ids.values())
        return bool(is_lost or self.failures or any(each.unreadable for each in self.sides.values()))


async def find_record_ids(
    config: Configuration, clients: WorkerCache, registries: RegistryClients, ways: Sequence[SubjectWay]
) -> list[WayIds]:
    """Returns what the records of each way's topics carry. Looks at every partition from its start to its end of now.

    A partition or registry that cannot be asked is a failure of its way, and the others are read all the same.
    """
    targets = await find_targets(config, clients, only=[way.mirror for way in ways])
    found = []
    for way in ways:
        own = [t for t in targets if (t.mirror.name, t.destination.label) == (way.mirror, way.destination)]
        found.append(await _Search(way, clients, registries).over(own))
    return found


class _Search:
    """Reads the records of one way, and asks the registries about each id once."""

    def __init__(self, way: SubjectWay, clients: WorkerCache, registries: RegistryClients) -> None:
        self._clients = clients
        self._mirroring = mirroring_of(way, registries)
        self._sides = way.schemas.has_keys << KEY | way.schemas.has_values << VALUE
        self._found = WayIds(way=way, failures=list(way.failures))

    async def over(self, targets: Sequence[Target]) -> WayIds:
        """Returns what is found of some partitions."""
        for target in targets:
            if target.source.partition == UNKNOWN_PARTITION:
                continue  # the way says so already; any other error of a target is no matter of its source
            try:
                await self._read(target)
            except MirrorlakeError as error:
                self._found.failures.append(error)
        return self._found

    async def _read(self, target: Target) -> None:
        log = target.source_work.log(target.source, self._clients)
        start, end = await log.start(), await log.end()
        if start < end:
            async for counts in log.schema_ids(OffsetRange(start_offset=start, end_offset=end), self._sides):
                await self._ask_about({name for side in counts.values() for name in side.names})
                for name, side in counts.items():
                    self._note(target.source, name, side)

    async def _ask_about(self, names: AbstractSet[SchemaName]) -> None:
        unasked = sorted(names - self._found.ids.keys(), key=str)
        for first in range(0, len(unasked), NAMES_ASKED_AT_ONCE):
            asked = unasked[first : first + NAMES_ASKED_AT_ONCE]
            self._found.ids |= await find_id_places(asked, self._mirroring)

    def _note(self, source: TopicPartition, side: str, counts: SideCounts) -> None:
        seen = self._found.sides[source.topic, side]
        for framing, each in counts.nameless.items():
            seen.note(framing, source.partition, each)
        for name, each in counts.names.items():
            seen.note(_framing_of(name, self._found.ids[name]), source.partition, each)


def _framing_of(name: SchemaName, place: IdPlace) -> Framing:
    """Returns what a record is that names a schema, by what the registries say of it."""
    if place.is_unnamed and isinstance(name, UUID):
        return Framing.GUID
    return Framing.KNOWN if place.is_known and not place.is_unnamed else Framing.ABSENT
