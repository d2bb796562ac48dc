"""Later looks at many subjects: a few requests show what is unchanged, and nothing else is taken for unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import SubjectHistory
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.schemas.transport import RegistryTransport
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

SUBJECTS = [f"orders-{number:02d}-value" for number in range(24)]


async def no_time(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def stub() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE", has_guids=True)) as stub:
        fill(stub)
        yield stub


def fill(stub: StubRegistry, context: str = "") -> None:
    for place, name in enumerate(SUBJECTS):
        stub.model.register(context + name, {"schema": record("a", name=f"R{place}")})
        stub.model.register(context + name, {"schema": record("a", "b", name=f"R{place}")})
    stub.model.delete(context + SUBJECTS[3], 1)


@asynccontextmanager
async def client_of(stub: StubRegistry, context: str = "") -> AsyncIterator[RegistryClient]:
    settings = RegistrySettings(name="here", urls=(stub.url,), context=context)
    client = RegistryClient(settings, transport=RegistryTransport(settings, sleep=no_time))
    try:
        yield client
    finally:
        await client.close()


def looked(
    stub: StubRegistry,
    change: Callable[[], object] = lambda: None,
    *,
    context: str = "",
    names: list[str] | None = None,
) -> list[str]:
    """The requests of a look behind a change; what it finds is what a client finds that knows nothing."""
    wanted = names or SUBJECTS

    async def run() -> tuple[list[str], list[SubjectHistory], list[SubjectHistory]]:
        async with client_of(stub, context) as client, client_of(stub, context) as fresh:
            await client.histories(wanted)
            change()
            before = len(stub.requests)
            found = await client.histories(wanted)
            asked = stub.requests[before:]
            return asked, found, await fresh.histories(wanted)

    asked, found, expected = asyncio.run(run())
    assert found == expected
    return asked


def read_whole(requests: list[str]) -> list[str]:
    """The subjects whose versions were listed one by one, without repetitions."""
    parts = [each.split("/") for each in requests if each.endswith("/versions?deleted=true")]
    return [each[2] for each in parts]


def test_a_look_at_unchanged_subjects_is_two_listings_and_a_tenth_of_the_levels(stub: StubRegistry) -> None:
    asked = looked(stub)
    assert read_whole(asked) == []
    listed = [each for each in asked if each.startswith("GET /schemas?")]
    # One item, all, and that nothing follows; with and without what is soft-deleted.
    assert listed == [
        "GET /schemas?subjectPrefix=orders-&deleted=true&offset=0&limit=1",
        "GET /schemas?subjectPrefix=orders-&deleted=true&offset=0&limit=1000",
        "GET /schemas?subjectPrefix=orders-&deleted=true&offset=47&limit=1000",
        "GET /schemas?subjectPrefix=orders-&offset=0&limit=1",
        "GET /schemas?subjectPrefix=orders-&offset=0&limit=1000",
        "GET /schemas?subjectPrefix=orders-&offset=46&limit=1000",
    ]
    assert asked[:2] == ["GET /config", "GET /mode"]
    of_levels = [each for each in asked if each.startswith("GET /config/")]
    assert 0 < len(of_levels) <= 8
    assert len(asked) == 2 + 6 + 2 * len(of_levels)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.register(SUBJECTS[7], {"schema": record("z")}),
        lambda model: model.delete(SUBJECTS[7], 1),
        lambda model: model.delete_for_good(SUBJECTS[7]),
        lambda model: model.subjects[SUBJECTS[7]].pop(),
        lambda model: model.subjects[SUBJECTS[7]][-1].body.update(schema=record("other")),
    ],
    ids=["registered", "deleted", "gone", "deleted for good", "made anew"],
)
def test_a_subject_that_has_changed_is_read_whole_and_the_others_are_not(
    stub: StubRegistry, change: Callable[[RegistryModel], object]
) -> None:
    assert set(read_whole(looked(stub, lambda: change(stub.model)))) == {SUBJECTS[7]}


def test_what_refers_to_a_subject_that_was_made_anew_is_read_again(stub: StubRegistry) -> None:
    model = stub.model
    model.register("orders-common", {"schema": record("x")})
    refers = {
        "schema": json.dumps({"type": "record", "name": "Q", "fields": []}),
        "references": [{"name": "Order", "subject": "orders-common", "version": 1}],
    }
    model.register(SUBJECTS[5], refers)

    def anew() -> None:
        model.delete_for_good("orders-common")
        model.register("orders-common", {"schema": record("y")})

    asked = looked(stub, anew, names=[*SUBJECTS, "orders-common"])
    assert set(read_whole(asked)) == {SUBJECTS[5], "orders-common"}


def test_pages_that_are_smaller_than_asked_for_are_put_together(stub: StubRegistry) -> None:
    stub.model.page_items_max = 30
    asked = looked(stub)
    assert read_whole(asked) == []
    assert [each.split("offset=")[1] for each in asked if "/schemas?" in each and "deleted" in each] == [
        *("0&limit=1", "0&limit=1000", "29&limit=1000", "47&limit=1000"),
    ]


def test_pages_of_one_item_prove_no_end(stub: StubRegistry) -> None:
    first = "orders-0-value"
    stub.model.register(first, {"schema": record("a")})
    stub.model.page_items_max = 1
    asked = looked(stub, lambda: stub.model.register(first, {"schema": record("a", "b")}), names=[first, *SUBJECTS])
    assert sorted(read_whole(asked)) == [first, *SUBJECTS]


def test_a_registry_without_pages_is_believed_once_it_answered_with_the_same_to_another_page(
    stub: StubRegistry,
) -> None:
    stub.model.lists = "whole"
    asked = looked(stub)
    assert read_whole(asked) == []
    assert len([each for each in asked if "/schemas?" in each]) == 4


def test_where_there_is_no_listing_every_subject_is_read(stub: StubRegistry) -> None:
    stub.model.lists = "none"
    assert sorted(read_whole(looked(stub))) == SUBJECTS


@pytest.mark.parametrize("answer", [500, 403, 404, 422])
def test_a_listing_that_fails_is_one_that_is_not_there(stub: StubRegistry, answer: int) -> None:
    stub.fault = lambda _, path: (answer, {}) if path == "/schemas" else None
    assert sorted(read_whole(looked(stub))) == SUBJECTS


def test_an_empty_listing_and_one_that_lacks_subjects_say_nothing_of_them(stub: StubRegistry) -> None:
    held = stub.model.subjects
    listed = stub._listed

    def empty(query: dict[str, str], *, deleted: bool) -> list[dict[str, object]]:
        return []

    stub._listed = empty  # type: ignore[method-assign]
    assert sorted(read_whole(looked(stub))) == SUBJECTS

    def lacking(query: dict[str, str], *, deleted: bool) -> list[dict[str, object]]:
        stub.model.subjects = {name: each for name, each in held.items() if name not in SUBJECTS[:2]}
        try:
            return listed(query, deleted=deleted)
        finally:
            stub.model.subjects = held

    stub._listed = lacking  # type: ignore[method-assign]
    assert sorted(read_whole(looked(stub))) == SUBJECTS[:2]


def test_a_list_that_moves_between_two_pages_is_not_believed(stub: StubRegistry) -> None:
    stub.model.page_items_max = 30
    listed = stub._listed
    pages: list[str] = []

    def moving(query: dict[str, str], *, deleted: bool) -> list[dict[str, object]]:
        pages.append(query["offset"])
        if len(pages) == 3:
            # What lies on the second page begins one further in front, and the first of it is on none.
            stub.model.subjects[SUBJECTS[0]].pop(0)
        return listed(query, deleted=deleted)

    stub._listed = moving  # type: ignore[method-assign]
    assert sorted(read_whole(looked(stub))) == SUBJECTS


def test_an_answer_that_is_always_the_first_page_is_not_believed(stub: StubRegistry) -> None:
    # Its last subject may have versions that were cut off.
    listed = stub._listed

    def first_page(query: dict[str, str], *, deleted: bool) -> list[dict[str, object]]:
        return listed({**query, "offset": "0"}, deleted=deleted)

    stub._listed = first_page  # type: ignore[method-assign]
    assert sorted(read_whole(looked(stub))) == SUBJECTS


def test_a_level_of_its_own_is_seen_within_ten_looks_and_that_of_all_at_the_next(stub: StubRegistry) -> None:
    async def run() -> list[dict[str, str]]:
        async with client_of(stub) as client:
            await client.histories(SUBJECTS)
            found = []
            stub.model.levels[SUBJECTS[0]] = "FULL"
            for _ in range(10):
                found.append({each.subject: each.level for each in await client.histories(SUBJECTS)})
            stub.model.level = "BACKWARD"
            found.append({each.subject: each.level for each in await client.histories(SUBJECTS)})
            return found

    *_, tenth, last = asyncio.run(run())
    assert tenth == {**dict.fromkeys(SUBJECTS, "NONE"), SUBJECTS[0]: "FULL"}
    assert last == {**dict.fromkeys(SUBJECTS, "BACKWARD"), SUBJECTS[0]: "FULL"}


def test_a_change_of_ones_own_is_seen_at_the_next_look(stub: StubRegistry) -> None:
    async def run() -> dict[str, str]:
        async with client_of(stub) as client:
            await client.histories(SUBJECTS)
            for name in SUBJECTS:
                await client.set_level(name, "FORWARD")
            return {each.subject: each.level for each in await client.histories(SUBJECTS)}

    assert asyncio.run(run()) == dict.fromkeys(SUBJECTS, "FORWARD")


def test_subjects_of_a_context_are_listed_by_it(stub: StubRegistry) -> None:
    fill(stub, ":.other:")
    asked = looked(stub, context="other")
    assert read_whole(asked) == []
    assert "GET /schemas?subjectPrefix=%3A.other%3Aorders-&deleted=true&offset=0&limit=1" in asked


def test_few_subjects_are_not_listed(stub: StubRegistry) -> None:
    assert len(looked(stub, names=SUBJECTS[:19])) == 6 * 19
