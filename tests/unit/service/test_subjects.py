"""Subjects of several mirrors: what each wants is compared before anything is done."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from mirrorlake.config.problems import Place
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry
from mirrorlake.schemas.naming import NamedSubject, SubjectStrategy
from mirrorlake.schemas.rules import SubjectMode, SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay
from mirrorlake.service.subjects.planning import WayPlan, apply_way, plan_ways
from mirrorlake.service.subjects.rows import action_rows, open_rows, subject_rows
from support.registry_model import RegistryModel, record
from support.stub_registry import StubRegistry

PLACE = Place(file="c.yaml", line=1, column=1, field="")


@pytest.fixture
def east() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE")) as stub:
        stub.model.register("s", {"schema": record("a")})
        yield stub


@pytest.fixture
def west() -> Iterator[StubRegistry]:
    with StubRegistry() as stub:
        yield stub


def way(name: str, east: StubRegistry, west: str, level: str | None = None, subject: str = "s") -> SubjectWay:
    def registry(called: str, url: str) -> Registry:
        return Registry(settings=RegistrySettings(name=called, urls=(url,)), place=PLACE)

    return SubjectWay(
        mirror=name,
        destination="b",
        schemas=MirroredSchemas(
            source=registry("east", east.url),
            destination=registry("west", west),
            rules=SubjectRules(mode=SubjectMode.LENIENT, level=level),
            key=SubjectStrategy.NONE,
            value=SubjectStrategy.TOPIC_NAME,
            place=PLACE,
        ),
        subjects=(NamedSubject(source=subject, destination=f"copy-{subject}"),),
    )


def planned(ways: Sequence[SubjectWay], *, applies: bool = False) -> list[WayPlan]:
    async def run() -> list[WayPlan]:
        registries = RegistryClients()
        try:
            found = await plan_ways(ways, registries)
            return [await apply_way(each, registries) for each in found] if applies else found
        finally:
            await registries.close()

    return asyncio.run(run())


def test_mirrors_that_want_different_levels_of_one_subject_are_refused(east: StubRegistry, west: StubRegistry) -> None:
    found = planned([way("one", east, west.url, "FULL"), way("two", east, west.url, "NONE")])

    assert [each.actions for each in found] == [[], []]
    assert all("level FULL and level NONE" in str(open_rows(each)[0]["error"]) for each in found)


def test_mirrors_that_want_the_same_of_one_subject_do_it_one_after_the_other(
    east: StubRegistry, west: StubRegistry
) -> None:
    found = planned([way("one", east, west.url), way("two", east, west.url)], applies=True)

    assert [row["state"] for each in found for row in subject_rows(each)] == ["equal", "equal"]
    assert len(west.model.live("copy-s")) == 1


def test_a_subject_that_the_source_does_not_have_is_absent_and_nothing_is_done(
    east: StubRegistry, west: StubRegistry
) -> None:
    (found,) = planned([way("one", east, west.url, subject="of-strings")])

    assert (action_rows(found), subject_rows(found)[0]["state"]) == ([], "absent")


def test_a_registry_that_goes_away_in_between_leaves_the_other_mirrors_to_be_done(
    east: StubRegistry, west: StubRegistry
) -> None:
    with StubRegistry() as broken:
        broken.fault = lambda method, path: (403, {}) if method == "POST" and path.endswith("/versions") else None
        first, second = planned([way("one", east, broken.url), way("two", east, west.url)], applies=True)

    assert (first.is_open, open_rows(first)[0]["action"]) == (True, "unknown")
    assert (second.is_open, len(west.model.live("copy-s"))) == (False, 1)


def test_a_registry_that_is_away_is_unknown_and_hides_no_other_mirror(east: StubRegistry, west: StubRegistry) -> None:
    away, there = planned([way("one", east, west.url.replace("http", "https")), way("two", east, west.url)])

    assert (away.is_open, away.plan, there.is_open) == (True, None, False)
    assert open_rows(away)[0]["action"] == "unknown"
    assert action_rows(there)[0]["action"] == "register"
