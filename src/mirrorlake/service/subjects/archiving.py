"""Archives subjects beside the records that need them; each version before the first record with its id."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.clock import Clock
from mirrorlake.errors import SchemaAlteredError, SubjectMovedError
from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.history import Reference, SchemaVersion, SubjectHistory
from mirrorlake.schemas.mirroring import SchemaReader, histories_of
from mirrorlake.schemas.plan import Action, ActionKind
from mirrorlake.service.subjects.bringing import Brought, meanings_of, names_of, subjects_for
from mirrorlake.service.subjects.id_places import subjects_of_ids
from mirrorlake.stores.crash_points import CrashPoint, no_crash

_STATE = "as the source's registry has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectArchive:
    """From the subjects of a registry to those that an archive holds of it.

    Attributes:
        source: the registry.
        schemas: what is archived of it.
        writer: names this process in the objects.
        clock: dates them.
        crash_point: called before each object is written; for tests.
    """

    source: SchemaReader
    schemas: ArchivedSchemas
    writer: str
    clock: Clock
    crash_point: CrashPoint = no_crash

    async def bring(self, subjects: Sequence[str]) -> Brought:
        """Archives subjects whole, with all that they refer to, and says how they stand. Idempotent.

        A subject that the registry does not know, or not any more, leaves what is archived of it as it is. Refused are
        the ids of subjects that cannot be archived, as another schema is there with one of their ids; of those nothing
        more is written.

        Raises:
            SubjectMovedError: what one refers to went while it was read.
            MirrorlakeError: the registry or the store does not answer; what was written until then stays.
        """
        histories = await histories_of(self.source, subjects)
        wanted = [*in_order(histories)]
        if not all(self.schemas.holds(each) for each in wanted):
            await asyncio.to_thread(self.schemas.look)  # others may have archived there, and another registry's
        done: list[Action] = []
        refused: dict[str, str] = {}
        for each in wanted:
            bad = next((r.subject for r in each.version.schema.references if r.subject in refused), None)
            if bad is not None:
                refused.setdefault(each.subject, f"{each.subject} refers to {bad}: {refused[bad]}")
            if each.subject in refused:
                continue
            try:
                if await asyncio.to_thread(self._add, each):
                    done.append(_registered(each))
            except SchemaAlteredError as error:
                refused[each.subject] = str(error)
        for history in histories.values():
            if history.versions and history.subject not in refused:
                try:
                    if await asyncio.to_thread(self._say, history):
                        done.append(_levelled(history))
                except SchemaAlteredError as error:
                    refused[history.subject] = str(error)
        held = [each for each in wanted if self.schemas.holds(each)]
        pairs: dict[SchemaName, SchemaName] = {each.version.id: each.version.id for each in held}
        # A version that is archived from before has its GUID with how its subject stands, which is archived by now.
        stated = [each.version.guid for each in held if each.subject not in refused]
        pairs |= {UUID(guid): UUID(guid) for guid in stated if guid is not None}
        damage = [each for history in histories.values() for each in history.damage]
        reasons = {
            name: refused[each.subject] for each in wanted if each.subject in refused for name in names_of(each.version)
        }
        return Brought(
            pairs=pairs,
            refused={id_: reason for id_, reason in reasons.items() if id_ not in pairs},
            done=tuple(done),
            meanings=meanings_of((each.subject, each.subject, each.version) for each in wanted),
            damage=(*damage, *self.schemas.take_damage()),
        )

    async def bring_ids(self, ids: Sequence[SchemaName], *, named: Collection[str]) -> Brought:
        """Archives what holds the schemas of some ids and GUIDs: subjects that the mirror names, or the first by name.

        One that the registry has in no subject is absent: there is no version that could be archived. So is a GUID that
        none of the versions has that the registry names for it.

        Args:
            ids: of the source.
            named: subjects that the mirror takes along anyway.

        Raises:
            MirrorlakeError: see `bring`; nothing is concluded of any id.
        """
        places = await subjects_of_ids(ids, self.source)
        subjects = sorted(subjects_for(places.values(), named))
        brought = await self.bring(subjects) if subjects else Brought()
        known = brought.pairs.keys() | brought.refused.keys()
        absent = (id_ for id_, held in places.items() if id_ not in known and (not held or isinstance(id_, UUID)))
        return replace(brought, absent=frozenset(absent), subjects=frozenset(subjects))

    def _add(self, version: ArchivedVersion) -> bool:
        now = self.clock.now_seconds()
        return self.schemas.add(version, writer=self.writer, now_seconds=now, crash_point=self.crash_point)

    def _say(self, history: SubjectHistory) -> bool:
        now = self.clock.now_seconds()
        return self.schemas.say(history, writer=self.writer, now_seconds=now, crash_point=self.crash_point)


def in_order(histories: Mapping[str, SubjectHistory]) -> Iterator[ArchivedVersion]:
    """Yields all versions of subjects, each behind those that it refers to. Pure.

    Args:
        histories: by name; of all subjects that are referred to as well.

    Raises:
        SubjectMovedError: a version that one refers to is in none of them.
    """
    given: set[tuple[str, int, int]] = set()

    def visit(history: SubjectHistory, version: SchemaVersion) -> Iterator[ArchivedVersion]:
        place = history.subject, version.version, version.id
        if place in given:
            return
        given.add(place)
        for each in version.schema.references:
            yield from visit(histories[each.subject], _referred(histories[each.subject], each))
        yield ArchivedVersion(subject=history.subject, version=version, level=history.level, mode=history.mode)

    for history in histories.values():
        for version in history.versions:
            yield from visit(history, version)


def _referred(history: SubjectHistory, reference: Reference) -> SchemaVersion:
    """Returns the version that is meant: of an archive a subject that was made anew may have a number twice."""
    found = next((v for v in history.versions if (v.version, v.key) == (reference.version, reference.key)), None)
    if found is None:
        raise SubjectMovedError(
            f"subject {history.subject}: version {reference.version} is not what others refer to",
            hint="it is looked at again",
        )
    return found


def _registered(each: ArchivedVersion) -> Action:
    return Action(
        kind=ActionKind.REGISTER, subject=each.subject, version=each.version, key=each.version.key, why=_STATE
    )


def _levelled(history: SubjectHistory) -> Action:
    return Action(kind=ActionKind.SET_LEVEL, subject=history.subject, value=history.level, why=_STATE)
