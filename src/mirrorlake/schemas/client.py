"""The client of one registry: what it holds, and what changes it.

Source: Confluent's Schema Registry API reference; Karapace, Redpanda and Apicurio (`/apis/ccompat/v7`) offer the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from urllib.parse import quote
from uuid import UUID

from mirrorlake.errors import MirrorlakeError, NotRegistryError, SubjectMovedError
from mirrorlake.schemas.answers import (
    RawSchema,
    UnreadableAnswerError,
    guid_of,
    number_in,
    numbers_of,
    raw_schema_of,
    text_in,
    texts_of,
)
from mirrorlake.schemas.history import Reference, Schema, SchemaVersion, SubjectHistory
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.schemas.transport import ABSENT_CODES, Json, RegistryAnswer, RegistryTransport
from mirrorlake.schemas.unchanged import SeenSubjects, needs_listing
from mirrorlake.together import all_of

T = TypeVar("T")

_DELETED_TOO: Final = {"deleted": "true"}
_EFFECTIVE: Final = {"defaultToGlobal": "true"}
_AS_IT_IS: Final = {"normalize": "false"}
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}
_READ_TRIES_MAX: Final = 3
_REFERENCE_DEPTH_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Where a registry holds a schema that it was asked about."""

    version: int
    id: int


class RegistryClient:
    """Asynchronous client of one registry, for one event loop; to be closed.

    Versions that were read are kept, as they never change while they exist. A subject that was deleted for good and
    made anew, or a registry that was, is noticed by its newest version that is known and by one more, another one at
    each look: where one is not what it was, all that was read of the registry is read again before any of it is
    believed. Absence is never kept.

    Args:
        settings: where the registry is.
        transport: None for one of its own.
    """

    def __init__(self, settings: RegistrySettings, *, transport: RegistryTransport | None = None) -> None:
        self.settings = settings
        self._transport = transport or RegistryTransport(settings)
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        self._seen = SeenSubjects()
        self._looks: dict[str, int] = {}
        self._times_altered = 0
        self._gives_guids = False
        self._has_modes = False

    @property
    def calls(self) -> int:
        """How many requests were sent."""
        return self._transport.calls

    async def close(self) -> None:
        """Closes its connections. Idempotent."""
        await self._transport.close()

    async def subjects(self) -> list[str]:
        """Returns the names of all subjects with live versions, sorted; of the context alone, without its prefix."""
        prefix = self._qualified("")
        query = {"subjectPrefix": prefix} if prefix else None
        answer = await self._present("GET", "/subjects", about="its subjects", query=query)
        names = self._read(answer, "its subjects", texts_of)
        if not prefix:
            return sorted(name for name in names if not name.startswith(":."))
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    async def histories(self, subjects: Sequence[str]) -> list[SubjectHistory]:
        """Returns all that the registry holds of subjects, in their order.

        Where one of their versions was seen to be another one now, all of them are read again.

        Many that were read before are asked about together: those that the registry lists as they were are not read
        again, and whether their level or mode is another is asked at every tenth look, unless the registry's own is.

        Raises:
            SubjectMovedError: one changed at each try.
            MirrorlakeError: see `RegistryTransport.ask`.
        """
        for _ in range(_READ_TRIES_MAX):
            before = self._times_altered
            found = await self._histories(subjects)
            if self._times_altered == before:
                return found
        raise SubjectMovedError(
            f"versions of registry {self.settings.name} changed each time they were read",
            hint="they are read again",
            registry=self.settings.name,
        )

    async def _histories(self, subjects: Sequence[str]) -> list[SubjectHistory]:
        unchanged: dict[str, SubjectHistory] = {}
        if needs_listing(subjects):
            self._seen.take_defaults((await self._default_of("/config"), await self._default_of("/mode")))
            prefix = self._qualified("")
            unchanged = await self._seen.unchanged(subjects, self._listed, prefix=prefix, versions=self._versions)
        return await all_of(
            self._settled(unchanged[name]) if name in unchanged else self.history(name) for name in subjects
        )

    async def history(self, subject: str) -> SubjectHistory:
        """Returns all that the registry holds of a subject; without versions where it does not know it.

        Raises:
            SubjectMovedError: it changed at each try.
            MirrorlakeError: see `RegistryTransport.ask`.
        """
        for _ in range(_READ_TRIES_MAX):
            numbers = await self._numbers(subject, with_deleted=True)
            live = set(await self._numbers(subject, with_deleted=False))
            if not live <= set(numbers):
                continue
            await self._forget_what_changed(subject, numbers)
            versions = await all_of(self._version(subject, number) for number in numbers)
            if all(versions):
                history = SubjectHistory(
                    subject=subject,
                    versions=tuple(
                        SchemaVersion(
                            version=each.version,
                            id=each.id,
                            schema=each.schema,
                            is_deleted=each.version not in live,
                            guid=each.guid,
                        )
                        for each in versions
                        if each is not None
                    ),
                    level=await self.level(subject),
                    mode=await self.mode(subject),
                )
                return self._seen.read(history)
        raise SubjectMovedError(
            f"subject {subject} of registry {self.settings.name} changed each time it was read",
            hint="it is read again",
            registry=self.settings.name,
            subject=subject,
        )

    async def version(self, subject: str, number: int) -> SchemaVersion | None:
        """Returns a version, soft-deleted or not without saying which; None where it is not there."""
        return await self._version(subject, number)

    async def schema_of_id(self, id_: int, *, subject: str | None = None) -> Schema | None:
        """Returns what an id means, soft-deleted versions included; None where the registry does not know it.

        Args:
            id_: the id.
            subject: one that has it, for registries where an id means something in a subject's context only.
        """
        about = f"schema id {id_}"
        named = self._qualified(subject or "")
        query = {"subject": named} if named else None
        answer = await self._asked("GET", f"/schemas/ids/{id_}", about=about, query=query)
        if answer is None:
            return None
        return await self._resolved(self._read(answer, about, raw_schema_of), about, 0)

    async def places_of_id(self, id_: int) -> list[tuple[str, int]]:
        """Returns subject and version of everything registered under an id, soft-deleted included; none if unknown.

        Subjects of other contexts are left out; names come without the context's prefix.
        """
        about = f"schema id {id_}"
        prefix = self._qualified("")
        query = {**_DELETED_TOO, **({"subject": prefix} if prefix else {})}
        answer = await self._asked("GET", f"/schemas/ids/{id_}/versions", about=about, query=query)
        if answer is None:
            return []

        def places(body: Json) -> list[tuple[str, int]]:
            if not isinstance(body, list):
                raise UnreadableAnswerError
            return [(text_in(each, "subject"), number_in(each, "version")) for each in body]

        found = self._read(answer, about, places)
        own = [(name.removeprefix(prefix), version) for name, version in found if name.startswith(prefix)]
        return sorted(place for place in own if not place[0].startswith(":."))

    async def places_of_guid(self, guid: UUID) -> list[tuple[str, int]]:
        """Returns subject and version of everything registered under a GUID, as `places_of_id`; none if unknown.

        None, too, where the registry gives no GUIDs, as Confluent's before 8.0 and those of others; not where it was
        seen to give one: then a proxy or another node of it does not know how to ask for them. The ids are asked
        for and not the schema, which has no subject; and Confluent's answers with an error of its own about one whose
        versions were all deleted for good.

        Raises:
            NotRegistryError: what answers knows no GUIDs, and is no registry either or was seen to give some.
            MirrorlakeError: see `RegistryTransport.ask`.
        """
        about = f"schema GUID {guid}"
        answer = await self._transport.ask("GET", f"/schemas/guids/{guid}/ids", about=about)
        if answer.is_absent:
            return []
        if answer.code:
            await self._check_registry(answer, about)
            return []
        context = f".{self.settings.context or ''}"

        def ids(body: Json) -> list[int]:
            if not isinstance(body, list):
                raise UnreadableAnswerError
            return [number_in(each, "id") for each in body if text_in(each, "context", default=".") == context]

        found = await all_of(self.places_of_id(id_) for id_ in self._read(answer, about, ids))
        return sorted({place for places in found for place in places})

    async def _check_registry(self, answer: RegistryAnswer, about: str) -> None:
        """Checks that what does not know a path of the API is a registry, by what lies beside that path.

        Raises:
            NotRegistryError: it is none.
        """
        types = await self._transport.ask("GET", "/schemas/types", about="its schema types")
        if types.code or self._gives_guids:
            raise self._transport.not_understood(answer, about)
        self._read(types, "its schema types", texts_of)

    async def level(self, subject: str) -> str:
        """Returns the compatibility level that holds for a subject: its own, or what it inherits."""
        about = f"the level of subject {subject}"
        for path in (self._path("/config", subject), "/config"):
            answer = await self._asked("GET", path, about=about, query=_EFFECTIVE)
            if answer is None:
                continue
            if level := self._read(answer, about, lambda body: text_in(body, "compatibilityLevel", default="")):
                return level.upper()
        raise self._no_registry("it names no compatibility level", about)

    async def mode(self, subject: str) -> str | None:
        """Returns the mode that holds for a subject; None where the registry knows no modes at all.

        Raises:
            NotRegistryError: it does not know them any more, as a proxy before it may say.
            MirrorlakeError: see `RegistryTransport.ask`.
        """
        about = f"the mode of subject {subject}"
        for path in (self._path("/mode", subject), "/mode"):
            answer = await self._transport.ask("GET", path, about=about, query=_EFFECTIVE)
            if answer.code == 0:
                self._has_modes = True
                return self._read(answer, about, lambda body: text_in(body, "mode")).upper()
            if answer.code not in ABSENT_CODES:
                if self._has_modes:
                    raise self._transport.not_understood(answer, about)
                return None
        return None

    async def set_level(self, subject: str, level: str) -> None:
        """Sets a subject's own compatibility level. Idempotent."""
        self._seen.forget(subject)
        path = self._path("/config", subject)
        await self._present("PUT", path, about=f"subject {subject}: level {level}", body={"compatibility": level})

    async def set_mode(self, subject: str, mode: str) -> None:
        """Sets a subject's own mode, whatever versions it has. Idempotent.

        Forced: without that, a registry that goes to IMPORT deletes for good what was soft-deleted.
        """
        self._seen.forget(subject)
        path, about = self._path("/mode", subject), f"subject {subject}: mode {mode}"
        await self._present("PUT", path, about=about, query={"force": "true"}, body={"mode": mode})

    async def register(
        self, subject: str, schema: Schema, references: Sequence[Reference], *, id_: int | None = None
    ) -> int:
        """Registers a schema as it is, and returns the id it has now. Idempotent while it is live.

        Args:
            subject: where.
            schema: what.
            references: of it, by this registry's subjects and versions.
            id_: the id it shall have; None leaves it to the registry.
        """
        self._seen.forget(subject)
        body = _body_of(schema, references)
        path, about = self._path("/subjects", subject, "/versions"), f"a schema for subject {subject}"
        given = body if id_ is None else {**body, "id": id_}
        answer = await self._present("POST", path, about=about, query=_AS_IT_IS, body=given)
        return self._read(answer, about, lambda said: number_in(said, "id"))

    async def look_up(self, subject: str, schema: Schema, references: Sequence[Reference]) -> Registered | None:
        """Returns where a subject holds a schema, as the registry compares schemas; None where it does not."""
        about = f"a schema of subject {subject}"
        path, body = self._path("/subjects", subject), _body_of(schema, references)
        answer = await self._asked("POST", path, about=about, query=_AS_IT_IS, body=body, changes=False)
        if answer is None:
            return None
        return self._read(
            answer, about, lambda said: Registered(version=number_in(said, "version"), id=number_in(said, "id"))
        )

    async def delete_version(self, subject: str, version: int) -> None:
        """Soft-deletes a version; one that is soft-deleted stays so. Idempotent."""
        self._seen.forget(subject)
        path, about = self._path("/subjects", subject, f"/versions/{version}"), f"subject {subject} version {version}"
        await self._asked("DELETE", path, about=about)

    async def _settled(self, seen: SubjectHistory) -> SubjectHistory:
        """Returns an unchanged subject with its level and mode, asked about where it is their turn."""
        if (known := self._seen.settings_of(seen.subject)) is not None:
            return known
        level, mode = await self.level(seen.subject), await self.mode(seen.subject)
        return self._seen.read(replace(seen, level=level, mode=mode))

    async def _default_of(self, path: str) -> object:
        """Returns what holds for subjects without a level, or a mode, of their own; equal to nothing if it fails."""
        try:
            answer = await self._transport.ask("GET", path, about="what holds for all subjects")
        except MirrorlakeError:
            return object()  # whoever asks about the subjects hears why
        return answer.body if answer.code == 0 else answer.code

    async def _listed(self, page: Mapping[str, str], *, beginning: str, with_deleted: bool) -> Json:
        query = {
            **({"subjectPrefix": beginning} if beginning else {}),
            **(_DELETED_TOO if with_deleted else {}),
            **page,
        }
        answer = await self._transport.ask("GET", "/schemas", about="a list of schemas", query=query)
        return answer.body if answer.code == 0 else None

    async def _numbers(self, subject: str, *, with_deleted: bool) -> list[int]:
        about = f"subject {subject}"
        query = _DELETED_TOO if with_deleted else None
        answer = await self._asked("GET", self._path("/subjects", subject, "/versions"), about=about, query=query)
        return [] if answer is None else sorted(self._read(answer, about, numbers_of))

    async def _forget_what_changed(self, subject: str, numbers: Sequence[int]) -> None:
        """Forgets a subject's versions if one is gone, and the whole registry if one is not what it was."""
        known = self._versions.get(subject)
        if not known:
            return
        if not known.keys() <= set(numbers):
            del self._versions[subject]
            return
        look = self._looks[subject] = self._looks.get(subject, -1) + 1
        for number in {max(known), sorted(known)[look % len(known)]}:
            before = known.pop(number, None)
            if before is not None and await self._version(subject, number) != before:
                self._versions, self._seen = {}, SeenSubjects()
                self._times_altered += 1
                return

    async def _version(self, subject: str, number: int, depth: int = 0) -> SchemaVersion | None:
        """Returns a version, without saying whether it is soft-deleted; None where it is not there."""
        known = self._versions.setdefault(subject, {})
        if number in known:
            return known[number]
        about = f"subject {subject} version {number}"
        path = self._path("/subjects", subject, f"/versions/{number}")
        answer = await self._asked("GET", path, about=about, query=_DELETED_TOO)
        if answer is None:
            return None
        id_ = self._read(answer, about, lambda body: number_in(body, "id"))
        schema = await self._resolved(self._read(answer, about, raw_schema_of), about, depth)
        if schema is None:
            return None
        guid = self._read(answer, about, guid_of)
        self._gives_guids = self._gives_guids or guid is not None
        known[number] = SchemaVersion(version=number, id=id_, schema=schema, guid=guid)
        return known[number]

    async def _resolved(self, raw: RawSchema, about: str, depth: int) -> Schema | None:
        """Returns a schema with what it refers to; None where that is gone meanwhile."""
        if depth > _REFERENCE_DEPTH_MAX:
            raise self._no_registry("references without an end", about)
        references = []
        for each in raw.references:
            subject = self._unqualified(each.subject)
            target = await self._version(subject, each.version, depth + 1)
            if target is None:
                return None
            references.append(Reference(name=each.name, subject=subject, version=each.version, key=target.key))
        return Schema(
            text=raw.text,
            type=raw.type,
            references=tuple(references),
            metadata=raw.metadata,
            rule_set=raw.rule_set,
        )

    async def _asked(
        self,
        method: str,
        path: str,
        *,
        about: str,
        query: Mapping[str, str] | None = None,
        body: Json = None,
        changes: bool = True,
    ) -> RegistryAnswer | None:
        """Returns an answer; None where the registry says that what is asked for is not there."""
        answer = await self._transport.ask(method, path, about=about, query=query, body=body, changes=changes)
        if answer.is_absent:
            return None
        if answer.code:
            raise self._transport.not_understood(answer, about)
        return answer

    async def _present(
        self, method: str, path: str, *, about: str, query: Mapping[str, str] | None = None, body: Json = None
    ) -> RegistryAnswer:
        answer = await self._asked(method, path, about=about, query=query, body=body)
        if answer is None:
            raise SubjectMovedError(
                f"registry {self.settings.name} no longer knows what it was asked about: {about}",
                hint="it is looked at again",
                registry=self.settings.name,
            )
        return answer

    def _read(self, answer: RegistryAnswer, about: str, reader: Callable[[Json], T]) -> T:
        try:
            return reader(answer.body)
        except UnreadableAnswerError:
            raise self._transport.not_understood(answer, about) from None

    def _no_registry(self, what: str, about: str) -> NotRegistryError:
        url = self.settings.urls[0]
        return NotRegistryError(
            f"registry {self.settings.name} ({url}) answers about {about}, but {what}",
            hint="it does not speak Confluent's API as it should",
            registry=self.settings.name,
            url=url,
        )

    def _qualified(self, subject: str) -> str:
        context = self.settings.context
        return f":.{context}:{subject}" if context and not subject.startswith(":.") else subject

    def _unqualified(self, subject: str) -> str:
        return subject.removeprefix(self._qualified("")) if self.settings.context else subject

    def _path(self, root: str, subject: str, rest: str = "") -> str:
        try:
            name = quote(self._qualified(subject), safe="")
        except UnicodeEncodeError:
            raise self._no_registry("its name is no text of Unicode", f"subject {subject!a}") from None
        # As a whole part of a path a dot or two would be taken out of it, as in folders.
        return f"{root}/{_DOTS.get(name, name)}{rest}"


def _body_of(schema: Schema, references: Sequence[Reference]) -> dict[str, Json]:
    body: dict[str, Json] = {"schema": schema.text}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    if references:
        body["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in references]
    for field, text in (("metadata", schema.metadata), ("ruleSet", schema.rule_set)):
        if text:
            body[field] = json.loads(text)
    return body
