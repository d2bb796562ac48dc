"""Which schema ids the records of mirrors' topics carry, and who can read them; reads everything, changes nothing."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import RecordColumns, encode_batch
from mirrorlake.kafka.schema_ids.finding import SIDE_NAMES, Framing, find_ids
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay
from mirrorlake.service.subjects.id_places import IdPlace, find_id_places
from mirrorlake.service.subjects.planning import mirroring_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

READABLE = frozenset({Framing.NULL, Framing.KNOWN})
"""What a reader with the source's registry has no trouble with."""


@dataclass(slots=True, kw_only=True)
class SideIds:
    """What one side, keys or values, of a topic's records carries.

    ``first`` says by partition and offset where the first record of each framing was met.
    """

    records: Counter[Framing] = field(default_factory=Counter)
    first: dict[Framing, tuple[int, int]] = field(default_factory=dict)

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
    """Returns what the records of each way's topics carry. Reads every partition from its start to its end of now.

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
        self._has = {"key": way.schemas.has_keys, "value": way.schemas.has_values}
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
            async for records in log.read_range(OffsetRange(start_offset=start, end_offset=end)):
                await self._look_at(target, records)

    async def _look_at(self, target: Target, records: RecordColumns) -> None:
        # The offsets are counted anew, as those of a batch may not be far apart.
        data = encode_batch(records.renumbered(0), codec=Codec.NONE)
        (batch,) = walk(memoryview(data))
        while (found := find_ids(batch, self._asked())).unknown:
            self._found.ids |= await find_id_places(found.unknown, self._mirroring)
        for side, name in enumerate(SIDE_NAMES):
            if not self._has[name]:
                continue
            seen = self._found.sides[target.source.topic, name]
            for framing in Framing:
                if count := found.count(side, framing):
                    row = found.first_offset(side, framing)
                    seen.records[framing] += count
                    seen.first.setdefault(framing, (target.source.partition, int(records.offsets[row])))

    def _asked(self) -> SchemaIdMap:
        places = self._found.ids
        unnamed = [name for name, place in places.items() if place.is_unnamed and isinstance(name, UUID)]
        known = {name for name, place in places.items() if place.is_known and not place.is_unnamed}
        return SchemaIdMap.of(
            {name: name if isinstance(name, UUID) else 0 for name in known},  # nothing is rewritten here
            absent=places.keys() - known - {*unnamed},
            unnamed=unnamed,
            keys=self._has["key"],
            values=self._has["value"],
        )
