"""What the log says of subjects and schema ids that a service takes along."""

from collections.abc import Collection, Sequence
from uuid import UUID

import structlog

from mirrorlake.config.schemas.mirrored import MirroredSchemas
from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.plan import Action
from mirrorlake.service.subjects.known_ids import MovedId

_log = structlog.get_logger("mirrorlake")

GUIDS_SAID_MAX = 5
"""GUIDs that one warning names."""

IDS_SAID_MAX = 10
"""Ids and GUIDs that one line names."""

MOVED_SAID_MAX = 20
"""Ids that are something else than before, of which each is a line of its own."""

Key = tuple[str, str]
"""A mirror, and the label of one of its destinations."""


def say_waiting(key: Key, schemas: MirroredSchemas, ids: Collection[SchemaName]) -> None:
    """Says which ids and GUIDs leases wait for."""
    name, destination = key
    _log.info(
        "waiting for schema ids", name=name, destination=destination, registry=schemas.source.name, **_listed(ids)
    )


def say_done(key: Key, done: Sequence[Action], *, registry: str, is_archive: bool) -> None:
    """Says what was changed in a registry, or in what an archive holds of one."""
    name, destination = key
    for action in done:
        _log.info(
            "schema archived" if is_archive else "schema registry changed",
            name=name,
            destination=destination,
            registry=registry,
            subject=action.subject,
            action=action.kind.value,
            version=action.version.version if action.version is not None else None,
            value=action.value or None,
        )


def say_moved(key: Key, schemas: MirroredSchemas, moved: Sequence[MovedId]) -> None:
    """Says which ids are something else than they were, and on which side; of many how many more there are."""
    name, destination = key
    for each in moved[:MOVED_SAID_MAX]:
        _say_moved(key, schemas, each)
    if (more := len(moved) - MOVED_SAID_MAX) > 0:
        _log.warning(
            "more schema ids are something else than they were", name=name, destination=destination, count=more
        )


def _say_moved(key: Key, schemas: MirroredSchemas, moved: MovedId) -> None:
    """Says which side has changed: the source, where the id means another schema there; else the destination."""
    name, destination = key
    now, was = moved.is_now, moved.was
    facts: dict[str, object] = {"name": name, "destination": destination, "id": moved.id}
    facts |= {"before": moved.before, "now": moved.now}
    if was is not None and now is not None:
        _log.warning(
            "a schema id means another schema at the source's registry than it did before",
            **facts,
            registry=schemas.source.name,
            meant=was.source,
            means=now.source,
            there=now.destination,
            hint="records with it stop their partitions now; those copied since it changed may have the id of the "
            "schema before: `mirrorlake verify` finds them",
        )
        return
    _log.warning(
        "a schema has another id at the destination's registry than it had",
        **facts,
        registry=schemas.there.name,
        means=None if now is None else now.source,
        there=None if now is None else now.destination,
        hint="records copied before carry the id of before: was the registry's subject deleted and made anew?",
    )


def say_lost(key: Key, schemas: MirroredSchemas, lost: Collection[SchemaName]) -> None:
    """Says whose schemas the destination's registry does not know any more, or knows as something else."""
    name, destination = key
    again = "" if schemas.rules.keeps_ids else "They are brought again before more records with these ids. "
    _log.warning(
        "the destination's registry no longer has schemas that it had",
        name=name,
        destination=destination,
        registry=schemas.there.name,
        **_listed(lost),
        hint=f"was it made anew, or restored from a backup? {again}Records that were copied before carry ids of "
        "before: `mirrorlake verify` finds the first one",
    )


def say_unreadable(key: Key, schemas: MirroredSchemas, guids: Collection[UUID]) -> None:
    """Says which GUIDs nobody can read at the destination."""
    name, destination = key
    _log.warning(
        "records that name these schemas by a GUID cannot be read at the destination",
        name=name,
        destination=destination,
        registry=schemas.there.name,
        guids=", ".join(sorted(map(str, guids))[:GUIDS_SAID_MAX]),
        count=len(guids),
        hint="its registry gives no GUIDs (Confluent's does from 8.0 on); or it gives others, which `ids: "
        "remap` writes into the records, and `ids: keep` does not",
    )


def _listed(names: Collection[SchemaName]) -> dict[str, str | int]:
    shown = sorted(map(str, names))
    return {"ids": ", ".join(shown[:IDS_SAID_MAX]) + (", …" if len(shown) > IDS_SAID_MAX else ""), "count": len(shown)}
