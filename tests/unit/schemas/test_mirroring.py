"""Subjects mirrored from one registry to another over HTTP, whatever goes wrong in between."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mirrorlake.errors import RegistryUnavailableError, SchemaAlteredError, SubjectRefusedError
from mirrorlake.schemas.applying import AppliedPlan, mirror_subjects
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.schemas.transport import RegistryTransport
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

STRICT = SubjectRules()
LENIENT = SubjectRules(mode=SubjectMode.LENIENT)
CHANGES = ("POST", "PUT", "DELETE")


@pytest.fixture
def source() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE", next_id=100)) as stub:
        yield stub


@pytest.fixture
def destination() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="BACKWARD")) as stub:
        yield stub


async def no_time(seconds: float) -> None:
    await asyncio.sleep(0)


def client_of(stub: StubRegistry, name: str) -> RegistryClient:
    settings = RegistrySettings(name=name, urls=(stub.url,))
    return RegistryClient(settings, transport=RegistryTransport(settings, sleep=no_time))


@asynccontextmanager
async def mirroring_of(
    source: StubRegistry, destination: StubRegistry, rules: SubjectRules, prefix: str = ""
) -> AsyncIterator[SubjectMirroring]:
    here, there = client_of(source, "here"), client_of(destination, "there")
    try:
        yield SubjectMirroring(here, there, rules, lambda name: f"{prefix}{name}" if name == "s" else name)
    finally:
        await here.close()
        await there.close()


def mirror(
    source: StubRegistry, destination: StubRegistry, rules: SubjectRules = STRICT, *subjects: str, prefix: str = ""
) -> AppliedPlan:
    async def run() -> AppliedPlan:
        async with mirroring_of(source, destination, rules, prefix) as mirroring:
            return await mirror_subjects(mirroring, subjects or ("s",), sleep=no_time)

    return asyncio.run(run())


def planned(source: StubRegistry, destination: StubRegistry, rules: SubjectRules = STRICT) -> MirrorPlan:
    async def run() -> MirrorPlan:
        async with mirroring_of(source, destination, rules) as mirroring:
            return await mirroring.plan(["s"])

    return asyncio.run(run())


def fill(stub: StubRegistry, *schemas: str, subject: str = "s") -> None:
    before, stub.model.level = stub.model.level, "NONE"
    for each in schemas:
        stub.model.register(subject, {"schema": each})
    stub.model.level = before
    stub.model.changes.clear()


def texts(stub: StubRegistry, subject: str = "s") -> list[str]:
    return [each.body["schema"] for each in stub.model.live(subject)]


def test_a_history_that_no_level_would_take_is_mirrored_whole_and_in_order(
    source: StubRegistry, destination: StubRegistry
) -> None:
    history = [record("a"), record("a", "b"), record("c"), record("a", doc="again")]
    fill(source, *history)
    source.model.levels["s"] = "FULL_TRANSITIVE"

    done = mirror(source, destination)

    assert texts(destination) == history
    assert destination.model.levels == {"s": "FULL_TRANSITIVE"}
    assert done.plan.id_pairs == {100: 1, 101: 2, 102: 3, 103: 4}


def test_a_second_run_changes_nothing(source: StubRegistry, destination: StubRegistry) -> None:
    fill(source, record("a"), record("b"))
    mirror(source, destination)
    destination.model.changes.clear()

    again = mirror(source, destination)

    assert (again.done, destination.model.changes) == ((), [])


def test_schemas_that_differ_in_documentation_aliases_defaults_or_order_stay_apart(
    source: StubRegistry, destination: StubRegistry
) -> None:
    history = [
        record("a", "b"),
        record("a", "b", doc="of an order"),
        record("a", "b", aliases=["Purchase"]),
        record("a", "b?"),
        record("b", "a"),
    ]
    fill(source, *history)

    mirror(source, destination)

    assert texts(destination) == history


def test_what_is_referred_to_comes_first_under_its_own_number_there(
    source: StubRegistry, destination: StubRegistry
) -> None:
    """The destination has had other versions of the inner subject before."""
    fill(source, record("a", name="Inner"), record("b", name="Inner"), subject="inner")
    for version in (1, 2):
        reference = {"name": "Inner", "subject": "inner", "version": version}
        source.model.register("s", {"schema": record(f"f{version}"), "references": [reference]})
    fill(destination, record("x", name="Inner"), subject="inner")

    mirror(source, destination, LENIENT, prefix="copy-of-")

    assert texts(destination, "inner") == [
        record("x", name="Inner"),
        record("a", name="Inner"),
        record("b", name="Inner"),
    ]
    outer = destination.model.live("copy-of-s")
    assert [each.body["references"][0]["version"] for each in outer] == [2, 3]
    assert mirror(source, destination, LENIENT, prefix="copy-of-").done == ()


def test_subjects_that_refer_to_each_other_are_mirrored_version_by_version(
    source: StubRegistry, destination: StubRegistry
) -> None:
    def refer(subject: str, text: str, to: str, version: int) -> None:
        reference = {"name": to, "subject": to, "version": version}
        source.model.register(subject, {"schema": text, "references": [reference]})

    fill(source, record("a1", name="A"), subject="a")
    refer("s", record("s1"), "a", 1)
    refer("a", record("a2", name="A"), "s", 1)
    refer("s", record("s2"), "a", 2)

    mirror(source, destination)

    assert texts(destination) == [record("s1"), record("s2")]
    assert texts(destination, "a") == [record("a1", name="A"), record("a2", name="A")]


class TestWhatCannotBeMirrored:
    def test_nothing_is_changed_and_both_histories_are_named(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, record("a"), record("b"), record("c"))
        fill(destination, record("a"), record("c"))

        with pytest.raises(SubjectRefusedError, match=r"lacks version\(s\) 2.*source: 1=.*3=.*destination: 1=.*2="):
            mirror(source, destination)

        assert destination.model.changes == []

    def test_nothing_of_what_it_refers_to_is_brought_either(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, record("a", name="Inner"), subject="inner")
        reference = {"name": "Inner", "subject": "inner", "version": 1}
        source.model.register("s", {"schema": record("b"), "references": [reference]})
        fill(destination, record("foreign"))

        with pytest.raises(SubjectRefusedError):
            mirror(source, destination)

        assert destination.model.changes == []

    def test_what_refers_to_it_is_refused_too(self, source: StubRegistry, destination: StubRegistry) -> None:
        fill(source, record("a", name="Inner"), subject="inner")
        reference = {"name": "Inner", "subject": "inner", "version": 1}
        source.model.register("s", {"schema": record("b"), "references": [reference]})
        fill(destination, record("foreign"), subject="inner")

        plan = planned(source, destination)

        assert [each.source.subject for each in plan.refused] == ["inner", "s"]
        assert plan.actions == []

    def test_a_version_that_comes_in_between_stops_mode_strict(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, record("a"), record("b"), record("c"))

        def intrude(method: str, path: str) -> str | None:
            if method == "POST" and path.endswith("/versions") and texts(destination) == [record("a")]:
                destination.model.register("s", {"schema": record("intruder")})
                return "drop-before"
            return None

        destination.fault = intrude
        with pytest.raises(SubjectRefusedError, match="does not have"):
            mirror(source, destination)

        assert texts(destination) == [record("a"), record("intruder")]


class TestRegistriesThatWordSchemasAnew:
    @pytest.fixture
    def source(self) -> Iterator[StubRegistry]:
        """One that keeps white space, as the destination does not."""
        with StubRegistry(RegistryModel(level="NONE", keeps_white_space=True)) as stub:
            yield stub

    def test_they_are_asked_what_is_equal_to_them(self, source: StubRegistry, destination: StubRegistry) -> None:
        history = [json.dumps(json.loads(each), indent=2) for each in (record("a"), record("a", doc="d"))]
        fill(source, *history)

        first, second = mirror(source, destination), mirror(source, destination)

        assert texts(destination) == [record("a"), record("a", doc="d")]
        assert second.done == ()
        assert first.plan.id_pairs == second.plan.id_pairs == {1: 1, 2: 2}

    def test_two_that_are_one_there_are_refused_in_mode_strict(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, record("a"), json.dumps(json.loads(record("a"))))

        with pytest.raises(SchemaAlteredError, match="version 2 of the source"):
            mirror(source, destination)
        with pytest.raises(SubjectRefusedError, match="versions 1 and 2"):
            mirror(source, destination)

    def test_two_that_are_one_there_have_one_id_in_mode_lenient(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, record("a"), json.dumps(json.loads(record("a"))), record("b"))

        first, second = mirror(source, destination, LENIENT), mirror(source, destination, LENIENT)

        assert texts(destination) == [record("a"), record("b")]
        assert first.plan.id_pairs == second.plan.id_pairs == {1: 1, 2: 1, 3: 2}
        assert second.done == ()


class TestCrashes:
    HISTORY = (record("a"), record("b"), record("a", "c"))

    @pytest.mark.parametrize("how", ["drop-before", "drop-after"])
    @pytest.mark.parametrize("rules", [STRICT, SubjectRules(keeps_ids=True), SubjectRules(registry_mode="READONLY")])
    def test_an_answer_that_is_lost_anywhere_is_looked_into(
        self, source: StubRegistry, destination: StubRegistry, rules: SubjectRules, how: str
    ) -> None:
        fill(source, *self.HISTORY)
        lost: set[str] = set()

        def lose_each_once(method: str, path: str) -> str | None:
            request = f"{method} {path} {len(destination.model.changes)}"
            if method not in CHANGES or request in lost or len(lost) > 3:
                return None
            lost.add(request)
            return how

        destination.fault = lose_each_once
        mirror(source, destination, rules)

        assert len(lost) == 4
        assert texts(destination) == list(self.HISTORY)
        assert planned(source, destination, rules).actions == []

    @pytest.mark.parametrize("changes", range(7))
    def test_a_run_that_dies_after_any_change_is_gone_on_from(
        self, source: StubRegistry, destination: StubRegistry, changes: int
    ) -> None:
        fill(source, *self.HISTORY)
        source.model.levels["s"] = "FULL"

        destination.fault = lambda method, _: (
            "drop-before" if method in CHANGES and len(destination.model.changes) >= changes else None
        )
        if changes < 5:
            with pytest.raises(RegistryUnavailableError):
                mirror(source, destination)
        destination.fault = lambda *_: None
        mirror(source, destination)

        assert texts(destination) == list(self.HISTORY)
        assert destination.model.levels == {"s": "FULL"}
        assert len([each for each in destination.model.changes if each.startswith("register")]) == 3

    def test_a_level_that_another_mirror_restores_in_between_is_lowered_again(
        self, source: StubRegistry, destination: StubRegistry
    ) -> None:
        fill(source, *self.HISTORY)
        source.model.levels["s"] = "FULL"
        restored: list[str] = []

        def restore_once(method: str, path: str) -> None:
            if method == "POST" and path.endswith("/versions") and texts(destination) and not restored:
                restored.append(path)
                destination.model.levels["s"] = "FULL"

        destination.fault = restore_once
        mirror(source, destination)

        assert restored
        assert texts(destination) == list(self.HISTORY)
        assert destination.model.levels == {"s": "FULL"}


def test_two_sources_are_mirrored_into_one_subject_at_the_same_time(
    source: StubRegistry, destination: StubRegistry
) -> None:
    ours = [record(f"a{n}") for n in range(6)]
    theirs = [record(f"b{n}") for n in range(6)]
    fill(source, *ours)

    async def both(other: StubRegistry) -> None:
        async with mirroring_of(source, destination, LENIENT) as one, mirroring_of(other, destination, LENIENT) as two:
            await asyncio.gather(mirror_subjects(one, ["s"], sleep=no_time), mirror_subjects(two, ["s"], sleep=no_time))

    with StubRegistry(RegistryModel(level="NONE")) as other:
        fill(other, *theirs)
        asyncio.run(both(other))

    found = texts(destination)
    assert [each for each in found if each in ours] == ours
    assert [each for each in found if each in theirs] == theirs
    assert len(found) == 12


def test_deleted_versions_are_known_there_and_deleted_where_that_is_asked_for(
    source: StubRegistry, destination: StubRegistry
) -> None:
    fill(source, record("a"), record("b"), record("c"))
    source.model.delete("s", 2)

    done = mirror(source, destination, SubjectRules(deleted=DeletedVersions.MIRROR))

    assert texts(destination) == [record("a"), record("c")]
    assert done.plan.id_pairs == {100: 1, 101: 2, 102: 3}


def test_ids_are_kept_where_the_registry_allows_it(source: StubRegistry, destination: StubRegistry) -> None:
    fill(source, record("a"), record("b"))

    done = mirror(source, destination, SubjectRules(keeps_ids=True))

    assert done.plan.id_pairs == {100: 100, 101: 101}
    assert destination.model.modes == {"s": "IMPORT"}


def test_an_id_that_means_something_else_there_is_refused_before_the_first_change(
    source: StubRegistry, destination: StubRegistry
) -> None:
    fill(source, record("a"), record("b"))
    destination.model.next_id = 101
    fill(destination, record("x"), subject="other")

    with pytest.raises(SubjectRefusedError, match="101"):
        mirror(source, destination, SubjectRules(keeps_ids=True))

    assert destination.model.changes == []


def test_three_hundred_versions_cost_a_bounded_number_of_calls(source: StubRegistry, destination: StubRegistry) -> None:
    fill(source, *(record(f"f{number}") for number in range(300)))

    mirror(source, destination)

    assert len(texts(destination)) == 300
    assert len(source.requests) <= 300 + 20
    assert len(destination.requests) <= 3 * 300 + 40


def test_without_a_listing_a_look_costs_five_requests_for_each_subject_and_eight_are_under_way_at_once(
    source: StubRegistry, destination: StubRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"orders-{number}-value" for number in range(60)]
    source.model.lists = destination.model.lists = "none"
    for name in names:
        fill(source, record("a"), record("a", "b"), subject=name)
    under_way: Counter[httpx.AsyncClient] = Counter()
    most: Counter[httpx.AsyncClient] = Counter()
    request = httpx.AsyncClient.request

    async def counted(client: httpx.AsyncClient, method: str, url: str, **more: Any) -> httpx.Response:
        under_way[client] += 1
        most[client] = max(most[client], under_way[client])
        try:
            return await request(client, method, url, **more)
        finally:
            under_way[client] -= 1

    monkeypatch.setattr(httpx.AsyncClient, "request", counted)

    async def run() -> tuple[int, int]:
        async with mirroring_of(source, destination, STRICT) as mirroring:
            await mirror_subjects(mirroring, names, sleep=no_time)
            before = len(source.requests), len(destination.requests)
            assert not (await mirroring.plan(names)).actions
            return len(source.requests) - before[0], len(destination.requests) - before[1]

    # Of the two looks at what holds for all, and in vain for a listing, which the later ones spare themselves.
    assert asyncio.run(run()) == (5 * 60 + 2, 5 * 60 + 3)
    # More would stand in the client's own queue, which it goes through as a whole for each of them.
    assert [*most.values()] == [8, 8]


def test_of_many_subjects_that_both_registries_list_one_that_has_changed_is_brought(
    source: StubRegistry, destination: StubRegistry
) -> None:
    names = [f"orders-{number}-value" for number in range(24)]
    for name in names:
        fill(source, record("a"), subject=name)

    async def run() -> tuple[AppliedPlan, int, int]:
        async with mirroring_of(source, destination, STRICT) as mirroring:
            await mirror_subjects(mirroring, names, sleep=no_time)
            fill(source, record("a", "b"), subject=names[5])
            before = len(source.requests), len(destination.requests)
            plan = await mirroring.plan(names)
            asked = len(source.requests) - before[0], len(destination.requests) - before[1]
            return await mirror_subjects(mirroring, names, first=plan, sleep=no_time), *asked

    done, *asked = asyncio.run(run())
    assert [(each.kind.value, each.subject) for each in done.done if each.kind.value == "register"] == [
        ("register", names[5])
    ]
    assert [each.version for each in destination.model.live(names[5])] == [1, 2]
    # Two of levels for some, six for the changed one, eight for all.
    assert max(asked) < 5 * 24 / 2
