"""What the two kinds of Kafka destination have in common."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from uuid import UUID

from mirrorlake.config.destinations.kafka import TimestampMode
from mirrorlake.config.schemas.mirrored import MirroredSchemas
from mirrorlake.destinations.provenance import Provenance
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName
from mirrorlake.topics.targets import Target

WRITING = ("READ", "WRITE")
DELETING = "DELETE"
GROWING = "ALTER"


def topic_place(target: Target) -> str:
    """Returns cluster and topic of a Kafka destination."""
    return f"{target.kafka.cluster.name}/{target.destination_topic}"


def keeps_log_append_time(target: Target) -> bool:
    """Returns whether records keep the source's times at the destination."""
    return target.kafka.timestamp_mode is TimestampMode.SOURCE


def stamps_times(target: Target) -> bool:
    """Returns whether records get the time of their copying from us, because their topic keeps what it is given."""
    is_asked = target.kafka.timestamp_mode is TimestampMode.DESTINATION
    return is_asked and (target.destination_configs.get(TIMESTAMP_TYPE) or CREATE_TIME) == CREATE_TIME


def provenance_of(target: Target) -> Provenance | None:
    """Returns where the target's records come from; None where a copy never says it, as its offsets do."""
    if not target.is_mapped:
        return None
    source = target.source
    return Provenance(cluster_id=target.source_cluster_id, topic=source.topic, partition=source.partition)


def schema_ids(target: Target) -> SchemaIdMap | None:
    """Returns where the target's records have schema ids that change, without a pair; None where they keep theirs."""
    schemas = target.mirror.schemas_of(target.source.topic)
    return None if schemas is None else ids_of(schemas)


def ids_of(
    schemas: MirroredSchemas,
    pairs: Mapping[SchemaName, SchemaName] = MappingProxyType({}),
    *,
    absent: Iterable[SchemaName] = (),
    lost: Iterable[SchemaName] = (),
    unnamed: Iterable[UUID] = (),
    refused: Mapping[SchemaName, str] = MappingProxyType({}),
) -> SchemaIdMap | None:
    """Returns the map of some pairs for how a mirror takes schemas along; None where ids stay. See `SchemaIdMap.of`."""
    if schemas.rules.keeps_ids:
        return None
    return SchemaIdMap.of(
        pairs,
        absent=absent,
        lost=lost,
        unnamed=unnamed,
        refused=refused,
        keys=schemas.has_keys,
        values=schemas.has_values,
        passes_keys=schemas.passes_keys,
        passes_values=schemas.passes_values,
        letters_of_keys=schemas.letters_of_keys,
        letters_of_values=schemas.letters_of_values,
    )


def archived_ids(target: Target) -> SchemaIdMap | None:
    """Returns where the target's records have schema ids whose schemas are archived, without a pair; None for none."""
    schemas = target.mirror.schemas_of(target.source.topic)
    return None if schemas is None else archived_ids_of(schemas)


def archived_ids_of(
    schemas: MirroredSchemas,
    pairs: Mapping[SchemaName, SchemaName] = MappingProxyType({}),
    *,
    absent: Iterable[SchemaName] = (),
    unnamed: Iterable[UUID] = (),
    refused: Mapping[SchemaName, str] = MappingProxyType({}),
) -> SchemaIdMap:
    """Returns the map of what names archived schemas, each with itself: an archive's records stay as they are.

    Whatever names no schema is archived too; an id or GUID that nobody knows yet waits for its schema.
    """
    return SchemaIdMap.of(
        pairs,
        absent=absent,
        unnamed=unnamed,
        refused=refused,
        keys=schemas.has_keys,
        values=schemas.has_values,
        passes_keys=True,
        passes_values=True,
    )


def letter_notes(target: Target) -> list[str]:
    """Returns where dead letters go, for who plans; nothing where there are none."""
    if not target.letters_topic:
        return []
    is_made = ", which is made" if target.letters_creation is not None else ""
    return [f"dead letters to {target.letters_topic}{is_made}"]


def letter_rights(target: Target) -> dict[str, tuple[str, ...]]:
    """Returns the operations needed on the topic for dead letters, and on what says which there are."""
    if not target.letters_topic:
        return {}
    progress = [target.letters.progress_partition.topic] if target.letters is not None else []
    return dict.fromkeys([target.letters_topic, *progress], WRITING)


def rights_on_topic(target: Target, *more: str) -> tuple[str, ...]:
    """Returns the operations needed on the destination topic, ``more`` among them."""
    needed = [*WRITING, *more]
    if target.replaces and DELETING not in needed:
        needed.append(DELETING)
    if target.growth is not None and target.is_to_be_made:
        needed.append(GROWING)
    return tuple(needed)
