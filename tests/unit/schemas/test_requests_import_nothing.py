"""A request to a registry looks for no module: one that is not there is looked for in every folder, each time."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.settings import RegistrySettings
from support.registry_model import record
from support.stub_registry import StubRegistry


class Asked:
    """Notes which modules Python looks for, and finds none."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self.names.append(fullname)
        return None


@pytest.fixture
def asked() -> Iterator[Asked]:
    found = Asked()
    sys.meta_path.insert(0, found)
    yield found
    sys.meta_path.remove(found)


def test_a_request_looks_for_no_module(asked: Asked) -> None:
    async def look(client: RegistryClient) -> list[str]:
        await client.histories(["orders-value"])  # what comes first may import what is there
        asked.names.clear()
        await client.histories(["orders-value"])
        return list(asked.names)

    async def run(url: str) -> list[str]:
        client = RegistryClient(RegistrySettings(name="here", urls=(url,)))
        try:
            return await look(client)
        finally:
            await client.close()

    with StubRegistry() as stub:
        stub.model.register("orders-value", {"schema": record("a")})
        assert asyncio.run(run(stub.url)) == []
