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
from mirrorlake.service.subjects.known_ids import NameThere
from mirrorlake.service.subjects.still_there import lost_of
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


def test_without_an_answer_nothing_is_lost() -> None:
    with StubRegistry() as stub:
        stub.fault = lambda *_: (401, {})
        with pytest.raises(MirrorlakeError):
            lost(stub, {10: NameThere(name=1, key="")})
