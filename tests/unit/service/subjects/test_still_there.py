"""What a destination's registry has lost of the schemas that a service knows there."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import Schema
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.bringing import Meaning
from mirrorlake.service.subjects.known_ids import NameThere
from mirrorlake.service.subjects.still_there import lost_of, meanings_at
from support.registry_model import RegistryModel, guid_of, record
from support.stub_registry import StubRegistry


def lost(stub: StubRegistry, known: Mapping[SchemaName, NameThere]) -> frozenset[SchemaName]:
    async def ask() -> frozenset[SchemaName]:
        client = RegistryClient(RegistrySettings(name="there", urls=(stub.url,)))
        try:
            return await lost_of(known, client)
        finally:
            await client.close()

    return asyncio.run(ask())


def key_of(text: str) -> str:
    return Schema(text=text).key


def test_an_id_is_lost_where_it_is_not_known_or_means_another_schema() -> None:
    model = RegistryModel(level="NONE", has_guids=True)
    model.register("s", {"schema": record("a")})
    gone, there = UUID(guid_of({"schema": record("gone")})), UUID(guid_of({"schema": record("a")}))
    known: dict[SchemaName, NameThere] = {
        10: NameThere(name=1, key=key_of(record("a"))),
        11: NameThere(name=1, key=key_of(record("b"))),
        12: NameThere(name=2, key=key_of(record("a"))),
        gone: NameThere(name=gone, key=""),
        there: NameThere(name=there, key=""),
    }
    with StubRegistry(model) as stub:
        assert lost(stub, known) == {11, 12, gone}
        assert lost(stub, {}) == frozenset()


def test_what_an_id_means_now_is_told_where_its_subject_is_gone_and_nothing_of_one_that_nobody_knows() -> None:
    model = RegistryModel(level="NONE")
    model.register("s", {"schema": record("a")})

    async def ask(url: str) -> dict[SchemaName, Meaning]:
        client = RegistryClient(RegistrySettings(name="here", urls=(url,)))
        try:
            return await meanings_at([1, 2, UUID(int=1)], client)
        finally:
            await client.close()

    with StubRegistry(model) as stub:
        means = Meaning(keys=frozenset({key_of(record("a"))}), source="version 1 of s", destination="s")
        assert asyncio.run(ask(stub.url)) == {1: means}
    assert model.changes == ["register s 1 id 1"]


def test_without_an_answer_nothing_is_lost() -> None:
    with StubRegistry() as stub:
        stub.fault = lambda *_: (401, {})
        with pytest.raises(MirrorlakeError):
            lost(stub, {10: NameThere(name=1, key="")})
