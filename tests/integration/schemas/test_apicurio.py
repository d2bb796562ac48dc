"""Subjects mirrored between a real registry and itself, and between it and one with Confluent's rules."""

import asyncio
import uuid
from collections.abc import Sequence

import httpx
import pytest

from mirrorlake.errors import RegistryRefusedError
from mirrorlake.schemas.applying import AppliedPlan, mirror_subjects
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import Reference, Schema, SubjectHistory
from mirrorlake.schemas.mirroring import SubjectMirroring
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from support.apicurio import Apicurio
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

pytestmark = pytest.mark.kafka


@pytest.fixture
def subject() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}-value"


def client_at(url: str) -> RegistryClient:
    return RegistryClient(RegistrySettings(name=url.split(":")[2][:5], urls=(url,)))


def fill(url: str, subject: str, schemas: Sequence[Schema], level: str = "") -> None:
    async def register() -> None:
        client = client_at(url)
        try:
            for each in schemas:
                await client.register(subject, each, each.references)
            if level:
                await client.set_level(subject, level)
        finally:
            await client.close()

    asyncio.run(register())


def mirror(source: str, destination: str, subject: str, rules: SubjectRules, *, to: str = "") -> AppliedPlan:
    async def run() -> AppliedPlan:
        here, there = client_at(source), client_at(destination)
        mirroring = SubjectMirroring(here, there, rules, lambda name: to if to and name == subject else name)
        try:
            return await mirror_subjects(mirroring, [subject])
        finally:
            await here.close()
            await there.close()

    return asyncio.run(run())


def history(url: str, subject: str) -> SubjectHistory:
    async def read() -> SubjectHistory:
        client = client_at(url)
        try:
            return await client.history(subject)
        finally:
            await client.close()

    return asyncio.run(read())


def texts(url: str, subject: str) -> list[str]:
    return [each.schema.text for each in history(url, subject).live]


def avro(*fields: str, **more: object) -> Schema:
    return Schema(text=record(*fields, **more))  # type: ignore[arg-type]


def json_schema(kind: str) -> Schema:
    return Schema(text=f'{{"type": "object", "properties": {{"id": {{"type": "{kind}"}}}}}}', type="JSON")


def protobuf(kind: str) -> Schema:
    text = f'syntax = "proto3"; package shop; message Order {{ {kind} id = 1; }}'
    return Schema(text=text, type="PROTOBUF")


@pytest.mark.parametrize(
    ("schemas", "incompatible"),
    [
        ([avro("a"), avro("a", doc="d"), avro("b"), avro("a?")], avro("new")),
        ([json_schema("integer"), json_schema("string")], json_schema("boolean")),
        ([protobuf("string"), protobuf("int64")], protobuf("double")),
    ],
    ids=["avro", "json", "protobuf"],
)
def test_a_history_that_its_level_would_not_take_comes_whole_under_another_name(
    apicurio: Apicurio, subject: str, schemas: list[Schema], incompatible: Schema
) -> None:
    """The registry does look at levels: what comes later is refused."""
    fill(apicurio.url, subject, schemas, "FULL_TRANSITIVE")

    mirror(apicurio.url, apicurio.url, subject, SubjectRules(), to=f"copy-{subject}")
    again = mirror(apicurio.url, apicurio.url, subject, SubjectRules(), to=f"copy-{subject}")

    copy = history(apicurio.url, f"copy-{subject}")
    assert [each.schema for each in copy.versions] == schemas
    assert copy.level == "FULL_TRANSITIVE"
    assert again.done == ()
    with pytest.raises(RegistryRefusedError, match="409"):
        fill(apicurio.url, f"copy-{subject}", [incompatible])


def test_versions_that_come_later_are_registered_while_the_level_is_low(apicurio: Apicurio, subject: str) -> None:
    fill(apicurio.url, subject, [avro("a")], "FULL")
    mirror(apicurio.url, apicurio.url, subject, SubjectRules(), to=f"copy-{subject}")
    fill(apicurio.url, subject, [], "NONE")
    fill(apicurio.url, subject, [avro("b"), avro("c")], "FULL")

    done = mirror(apicurio.url, apicurio.url, subject, SubjectRules(), to=f"copy-{subject}")

    assert [action.kind for action in done.done] == ["set-level", "register", "register", "set-level"]
    assert texts(apicurio.url, f"copy-{subject}") == [each.text for each in (avro("a"), avro("b"), avro("c"))]
    assert history(apicurio.url, f"copy-{subject}").level == "FULL"


def test_a_subject_of_a_registry_with_modes_comes_to_one_without(apicurio: Apicurio, subject: str) -> None:
    model = RegistryModel(level="NONE")
    for each in (record("a"), record("b")):
        model.register(subject, {"schema": each})
    model.level = "BACKWARD"

    with StubRegistry(model) as stub:
        mirror(stub.url, apicurio.url, subject, SubjectRules(registry_mode="mirror"))

    assert texts(apicurio.url, subject) == [record("a"), record("b")]
    assert history(apicurio.url, subject).level == "BACKWARD"


def test_a_subject_with_references_comes_to_a_registry_with_other_rules(apicurio: Apicurio, subject: str) -> None:
    inner = f"inner-{subject}"
    fill(apicurio.url, inner, [Schema(text=record("x", name="Inner"))])
    reference = Reference(name="Inner", subject=inner, version=1, key="")
    outer = '{"type": "record", "name": "Outer", "fields": [{"name": "i", "type": "Inner"}]}'
    fill(apicurio.url, subject, [Schema(text=outer, references=(reference,))])

    with StubRegistry() as stub:
        stub.model.register(inner, {"schema": record("y", name="Inner")})
        done = mirror(apicurio.url, stub.url, subject, SubjectRules(mode=SubjectMode.LENIENT))
        again = mirror(apicurio.url, stub.url, subject, SubjectRules(mode=SubjectMode.LENIENT))

        registered = stub.model.live(subject)[0].body
    assert registered["references"] == [{"name": "Inner", "subject": inner, "version": 2}]
    assert " " not in registered["schema"]  # it is worded anew, and known as the same
    assert again.done == ()
    assert len(done.plan.id_pairs) == 2


@pytest.mark.parametrize("deleted", DeletedVersions)
def test_deleted_versions_are_brought_as_configured(apicurio: Apicurio, subject: str, deleted: DeletedVersions) -> None:
    model = RegistryModel(level="NONE")
    for each in (record("a"), record("b"), record("c")):
        model.register(subject, {"schema": each})
    model.delete(subject, 2)

    with StubRegistry(model) as stub:
        rules = SubjectRules(deleted=deleted)
        done = mirror(stub.url, apicurio.url, subject, rules)
        again = mirror(stub.url, apicurio.url, subject, rules)

    brought = [record("a"), record("b"), record("c")]
    listed = brought if deleted is DeletedVersions.KEEP else [record("a"), record("c")]
    assert texts(apicurio.url, subject) == listed
    assert (2 in done.plan.id_pairs) is (deleted is not DeletedVersions.SKIP)
    assert again.done == ()


def test_later_looks_at_many_subjects_find_what_has_changed_though_nothing_lists_them(
    apicurio: Apicurio, subject: str
) -> None:
    names = [f"{subject}-{number}" for number in range(20)]

    async def run() -> list[list[int]]:
        client = client_at(apicurio.url)
        try:
            for name in names:
                await client.register(name, avro("a"), ())
            await client.histories(names)
            found = []
            for place in (3, 4):
                fresh = client_at(apicurio.url)
                await fresh.register(names[place], avro("a", "b?"), ())
                await fresh.close()
                found.append([len(each.versions) for each in await client.histories(names)])
            return found
        finally:
            await client.close()

    once = [1] * 3 + [2] + [1] * 16
    twice = [1] * 3 + [2, 2] + [1] * 15
    assert asyncio.run(run()) == [once, twice]


def test_this_registry_lists_no_schemas(apicurio: Apicurio) -> None:
    answer = httpx.get(f"{apicurio.url}/schemas", params={"deleted": "true", "offset": "0", "limit": "1"})
    assert (answer.status_code, isinstance(answer.json(), list)) == (404, False)


def test_this_registry_knows_no_guids(apicurio: Apicurio, subject: str) -> None:
    """Who asks for one is told that a path is missing, with 0 for the error's code; it is believed, as it has types."""
    fill(apicurio.url, subject, [Schema(text=record("a"))])

    async def ask() -> None:
        client = client_at(apicurio.url)
        try:
            assert await client.places_of_guid(uuid.uuid4()) == []
            assert [each.guid for each in (await client.history(subject)).versions] == [None]
        finally:
            await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize("odd", ["a/b", "a:b", "a%2Fb", "a%b", "ü", "日本", "a b", "a+b", "a?b#c", "a;b\\c"])
def test_subjects_of_odd_names_come_under_these_names(apicurio: Apicurio, subject: str, odd: str) -> None:
    name = f"{odd}-{subject}"
    schemas = [Schema(text=record("a")), Schema(text=record("a", "b"))]
    with StubRegistry(RegistryModel(level="NONE")) as stub:
        fill(f"{stub.url}/", name, schemas)
        mirror(f"{stub.url}/", f"{apicurio.url}//", name, SubjectRules())
    there = history(apicurio.url, name)
    assert [each.schema.text for each in there.versions] == [each.text for each in schemas]

    async def listed() -> list[str]:
        client = client_at(apicurio.url)
        try:
            return await client.subjects()
        finally:
            await client.close()

    assert name in asyncio.run(listed())
