"""A schema registry in memory, with the rules of Confluent's: what a stub serves and properties are tried against.

The rules were read in Confluent's public sources (`KafkaSchemaRegistry.register`, `setMode`, `deleteSchemaVersion`,
`Errors`) and API reference:

- a schema that is live in a subject is not registered again: its version and id are answered;
- equal schemas have one id in a context, whatever subjects they are in;
- Avro is stored without white space, as its parser writes it; documentation, aliases, defaults and order stay;
- a version that is registered again after it was soft-deleted takes the place of the deleted one, which is gone;
- a new version's number is one more than the highest there ever was, deleted ones included;
- an id is taken in mode IMPORT only, and must not mean another schema; without an id the mode must be READWRITE;
- IMPORT is not switched on while there are live versions, unless forced; not forced it deletes for good what was
  soft-deleted;
- compatibility is checked against live versions, not in IMPORT; a level or mode nobody has set is 40408 or 40409;
- what others refer to cannot be deleted (42206);
- all versions of subjects with a prefix are listed in pages, sorted;
- from 8.0 on a schema has a GUID: MD5 of text, references, and a data contract, in this order (`Schema.updateHash`),
  whatever its type is (here without data contracts);
- a GUID is looked for in the default context, then in the others; of each it has the id that was registered with it
  last, also where all its versions were deleted for good (`InMemoryCache.idByGuid`, `schemaTombstoned`): its ids are
  then still told, and the schema is an error of the server. One that nobody has heard of, or that is none, has no ids,
  which is no error (`listIdsForGuid`).

Compatibility is told for records of Avro whose fields have a default or not: BACKWARD forbids adding fields without,
FORWARD removing such; TRANSITIVE compares with all live versions.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import md5
from struct import pack
from typing import Any
from uuid import UUID

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "IMPORT")
Body = dict[str, Any]


class RefusedError(Exception):
    """An answer that is an error: HTTP status, the registry's code and words."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class Stored:
    version: int
    id: int
    body: Body
    is_deleted: bool = False


@dataclass
class RegistryModel:
    """One registry. ``keeps_white_space`` as some do; ``has_modes`` as some have not, ``has_guids`` as from 8.0 on.

    ``lists`` is ``pages`` as Confluent's from 6.1 on, ``whole`` as Karapace, without pages, ``none`` as Apicurio.
    """

    level: str = "BACKWARD"
    mode: str = "READWRITE"
    keeps_white_space: bool = False
    has_modes: bool = True
    has_guids: bool = False
    lists: str = "pages"
    page_items_max: int = 1000
    subjects: dict[str, list[Stored]] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    guids: dict[str, dict[str, int]] = field(default_factory=dict)
    next_id: int = 1
    changes: list[str] = field(default_factory=list)

    def live(self, subject: str) -> list[Stored]:
        return [each for each in self.subjects.get(subject, []) if not each.is_deleted]

    def listed(self, subject: str, *, deleted: bool) -> list[int]:
        found = self.subjects.get(subject, []) if deleted else self.live(subject)
        if not found:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        return [each.version for each in found]

    def found(self, subject: str, version: int, *, deleted: bool) -> Stored:
        versions = self.subjects.get(subject, []) if deleted else self.live(subject)
        if not versions:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        for each in versions:
            if each.version == version:
                return each
        raise RefusedError(404, 40402, f"Version {version} not found.")

    def by_id(self, id_: int, context: str = "") -> Stored:
        for subject, versions in self.subjects.items():
            for each in versions:
                if each.id == id_ and context_of(subject) == context:
                    return each
        raise RefusedError(404, 40403, f"Schema {id_} not found")

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """By context, the default one first, and sorted as `ContextId` is."""
        contexts = sorted({context_of(subject) for subject in self.subjects} | {""})
        return [(each, self.guids[each][guid]) for each in contexts if guid in self.guids.get(each, {})]

    def by_guid(self, guid: str) -> Stored:
        for context, id_ in self.ids_of_guid(guid):
            try:
                return self.by_id(id_, context)
            except RefusedError:
                raise RefusedError(500, 500, "HTTP 500 Internal Server Error") from None
        raise RefusedError(404, 40403, f"Schema {guid} not found")

    def places(self, id_: int, context: str = "") -> list[tuple[str, int]]:
        self.by_id(id_, context)
        return [
            (subject, each.version)
            for subject, versions in self.subjects.items()
            for each in versions
            if each.id == id_ and context_of(subject) == context
        ]

    def level_of(self, subject: str) -> str:
        return self.levels.get(subject, self.level)

    def mode_of(self, subject: str) -> str:
        return self.modes.get(subject, self.mode)

    def look_up(self, subject: str, body: Body) -> Stored:
        if not self.subjects.get(subject):
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        wanted = self._stored_body(body)
        for each in self.live(subject):
            if each.body == wanted:
                return each
        raise RefusedError(404, 40403, "Schema not found")

    def register(self, subject: str, body: Body, id_: int | None = None) -> Stored:
        self._check_mode(subject, id_)
        wanted = self._stored_body(body)
        self._check_references(subject, wanted)
        for each in self.live(subject):
            if each.body == wanted and id_ in (None, each.id):
                return each
        known = self._id_of(wanted, context_of(subject))
        if id_ is not None:
            self._check_id(id_, wanted, context_of(subject))
        elif self.level_of(subject) != "NONE":
            self._check_compatible(subject, wanted)
        chosen = id_ if id_ is not None else known if known is not None else self._new_id(context_of(subject))
        versions = self.subjects.setdefault(subject, [])
        number = self.highest.get(subject, 0) + 1
        versions[:] = [each for each in versions if not (each.is_deleted and each.id == chosen)]
        made = Stored(number, chosen, wanted)
        versions.append(made)
        self.guids.setdefault(context_of(subject), {})[guid_of(wanted)] = chosen
        self.highest[subject] = number
        self.changes.append(f"register {subject} {number} id {chosen}")
        return made

    def delete(self, subject: str, version: int, *, permanent: bool = False) -> int:
        self._check_writable(subject)
        each = self.found(subject, version, deleted=True)
        if any(
            (reference["subject"], reference["version"]) == (subject, version)
            for others in self.subjects.values()
            for other in others
            if not other.is_deleted
            for reference in other.body.get("references", ())
        ):
            raise RefusedError(422, 42206, "One or more references exist to the schema")
        if permanent:
            if not each.is_deleted:
                raise RefusedError(404, 40407, f"Subject '{subject}' Version {version} was not deleted first")
            self.subjects[subject].remove(each)
        elif each.is_deleted:
            raise RefusedError(404, 40406, f"Subject '{subject}' Version {version} was soft deleted.")
        else:
            each.is_deleted = True
        self.changes.append(f"delete {subject} {version}")
        return version

    def delete_for_good(self, subject: str) -> None:
        """As if its owner had: the next version is 1 again."""
        self.subjects.pop(subject, None)
        self.highest.pop(subject, None)

    def set_level(self, subject: str, level: str) -> None:
        if level not in LEVELS:
            raise RefusedError(422, 42203, "Invalid compatibility level")
        self._check_writable(subject)
        self.levels[subject] = level
        self.changes.append(f"level {subject} {level}")

    def set_mode(self, subject: str, mode: str, *, force: bool) -> None:
        if mode not in MODES:
            raise RefusedError(422, 42204, "Invalid mode")
        if mode == "IMPORT" and self.mode_of(subject) != "IMPORT" and not force:
            if self.live(subject):
                raise RefusedError(422, 42205, "Cannot import since found existing subjects")
            self.subjects.pop(subject, None)
        self.modes[subject] = mode
        self.changes.append(f"mode {subject} {mode}")

    def _stored_body(self, body: Body) -> Body:
        stored = {
            key: body[key] for key in ("schema", "schemaType", "references", "metadata", "ruleSet") if body.get(key)
        }
        if stored.get("schemaType") == "AVRO":
            del stored["schemaType"]
        if "schemaType" not in stored:
            try:
                parsed = json.loads(stored["schema"])
            except (ValueError, KeyError):
                raise RefusedError(422, 42201, "Invalid schema") from None
            if not self.keeps_white_space:
                stored["schema"] = json.dumps(parsed, separators=(",", ":"), ensure_ascii=False)
        return stored

    def _check_mode(self, subject: str, id_: int | None) -> None:
        self._check_writable(subject)
        if id_ is not None and self.mode_of(subject) != "IMPORT":
            raise RefusedError(422, 42205, f"Subject {subject} is not in import mode")
        if id_ is None and self.mode_of(subject) != "READWRITE":
            raise RefusedError(422, 42205, f"Subject {subject} is not in read-write mode")

    def _check_writable(self, subject: str) -> None:
        if self.mode_of(subject) == "READONLY":
            raise RefusedError(422, 42205, f"Subject {subject} is in read-only mode")

    def _check_references(self, subject: str, body: Body) -> None:
        prefix = f":.{context_of(subject)}:" if context_of(subject) else ""
        for each in body.get("references", ()):
            named = each["subject"] if each["subject"].startswith(":.") else prefix + each["subject"]
            try:
                self.found(named, each["version"], deleted=False)
            except RefusedError:
                raise RefusedError(422, 42201, f"No schema reference found for {each['subject']}") from None

    def _id_of(self, body: Body, context: str) -> int | None:
        for subject, versions in self.subjects.items():
            for each in versions:
                if each.body == body and context_of(subject) == context:
                    return each.id
        return None

    def _check_id(self, id_: int, body: Body, context: str) -> None:
        try:
            there = self.by_id(id_, context)
        except RefusedError:
            return
        if there.body != body:
            raise RefusedError(422, 42205, f"Overwrite new schema with id {id_} in context {context} is not permitted.")

    def _new_id(self, context: str) -> int:
        used = {e.id for s, versions in self.subjects.items() if context_of(s) == context for e in versions}
        while self.next_id in used:
            self.next_id += 1
        self.next_id += 1
        return self.next_id - 1

    def _check_compatible(self, subject: str, body: Body) -> None:
        level, before = self.level_of(subject), self.live(subject)
        for each in before if level.endswith("_TRANSITIVE") else before[-1:]:
            old, new = _fields(each.body), _fields(body)
            added = [name for name in new if name not in old and not new[name]]
            removed = [name for name in old if name not in new and not old[name]]
            if (level.startswith(("BACKWARD", "FULL")) and added) or (
                level.startswith(("FORWARD", "FULL")) and removed
            ):
                raise RefusedError(409, 409, "Schema being registered is incompatible with an earlier schema")


def context_of(subject: str) -> str:
    """The context in a subject's name; empty for the default one."""
    return subject[2:].partition(":")[0] if subject.startswith(":.") else ""


def guid_of(body: Body) -> str:
    """As `Schema.getGuid` and `SchemaReference.updateHash` have it; of schemas without a data contract."""
    digest = md5(body["schema"].encode(), usedforsecurity=False)
    for each in body.get("references", ()):
        digest.update(each["name"].encode() + each["subject"].encode() + pack(">i", each["version"]))
    return str(UUID(bytes=digest.digest()))


def _fields(body: Body) -> dict[str, bool]:
    """Whether each field of a record has a default."""
    if "schemaType" in body:
        return {}
    parsed = json.loads(body["schema"])
    fields: Sequence[Body] = parsed.get("fields", []) if isinstance(parsed, dict) else []
    return {each["name"]: "default" in each for each in fields}


def record(*fields: str, name: str = "Order", **more: object) -> str:
    """A record of Avro with int fields; one whose name ends with ``?`` has a default."""
    made = [
        {"name": each.rstrip("?"), "type": "int", **({"default": 0} if each.endswith("?") else {})} for each in fields
    ]
    return json.dumps({"type": "record", "name": name, **more, "fields": made}, separators=(",", ":"))
