"""Whether registries still know by an id or a GUID what they knew by it. Reads only."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.mirroring import SchemaReader
from mirrorlake.service.subjects.bringing import Meaning
from mirrorlake.service.subjects.known_ids import NameThere
from mirrorlake.together import all_of


async def lost_of(known: Mapping[SchemaName, NameThere], destination: RegistryClient) -> frozenset[SchemaName]:
    """Returns those whose schema the registry does not know any more by what names it there, or has another one by it.

    Args:
        known: by ids and GUIDs of the source.
        destination: the registry.

    Raises:
        MirrorlakeError: the registry did not tell; nothing is concluded of any.
    """
    is_there = await all_of(_is_there(each, destination) for each in known.values())
    return frozenset(name for name, is_it in zip(known, is_there, strict=True) if not is_it)


async def meanings_at(names: Iterable[SchemaName], source: SchemaReader) -> dict[SchemaName, Meaning]:
    """Returns what ids mean at the source whose subjects do not hold them any more; brings nothing.

    Left out is an id that is not known there: nothing contradicts what it meant. So is each GUID, which is made from
    the schema and means no other one.

    Raises:
        MirrorlakeError: the registry did not tell; nothing is concluded of any.
    """
    ids = [name for name in names if not isinstance(name, UUID)]
    found = await all_of(_meaning(id_, source) for id_ in ids)
    return {id_: means for id_, means in zip(ids, found, strict=True) if means is not None}


async def _meaning(id_: int, source: SchemaReader) -> Meaning | None:
    schema = await source.schema_of_id(id_)
    if schema is None:
        return None
    places = await source.places_of_id(id_)
    subject, version = places[0] if places else ("", 0)
    where = f"version {version} of {subject}" if places else "a schema of no subject"
    return Meaning(keys=frozenset({schema.key}), source=where, destination=subject)


async def _is_there(there: NameThere, destination: RegistryClient) -> bool:
    if isinstance(there.name, UUID):
        return bool(await destination.places_of_guid(there.name))  # made from the schema: it means no other one
    schema = await destination.schema_of_id(there.name)
    return schema is not None and schema.key == there.key
