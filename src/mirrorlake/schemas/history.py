"""What a registry holds of one subject: values only, comparable across registries."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from uuid import UUID

NO_CHECK = "NONE"
"""The compatibility level under which a registry takes every schema."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What a schema refers to.

    Attributes:
        name: how its text names it.
        subject: where it is registered, in the schema's own registry.
        version: which of that subject's versions, in the schema's own registry.
        key: the key of what is there: the same in every registry, whatever subject and version are called there.
    """

    name: str
    subject: str
    version: int
    key: str


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A schema as it was registered.

    Attributes:
        text: exactly as the registry gives it out.
        type: the registry's name of the format: ``AVRO``, ``JSON``, ``PROTOBUF`` or another.
        references: in the registry's order.
        metadata: of a data contract, as JSON with sorted keys; empty for none.
        rule_set: the rules of a data contract, likewise.
    """

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""

    @cached_property
    def key(self) -> str:
        """What two equal schemas have in common and no others: a digest of every byte, of what is referred to as well.

        Documentation, aliases, defaults, order and white space all count.
        """
        named = [[reference.name, reference.key] for reference in self.references]
        whole = json.dumps([self.type, self.text, named, self.metadata, self.rule_set])
        return sha256(whole.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """One version of a subject.

    Attributes:
        version: its number.
        id: what the registry calls its schema.
        schema: what it is.
        is_deleted: whether it was soft-deleted: its id is readable, it is listed no more.
        guid: what registries of Confluent from 8.0 on call its schema beside the id; None where it is not known.
            Of text, references and data contract alone: schemas of two formats may share one.
    """

    version: int
    id: int
    schema: Schema
    is_deleted: bool = False
    guid: str | None = None

    @property
    def key(self) -> str:
        """The schema's."""
        return self.schema.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was seen to be lost or altered of a subject in an archive.

    Attributes:
        text: names the object, and says what that means.
        is_open: whether something of the subject is not known for it.
    """

    text: str
    is_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectHistory:
    """All versions of a subject, soft-deleted ones included, ascending; and the rules that hold for it.

    Attributes:
        subject: its name, without the context.
        versions: none where the registry does not know the subject.
        level: the compatibility level that holds for it, its own or an inherited one.
        mode: the mode that holds for it, such as ``READWRITE``; None where the registry knows no modes.
        damage: of an archive that it was read from; no part of what the subject is.
    """

    subject: str
    versions: tuple[SchemaVersion, ...] = ()
    level: str
    mode: str | None = None
    damage: tuple[Damage, ...] = field(default=(), compare=False)

    @property
    def live(self) -> tuple[SchemaVersion, ...]:
        """The versions that are listed."""
        return tuple(each for each in self.versions if not each.is_deleted)


def guid_pairs(
    source: SubjectHistory, destination: SubjectHistory, same: "dict[str, str] | None" = None
) -> dict[UUID, UUID | None]:
    """Returns by GUIDs of the source which GUID means the same schema at the destination. Pure.

    None where the destination's registry gives the schema none. One of the source is left out where the destination's
    subject does not hold its schema; or not all of them, or under several GUIDs, where it is of several.

    Args:
        source: the subject there.
        destination: the subject here.
        same: as for `id_pairs`.
    """
    known: dict[str, str | None] = {}
    for each in (*destination.live, *destination.versions):
        known[each.key] = known.get(each.key) or each.guid
    told = same or {}
    there: dict[str, set[str | None]] = {}
    for each in source.versions:
        if each.guid is not None:
            key = told.get(each.key, each.key)
            there.setdefault(each.guid, set()).add(known.get(key, _MISSING))
    pairs = {guid: next(iter(found)) for guid, found in there.items() if len(found) == 1 and _MISSING not in found}
    return {UUID(guid): None if to is None else UUID(to) for guid, to in pairs.items()}


_MISSING = "no such schema"


def id_pairs(
    source: SubjectHistory, destination: SubjectHistory, same: "dict[str, str] | None" = None
) -> dict[int, int]:
    """Returns by ids of the source which id means the same schema at the destination. Pure.

    An id of the source is left out where the destination's subject does not hold its schema.

    Args:
        source: the subject there.
        destination: the subject here.
        same: keys of the source's schemas whose equal the destination's registry words differently, with its key.
    """
    known: dict[str, int] = {}
    for each in (*destination.live, *destination.versions):
        known.setdefault(each.key, each.id)
    told = same or {}
    keys = {each.id: told.get(each.key, each.key) for each in source.versions}
    return {source_id: known[key] for source_id, key in keys.items() if key in known}
