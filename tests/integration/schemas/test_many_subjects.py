"""Thousands of subjects, over HTTP: what each look costs in requests."""

import asyncio
from collections import Counter

import pytest

from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.schemas.transport import RegistryTransport
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

SUBJECTS = 5_000
REQUESTS_OF_A_SUBJECT = 5
"""Its versions with and without soft-deleted ones, its newest, its level, its mode."""


@pytest.mark.slow
def test_five_thousand_subjects_cost_five_requests_each_once_and_a_thousand_in_all_from_then_on() -> None:
    names = [f"orders-{number}-value" for number in range(SUBJECTS)]
    model = RegistryModel(level="NONE")
    for number, name in enumerate(names):
        model.register(name, {"schema": record("a", name=f"R{number}")})
    looks: list[int] = []
    with StubRegistry(model) as stub:
        settings = RegistrySettings(name="here", urls=(stub.url,))

        async def run() -> list[int]:
            client = RegistryClient(settings, transport=RegistryTransport(settings))
            try:
                versions = []
                for change in (lambda: None, lambda: None, lambda: model.register(names[77], {"schema": record("b")})):
                    change()
                    before = len(stub.requests)
                    versions.append(sum(len(each.versions) for each in await client.histories(names)))
                    looks.append(len(stub.requests) - before)
                return versions
            finally:
                await client.close()

        assert asyncio.run(run()) == [SUBJECTS, SUBJECTS, SUBJECTS + 1]
        first, second, third = looks
        assert first <= REQUESTS_OF_A_SUBJECT * SUBJECTS + 20
        assert second <= SUBJECTS // 5 + 100, "levels and modes of a tenth of them, and listings"
        assert third <= SUBJECTS // 5 + 100 + 2 * REQUESTS_OF_A_SUBJECT
        methods = Counter(each.split(" ")[0] for each in stub.requests)
        assert set(methods) == {"GET"}, "a look changes nothing"
