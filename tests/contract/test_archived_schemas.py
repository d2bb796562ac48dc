"""Subjects in an archive: whatever dies, and whoever else writes, what is there can be read and gone on from."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from hashlib import md5
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest

from mirrorlake.archive.schemas.client import ArchivedRegistry
from mirrorlake.archive.schemas.names import subject_folder
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.clock import SystemClock
from mirrorlake.errors import RegistryUnavailableError, SchemaAlteredError
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import SubjectHistory
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.archiving import SubjectArchive
from mirrorlake.service.subjects.bringing import Brought
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from support.registry_model import RegistryModel, guid_of, record
from support.stub_registry import StubRegistry

T = TypeVar("T")

SUBJECTS = ("orders-value", "common")
REFERRING = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": "c", "type": "Common"}]}, separators=(",", ":")
)


class DiedError(Exception):
    pass


@pytest.fixture
def here() -> Iterator[StubRegistry]:
    model = RegistryModel(level="BACKWARD", next_id=41)
    with StubRegistry(model) as stub:
        yield stub


def filled(model: RegistryModel) -> None:
    """Two subjects, one of which refers to the other; a version is deleted, a level is the subject's own."""
    model.register("common", {"schema": record("x")})
    model.register("common", {"schema": record("x", "y?")})
    refers = {"schema": REFERRING, "references": [{"name": "Common", "subject": "common", "version": 2}]}
    model.levels["orders-value"] = "NONE"
    model.register("orders-value", {"schema": record("gone")})
    model.register("orders-value", refers)
    model.register("orders-value", {"schema": record("a", "b?")})
    model.delete("orders-value", 1)


def asked(stub: StubRegistry, ask: Callable[[RegistryClient], Awaitable[T]]) -> T:
    async def run() -> T:
        client = RegistryClient(RegistrySettings(name="here", urls=(stub.url,)))
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(run())


def archived(
    store: ObjectStore,
    stub: StubRegistry,
    *subjects: str,
    crash_point: CrashPoint = no_crash,
    schemas: ArchivedSchemas | None = None,
) -> Brought:
    kept = schemas or ArchivedSchemas(store, "here")

    async def bring(client: RegistryClient) -> Brought:
        archive = SubjectArchive(source=client, schemas=kept, writer="w", clock=SystemClock(), crash_point=crash_point)
        return await archive.bring(subjects or SUBJECTS)

    return asked(stub, bring)


def restored(store: ObjectStore, *subjects: str) -> dict[str, SubjectHistory]:
    async def read() -> dict[str, SubjectHistory]:
        registry = ArchivedRegistry("here", ArchivedSchemas(store, "here"), where="x")
        return {name: await registry.history(name) for name in subjects or SUBJECTS}

    return asyncio.run(read())


def registered(stub: StubRegistry, *subjects: str) -> dict[str, SubjectHistory]:
    async def read(client: RegistryClient) -> dict[str, SubjectHistory]:
        return {name: await client.history(name) for name in subjects or SUBJECTS}

    return asked(stub, read)


def objects(store: ObjectStore) -> dict[str, bytes]:
    root = "_mirrorlake/schemas/here"
    return {info.key: store.read(info.key) for folder in store.folders(root) for info in store.list(f"{root}/{folder}")}


def test_what_a_registry_holds_is_read_from_the_archive_as_it_was(store: ObjectStore, here: StubRegistry) -> None:
    filled(here.model)
    first = archived(store, here)
    assert dict(first.pairs) == {id_: id_ for id_ in (41, 42, 43, 44, 45)}
    assert restored(store) == registered(here)
    before = objects(store)
    assert (archived(store, here).done, objects(store)) == ((), before)


def test_an_object_of_a_version_is_the_one_that_the_page_of_the_format_says(
    store: ObjectStore, here: StubRegistry
) -> None:
    filled(here.model)
    archived(store, here)
    said = json.loads(store.read("_mirrorlake/schemas/here/orders-value/0000000002-0000000044.json"))
    common = json.loads(store.read("_mirrorlake/schemas/here/common/0000000002-0000000042.json"))
    assert {field: said[field] for field in ("format_version", "registry", "subject", "version", "id", "type")} == {
        "format_version": 1,
        "registry": "here",
        "subject": "orders-value",
        "version": 2,
        "id": 44,
        "type": "AVRO",
    }
    assert said["schema"] == REFERRING
    assert said["references"] == [{"name": "Common", "subject": "common", "version": 2, "digest": common["digest"]}]
    assert (said["deleted"], said["level"], said["mode"]) == (False, "NONE", "READWRITE")


def test_a_death_before_any_object_leaves_what_can_be_read_and_the_next_run_ends_it(
    store: ObjectStore, here: StubRegistry
) -> None:
    filled(here.model)
    here.model.level = "FULL"  # so that there is a state to be said, too, once versions were archived before
    for survived in range(20):
        steps: list[str] = []

        def die(step: str, steps: list[str] = steps, survived: int = survived) -> None:
            if len(steps) == survived:
                raise DiedError
            steps.append(step)

        if survived == 3:
            here.model.delete("common", 1)
        try:
            archived(store, here, crash_point=die)
        except DiedError:
            pass
        else:
            break
        schemas = ArchivedSchemas(store, "here")
        if schemas.look():
            histories = [schemas.history(subject) for subject in schemas.subjects]
            keys = {each.key for history in histories if history for each in history.versions}
            referred = {
                reference.key
                for history in histories
                if history
                for each in history.versions
                for reference in each.schema.references
            }
            assert referred <= keys, "what a version refers to is there before it"
    assert survived > 0
    assert restored(store) == registered(here)


def test_of_two_writers_at_once_neither_fails_and_everything_is_there_once(
    store: ObjectStore, here: StubRegistry
) -> None:
    filled(here.model)
    failures: list[BaseException] = []
    together = threading.Barrier(2)

    def write() -> None:
        try:
            together.wait(30)
            archived(store, here)
        except BaseException as error:  # noqa: BLE001  told to the test
            failures.append(error)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert failures == []
    assert restored(store) == registered(here)
    assert len([key for key in objects(store) if "/_subject-" not in key]) == 5


def test_what_changes_later_is_said_by_a_further_object(store: ObjectStore, here: StubRegistry) -> None:
    filled(here.model)
    kept = ArchivedSchemas(store, "here")
    archived(store, here, schemas=kept)
    before = objects(store)
    here.model.delete("orders-value", 3)
    here.model.register("orders-value", {"schema": record("a", "b?", "c?")})
    here.model.levels["orders-value"] = "FULL"
    archived(store, here, schemas=kept)
    assert restored(store) == registered(here)
    assert before.items() <= objects(store).items(), "nothing is changed or removed"
    assert [archived(store, here, schemas=kept).done, archived(store, here).done] == [(), ()]


def test_a_subject_that_was_made_anew_keeps_what_its_records_of_before_need(
    store: ObjectStore, here: StubRegistry
) -> None:
    here.model.register("s", {"schema": record("old")})
    archived(store, here, "s")
    here.model.delete("s", 1)
    here.model.delete("s", 1, permanent=True)
    here.model.highest.clear()
    archived(store, here, "s")  # nothing is known of the subject now, and nothing follows
    assert [(each.version, each.id, each.is_deleted) for each in restored(store, "s")["s"].live] == [(1, 41, False)]
    here.model.register("s", {"schema": record("new")})
    archived(store, here, "s")
    found = restored(store, "s")["s"].versions
    assert [(each.version, each.id, each.is_deleted) for each in found] == [(1, 41, True), (1, 42, False)]


def test_an_archive_of_an_archive_holds_the_same(store: ObjectStore, here: StubRegistry, tmp_path: Path) -> None:
    filled(here.model)
    here.model.register("s", {"schema": record("old")})
    archived(store, here, *SUBJECTS, "s")
    here.model.delete("s", 1)
    here.model.delete("s", 1, permanent=True)
    here.model.highest.pop("s")
    here.model.register("s", {"schema": record("new")})
    archived(store, here, "s")
    second = FilesystemStore(tmp_path / "second")
    (tmp_path / "second").mkdir()
    archive = SubjectArchive(
        source=ArchivedRegistry("kept", ArchivedSchemas(store, "here"), where="x"),
        schemas=ArchivedSchemas(second, "here"),
        writer="w",
        clock=SystemClock(),
    )
    found = asyncio.run(archive.bring_ids([42, 46, 47, 99], named=["orders-value"]))
    assert {42, 46, 47} <= found.pairs.keys()
    assert (dict(found.refused), found.absent) == ({}, frozenset({99}))
    asyncio.run(archive.bring(SUBJECTS))
    assert restored(second, *SUBJECTS, "s") == restored(store, *SUBJECTS, "s")


def test_another_registry_under_the_same_name_is_refused_and_adds_nothing(
    store: ObjectStore, here: StubRegistry
) -> None:
    here.model.register("a", {"schema": record("x")})
    archived(store, here, "a")
    before = objects(store)
    other = RegistryModel(next_id=41)
    other.register("b", {"schema": record("another")})
    with StubRegistry(other) as stub:
        found = archived(store, stub, "b")
    assert dict(found.pairs) == {}
    assert "schema id 41 of registry here" in found.refused[41]
    assert "another key in `registries`" in found.refused[41]
    assert objects(store) == before


def test_an_object_that_is_not_what_was_archived_is_named_and_the_others_are_read(
    store: ObjectStore, here: StubRegistry
) -> None:
    filled(here.model)
    archived(store, here)
    key = f"{subject_folder('here', 'orders-value')}/0000000003-0000000045.json"
    data = store.read(key)
    store.delete(key)
    store.create(key, data.replace(b'"a\\"', b'"z\\"'))
    assert store.read(key) != data
    with pytest.raises(SchemaAlteredError, match=key):
        restored(store)
    assert restored(store, "common") == registered(here, "common")


def deleted_one_by_one(store: ObjectStore, here: StubRegistry) -> str:
    """Three versions, of which two are deleted later, one a look; returns the folder."""
    for fields in (("a",), ("a", "b?"), ("a", "b?", "c?")):
        here.model.register("s", {"schema": record(*fields)})
    archived(store, here, "s")
    for number in (1, 2):
        here.model.delete("s", number)
        archived(store, here, "s")
    assert [each.version for each in restored(store, "s")["s"].live] == [3]
    assert restored(store, "s")["s"].damage == ()
    return subject_folder("here", "s")


@pytest.mark.parametrize("bytes_left", [b"", b"garbage", b'{"format_version": 1, "subject": "s", "lev'])
def test_a_state_that_cannot_be_read_is_named_and_written_anew_by_the_next_look(
    store: ObjectStore, here: StubRegistry, bytes_left: bytes
) -> None:
    key = f"{deleted_one_by_one(store, here)}/_subject-0000000001.json"
    store.delete(key)
    store.create(key, bytes_left)
    found = restored(store, "s")["s"]
    assert [each.version for each in found.live] == [2, 3], "an older one counts"
    assert [(key in each.text, each.is_open) for each in found.damage] == [(True, True)]
    assert key in archived(store, here, "s").damage[0].text
    assert (restored(store, "s"), restored(store, "s")["s"].damage) == (registered(here, "s"), ())


def test_a_hole_in_the_states_and_a_version_that_is_lost_are_named(store: ObjectStore, here: StubRegistry) -> None:
    folder = deleted_one_by_one(store, here)
    store.delete(f"{folder}/_subject-0000000000.json")
    (hole,) = restored(store, "s")["s"].damage
    assert (f"{folder}/_subject-0000000000.json is missing" in hole.text, hole.is_open) == (True, False)
    store.delete(f"{folder}/0000000002-0000000042.json")
    found = restored(store, "s")["s"]
    assert [each.version for each in found.versions] == [1, 3]
    assert [each.is_open for each in found.damage] == [False, True]
    assert f"{folder}/0000000002-0000000042.json is missing" in found.damage[1].text


def test_an_archive_without_the_registry_is_not_one_without_subjects(store: ObjectStore) -> None:
    with pytest.raises(RegistryUnavailableError, match="no schemas of a registry here"):
        restored(store, "orders-value")


def test_a_version_that_cannot_be_read_leaves_the_others_known(store: ObjectStore, here: StubRegistry) -> None:
    filled(here.model)
    archived(store, here)
    known = ArchivedSchemas(store, "here")
    known.look()
    versions, unknown = known.versions()
    assert (len(versions), unknown) == (5, {})
    damaged = "_mirrorlake/schemas/here/common/0000000001-0000000041.json"
    content = store.read(damaged)
    store.delete(damaged)
    store.create(damaged, content.replace(b'"int', b'"lon'))
    again = ArchivedSchemas(store, "here")
    again.look()
    left, unknown = again.versions()
    assert [each.version.id for each in left] == [each.version.id for each in versions if each.version.id != 41]
    assert unknown.keys() == {41}
    assert damaged in str(unknown[41])


def test_guids_are_archived_where_the_registry_gives_them_out(store: ObjectStore, here: StubRegistry) -> None:
    here.model.has_guids = True
    filled(here.model)
    archived(store, here)
    assert restored(store) == registered(here)
    said = json.loads(store.read("_mirrorlake/schemas/here/common/0000000001-0000000041.json"))
    # MD5 of the text alone, as there is nothing else.
    text = '{"type":"record","name":"Order","fields":[{"name":"x","type":"int"}]}'
    assert (said["schema"], said["guid"]) == (text, str(UUID(hex=md5(text.encode()).hexdigest())))
    schemas = ArchivedSchemas(store, "here")
    schemas.look()
    assert [each.version.guid is None for each in schemas.versions()[0]] == [False] * 5
    assert (archived(store, here).done, restored(store)) == ((), registered(here))


def test_guids_that_a_registry_gives_out_since_are_said_by_a_further_object(
    store: ObjectStore, here: StubRegistry
) -> None:
    filled(here.model)
    kept = ArchivedSchemas(store, "here")
    archived(store, here, schemas=kept)
    before = objects(store)
    here.model.has_guids = True
    here.model.register("common", {"schema": record("x", "y?", "z?")})
    archived(store, here, schemas=kept)
    expected = registered(here)
    assert restored(store) == expected
    assert before.items() <= objects(store).items(), "nothing is changed or removed"
    schemas = ArchivedSchemas(store, "here")
    schemas.look()
    told = {each.version.id: each.version.guid for each in schemas.versions()[0]}
    assert told == {each.id: each.guid for history in expected.values() for each in history.versions}
    assert None not in told.values()
    after = objects(store)
    here.model.has_guids = False  # another member of it, of the version before
    assert (archived(store, here).done, archived(store, here, schemas=kept).done) == ((), ())
    assert objects(store) == after
    here.model.levels["common"] = "FULL"
    archived(store, here)
    assert {each.guid for each in restored(store)["common"].versions} == {
        each.guid for each in expected["common"].versions
    }, "a later state forgets none"


def test_what_a_guid_names_is_archived_before_it_is_known_and_found_by_it_again(
    store: ObjectStore, here: StubRegistry
) -> None:
    """Also what was archived before the registry gave any."""
    filled(here.model)
    archived(store, here)
    here.model.has_guids = True
    here.model.register("other", {"schema": record("o")})
    old, new = (UUID(guid_of(here.model.live(subject)[0].body)) for subject in ("common", "other"))
    nobodys = UUID(int=1)

    async def bring(client: RegistryClient) -> Brought:
        archive = SubjectArchive(source=client, schemas=ArchivedSchemas(store, "here"), writer="w", clock=SystemClock())
        return await archive.bring_ids([old, new, nobodys], named=["common"])

    async def places() -> list[list[tuple[str, int]]]:
        registry = ArchivedRegistry("here", ArchivedSchemas(store, "here"), where="x")
        return [await registry.places_of_guid(guid) for guid in (old, new, nobodys)]

    assert asyncio.run(places()) == [[], [], []]
    found = asked(here, bring)
    assert [found.pairs.get(guid) for guid in (old, new, nobodys)] == [old, new, None]
    assert (found.absent, dict(found.refused)) == (frozenset({nobodys}), {})
    assert asyncio.run(places()) == [[("common", 1)], [("other", 1)], []]
