"""The archived schemas of one registry, in one store: reading them, and adding to them.

Objects never change. A version is an object of its own, created if absent; what changes of a subject afterwards (its
level, its mode, which versions are deleted, a GUID that the registry did not give out before) is said by a further
object, of which the one with the highest number counts. So two processes may add at once, and whatever a dead one
leaves can be read.
"""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from mirrorlake.archive.marker_content import time_of
from mirrorlake.archive.schemas.content import (
    ArchivedVersion,
    SubjectState,
    decode_state,
    decode_version,
    encode_state,
    encode_version,
)
from mirrorlake.archive.schemas.names import (
    VersionName,
    parse_state_name,
    parse_version_name,
    registry_folder,
    state_name,
    subject_folder,
    subject_of_folder,
)
from mirrorlake.errors import PositionMovedError, SchemaAlteredError
from mirrorlake.schemas.history import Damage, SchemaVersion, SubjectHistory
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, ObjectStore

ATTEMPTS_MAX = 10
"""How often others may be first with the next state of a subject, before whoever writes gives up for now."""

_OLDER_COUNTS = (
    "what an older one says of the subject counts, so versions that were deleted since, and its level, may come back "
    "as they were; put it back from a copy, or have the mirror that archives it look at the registry once more"
)

LISTED_AT_ONCE = 8
"""Folders listed side by side: enough to hide an object store's latency."""


class ArchivedSchemas:
    """The schemas of one registry in an archive. Several threads may call it.

    What was read of a version is kept, as it never changes. Names are listed by `look`; what is not there after one is
    not there.

    Args:
        store: of the archive.
        registry: what the registry was called where it was archived from.
    """

    def __init__(self, store: ObjectStore, registry: str) -> None:
        self._store = store
        self.registry = registry
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, VersionName], ArchivedVersion] = {}
        self._names: dict[str, frozenset[VersionName]] = {}
        self._places: dict[int, set[tuple[str, VersionName]]] = {}
        self._said: dict[str, SubjectHistory] = {}
        self._stated: set[str] = set()
        self._damage: dict[str, Damage] = {}

    @property
    def subjects(self) -> list[str]:
        """The subjects that the last look found, sorted."""
        return sorted(self._names)

    def look(self) -> bool:
        """Lists all that is archived of the registry; returns False where there is nothing of it.

        Raises:
            SchemaAlteredError: the object that says whose folder one is cannot be read.
            MirrorlakeError: the store could not be read.
        """
        folders = [*self._store.folders(registry_folder(self.registry))]
        with ThreadPoolExecutor(LISTED_AT_ONCE, thread_name_prefix="archived-schemas") as pool:
            found = dict(each for each in pool.map(self._listed, folders) if each is not None)
        # Added to what is known, and never anew: whoever asks meanwhile must not find less than there was.
        for subject, (names, is_stated) in found.items():
            self._note(subject, names)
            if is_stated:
                self._stated.add(subject)
        return bool(found)

    def places_of_id(self, id_: int) -> list[tuple[str, int]]:
        """Returns subject and version of all that the last look found under an id, sorted."""
        return sorted((subject, name.version) for subject, name in self._with_id(id_))

    def version_of_id(self, id_: int) -> ArchivedVersion | None:
        """Returns a version with an id, of those that the last look found; None where none has it."""
        return next((self._read(subject, name) for subject, name in sorted(self._with_id(id_))), None)

    def versions(self) -> tuple[list[ArchivedVersion], dict[int, SchemaAlteredError]]:
        """Returns all versions that the last look found, of every subject, with the GUIDs that were told later.

        And ids of which it is not known what they mean, each with the reason: an object cannot be read and no other one
        has the id, or it means two schemas.

        Raises:
            MirrorlakeError: the store could not be read.
        """
        read = self._read_all()
        found = [each for _, each in read if isinstance(each, ArchivedVersion)]
        # What else is said of a subject is read only where it may say more.
        lacking = sorted({each.subject for each in found if each.version.guid is None} & self._stated)
        with ThreadPoolExecutor(LISTED_AT_ONCE, thread_name_prefix="archived-schemas") as pool:
            states = dict(zip(lacking, pool.map(lambda subject: self._subject(subject)[1], lacking), strict=True))
        told = [
            replace(each, version=replace(each.version, guid=_guid(each, states.get(each.subject)))) for each in found
        ]
        return told, self._unknown_ids(read)

    def damage(self) -> list[str]:
        """Returns what is damaged or lost of all that the last look found, an object each, sorted. Reads all of it.

        Raises:
            MirrorlakeError: the store could not be read.
        """
        read = self._read_all()
        with ThreadPoolExecutor(LISTED_AT_ONCE, thread_name_prefix="archived-schemas") as pool:
            told = [each for _, _, damage in pool.map(self._subject, self.subjects) for each in damage]
        errors = [each for _, each in read if isinstance(each, SchemaAlteredError)]
        return sorted({*map(str, [*errors, *self._unknown_ids(read).values()]), *(each.text for each in told)})

    def _read_all(self) -> list[tuple[VersionName, ArchivedVersion | SchemaAlteredError]]:
        """Reads all versions that the last look found, in order; an error in the place of one that cannot be read."""

        def read(place: tuple[str, VersionName]) -> tuple[VersionName, ArchivedVersion | SchemaAlteredError]:
            try:
                return place[1], self._read(*place)
            except SchemaAlteredError as error:
                return place[1], error

        places = [(subject, name) for subject, names in sorted(self._names.items()) for name in sorted(names)]
        with ThreadPoolExecutor(LISTED_AT_ONCE, thread_name_prefix="archived-schemas") as pool:
            return list(pool.map(read, places))

    def _unknown_ids(
        self, read: Iterable[tuple[VersionName, ArchivedVersion | SchemaAlteredError]]
    ) -> dict[int, SchemaAlteredError]:
        """Returns ids of which it is not known what they mean: none of theirs can be read, or they mean two schemas."""
        first: dict[int, ArchivedVersion] = {}
        unreadable: dict[int, SchemaAlteredError] = {}
        ambiguous: dict[int, SchemaAlteredError] = {}
        for name, each in read:
            if isinstance(each, SchemaAlteredError):
                unreadable[name.id] = each
                continue
            try:
                self._check_same(each, first.setdefault(name.id, each), self._key(each.subject, name))
            except SchemaAlteredError as error:
                ambiguous[name.id] = error
        return ambiguous | {id_: error for id_, error in unreadable.items() if id_ not in first}

    def history(self, subject: str) -> SubjectHistory | None:
        """Returns all that is archived of a subject, as it stood when it was looked at last; None where nothing is.

        A version that the registry does not hold any more is one that was soft-deleted. Reads what is there now.

        Raises:
            SchemaAlteredError: an object cannot be read, or an id means two schemas.
            MirrorlakeError: the store could not be read.
        """
        names, state, damage = self._subject(subject)
        if not names:
            return None
        versions = [self._read(subject, name) for name in sorted(names)]
        for each in versions:
            self._check_id(each)
        newest = versions[-1]
        return SubjectHistory(
            subject=subject,
            versions=tuple(_as_it_stands(each, state) for each in versions),
            level=newest.level if state is None else state.level,
            mode=newest.mode if state is None else state.mode,
            damage=damage,
        )

    def holds(self, archived: ArchivedVersion) -> bool:
        """Tells whether a version was seen to be archived; False may be one that nobody has looked for."""
        known = self._versions.get((archived.subject, archived.name))
        return known is not None and known.version.key == archived.version.key

    def add(
        self, archived: ArchivedVersion, *, writer: str, now_seconds: float, crash_point: CrashPoint = no_crash
    ) -> bool:
        """Archives a version, unless it is archived; returns whether it was written. Idempotent.

        Args:
            archived: the version; all that it refers to is archived.
            writer: names this process.
            now_seconds: dates the object.
            crash_point: called before it is written; for tests.

        Raises:
            SchemaAlteredError: what is archived under its number and id, or under its id in another subject, is another
                schema: it is of another registry. Nothing was written.
            MirrorlakeError: the store could not be read or written.
        """
        if self.holds(archived):
            return False
        key = self._key(archived.subject, archived.name)
        self._check_id(archived)
        data = encode_version(archived, registry=self.registry, writer=writer, created_at=time_of(now_seconds))
        crash_point("schema-version")
        try:
            self._store.create(key, data)
        except ObjectExistsError:
            self._check_same(archived, self._read(archived.subject, archived.name), key)
            return False
        self._versions[archived.subject, archived.name] = archived
        self._note(archived.subject, {archived.name})
        return True

    def say(
        self, history: SubjectHistory, *, writer: str, now_seconds: float, crash_point: CrashPoint = no_crash
    ) -> bool:
        """Records how a subject stands, unless all of that is archived; returns whether it was written. Idempotent.

        What was recorded last by this object is not looked at again.

        Args:
            history: what the registry holds of it, at least one version, all of them archived.
            writer: names this process.
            now_seconds: dates the object.
            crash_point: called before it is written; for tests.

        Raises:
            PositionMovedError: others were first each time.
            MirrorlakeError: the store could not be read or written.
        """
        if self._said.get(history.subject) == history:
            return False
        current = {VersionName(version=each.version, id=each.id): each.is_deleted for each in history.versions}
        for _ in range(ATTEMPTS_MAX):
            archived = self.history(history.subject)
            assert archived is not None, "the versions of a subject are archived before its state"
            self._damage |= {each.text: each for each in archived.damage}
            deleted = {
                name: current.get(name, True)
                for name in (VersionName(version=each.version, id=each.id) for each in archived.versions)
            }
            said = {VersionName(version=each.version, id=each.id): each.is_deleted for each in archived.versions}
            before, guids = _guids(archived), {**_guids(history), **_guids(archived)}
            guids = {name: guid for name, guid in guids.items() if name in deleted}
            if (said, before, archived.level, archived.mode) == (deleted, guids, history.level, history.mode):
                self._said[history.subject] = history
                return False
            number = 1 + max(self._states(history.subject), default=-1)
            told = {
                name: guid for name, guid in guids.items() if self._read(history.subject, name).version.guid is None
            }
            state = SubjectState(
                subject=history.subject, level=history.level, mode=history.mode, deleted=deleted, guids=told
            )
            crash_point("schema-state")
            try:
                self._store.create(
                    f"{self._folder(history.subject)}/{state_name(number)}",
                    encode_state(state, registry=self.registry, writer=writer, created_at=time_of(now_seconds)),
                )
            except ObjectExistsError:
                continue
            self._said[history.subject] = history
            return True
        raise PositionMovedError(f"{self._folder(history.subject)}: other processes were first {ATTEMPTS_MAX} times")

    def take_damage(self) -> tuple[Damage, ...]:
        """Returns what was seen to be damaged while states were recorded, since this was asked last."""
        found, self._damage = self._damage, {}
        return tuple(found.values())

    def _with_id(self, id_: int) -> Iterable[tuple[str, VersionName]]:
        with self._lock:
            return [*self._places.get(id_, ())]

    def _note(self, subject: str, names: Iterable[VersionName]) -> None:
        """Takes that objects of these names are there."""
        with self._lock:
            self._names[subject] = self._names.get(subject, frozenset()) | frozenset(names)
            for name in names:
                self._places.setdefault(name.id, set()).add((subject, name))

    def _check_id(self, archived: ArchivedVersion) -> None:
        """Checks that nothing else is archived under an id, as far as the last look has found it."""
        for subject, name in self._with_id(archived.version.id):
            if (subject, name) != (archived.subject, archived.name):
                self._check_same(archived, self._read(subject, name), self._key(subject, name))

    def _check_same(self, wanted: ArchivedVersion, there: ArchivedVersion, key: str) -> None:
        if wanted.version.key != there.version.key:
            raise SchemaAlteredError(
                f"schema id {wanted.version.id} of registry {self.registry} is version {wanted.version.version} of "
                f"{wanted.subject}, and another schema is archived with that id: {key}",
                hint="two registries, or one that was made anew, are archived under one name: give this one another "
                "key in `registries`",
                subject=wanted.subject,
            )

    def _subject(self, subject: str) -> tuple[frozenset[VersionName], SubjectState | None, tuple[Damage, ...]]:
        """Returns which versions are there, what counts of how the subject stands, and what was seen to be damaged."""
        names = [info.name for info in self._store.list(self._folder(subject))]
        versions = frozenset(each for name in names if (each := parse_version_name(name)) is not None)
        if versions:
            self._note(subject, versions)
        numbers = {number for name in names if (number := parse_state_name(name)) is not None}
        damage, counts = list[Damage](), None
        for number in sorted(numbers, reverse=True):
            key = f"{self._folder(subject)}/{state_name(number)}"
            state = decode_state(self._store.read(key), where=key)
            if state is not None and state.subject == subject:
                counts = state
                break
            damage.append(Damage(text=f"{key} cannot be read: {_OLDER_COUNTS}"))
        for number in sorted({*range(max(numbers, default=-1))} - numbers):
            key = f"{self._folder(subject)}/{state_name(number)}"
            if self._is_missing(key):
                damage.append(Damage(text=f"{key} is missing, and a later one is there", is_open=counts is None))
        for lost in sorted((counts.deleted.keys() if counts else set()) - versions):
            key = self._key(subject, lost)
            if self._is_missing(key):
                damage.append(Damage(text=f"{key} is missing: that version is not restored"))
        return versions, counts, tuple(damage)

    def _is_missing(self, key: str) -> bool:
        """Tells whether what a listing does not have is not there: others may write while it is made."""
        try:
            self._store.read(key)
        except ObjectMissingError:
            return True
        return False

    def _states(self, subject: str) -> list[int]:
        names = (info.name for info in self._store.list(self._folder(subject)))
        return [each for name in names if (each := parse_state_name(name)) is not None]

    def _listed(self, folder: str) -> tuple[str, tuple[frozenset[VersionName], bool]] | None:
        """Returns a folder's subject, its versions, and whether more is said of it; None where there is no version."""
        prefix = f"{registry_folder(self.registry)}/{folder}"
        listed = [info.name for info in self._store.list(prefix)]
        names = [each for name in listed if (each := parse_version_name(name)) is not None]
        if not names:
            return None
        subject = subject_of_folder(folder)
        if subject is None:
            key = f"{prefix}/{min(names)}"
            archived = decode_version(self._store.read(key), where=key)
            if archived is None or self._folder(archived.subject) != prefix:
                raise _unreadable(key)
            subject = archived.subject
        return subject, (frozenset(names), any(parse_state_name(name) is not None for name in listed))

    def _read(self, subject: str, name: VersionName) -> ArchivedVersion:
        if known := self._versions.get((subject, name)):
            return known
        key = self._key(subject, name)
        try:
            archived = decode_version(self._store.read(key), where=key)
        except ObjectMissingError as error:
            raise _unreadable(key) from error
        if archived is None or (archived.subject, archived.name) != (subject, name):
            raise _unreadable(key)
        self._versions[subject, name] = archived
        return archived

    def _folder(self, subject: str) -> str:
        return subject_folder(self.registry, subject)

    def _key(self, subject: str, name: VersionName) -> str:
        return f"{self._folder(subject)}/{name}"


def _as_it_stands(archived: ArchivedVersion, state: SubjectState | None) -> SchemaVersion:
    deleted: Mapping[VersionName, bool] = {} if state is None else state.deleted
    is_deleted = deleted.get(archived.name, archived.version.is_deleted)
    return replace(archived.version, is_deleted=is_deleted, guid=_guid(archived, state))


def _guid(archived: ArchivedVersion, state: SubjectState | None) -> str | None:
    told = None if state is None else state.guids.get(archived.name)
    return archived.version.guid or told


def _guids(history: SubjectHistory) -> dict[VersionName, str]:
    return {VersionName(version=v.version, id=v.id): v.guid for v in history.versions if v.guid is not None}


def _unreadable(key: str) -> SchemaAlteredError:
    return SchemaAlteredError(
        f"{key} cannot be read: it is not what was archived",
        hint="put it back from a copy; or delete it, and what archives there writes it anew from the registry",
    )
