"""Whether a destination's registry still knows by an id or a GUID what it knew by it. Reads only."""

from collections.abc import Mapping
from uuid import UUID

from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.client import RegistryClient
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


async def _is_there(there: NameThere, destination: RegistryClient) -> bool:
    if isinstance(there.name, UUID):
        return bool(await destination.places_of_guid(there.name))  # made from the schema: it means no other one
    schema = await destination.schema_of_id(there.name)
    return schema is not None and schema.key == there.key
