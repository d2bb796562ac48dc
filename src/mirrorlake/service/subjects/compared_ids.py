"""Which schema ids records of mirrors have at their destinations, for who compares copies. Reads registries only."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from mirrorlake.config.schemas.mirrored import MirroredSchemas
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.kinds.kafka import ids_of
from mirrorlake.service.status import StatusRow
from mirrorlake.service.subjects.finding import RegistryClients, way_of
from mirrorlake.service.subjects.id_places import IdPlace, find_id_places
from mirrorlake.service.subjects.planning import mirroring_of
from mirrorlake.topics.targets import Target


class ComparedIds:
    """Asks the registries about each id once. Several threads may call it.

    Args:
        rows: all that are compared: their topics tell what subjects are called at the destination.
    """

    def __init__(self, rows: Sequence[StatusRow]) -> None:
        self._lock = threading.Lock()
        self._targets: dict[tuple[str, str], list[Target]] = defaultdict(list)
        for row in rows:
            self._targets[row.target.mirror.name, row.target.destination.label].append(row.target)
        self._places: dict[tuple[str, str], dict[SchemaName, IdPlace]] = {}

    def of(self, row: StatusRow, ids: Sequence[SchemaName]) -> SchemaIdMap | None:
        """Returns the map for a row's records, ``ids`` among it; None where they keep their ids.

        An id or GUID whose schema the destination does not hold equals none there; a GUID stays as it is where the
        destination's registry gives none.

        Raises:
            MirrorlakeError: a registry did not tell.
        """
        target = row.target
        schemas = target.mirror.schemas_of(target.source.topic)
        if schemas is None or schemas.rules.keeps_ids or not target.is_topic:
            return None
        key = target.mirror.name, target.destination.label
        with self._lock:
            places = self._places.setdefault(key, {})
            if new := [id_ for id_ in ids if id_ not in places]:
                places |= asyncio.run(_asked(self._targets[key], *key, schemas, new))
            return ids_of(
                schemas,
                {id_: each.there for id_, each in places.items() if each.there is not None},
                absent=[id_ for id_, each in places.items() if not each.is_known],
                lost=[i for i, each in places.items() if each.is_known and each.there is None and not each.is_unnamed],
                unnamed=[i for i, each in places.items() if each.is_unnamed and isinstance(i, UUID)],
            )


async def _asked(
    targets: Sequence[Target], mirror: str, destination: str, schemas: MirroredSchemas, ids: Sequence[SchemaName]
) -> dict[SchemaName, IdPlace]:
    registries = RegistryClients()
    try:
        way = await way_of(targets, mirror, destination, schemas, registries)
        for failure in way.failures:
            raise failure
        return await find_id_places(ids, mirroring_of(way, registries))
    finally:
        await registries.close()
