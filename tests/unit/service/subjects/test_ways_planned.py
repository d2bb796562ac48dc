"""Mirrors of one file that want something of one subject: what contradicts, and what was only seen at another time."""

import pytest

from mirrorlake.config.problems import Place
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry
from mirrorlake.schemas.history import Schema, SchemaVersion, SubjectHistory
from mirrorlake.schemas.mirroring import MirrorPlan
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.plan import plan_subject
from mirrorlake.schemas.rules import SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.finding import SubjectWay
from mirrorlake.service.subjects.planning import WayPlan, without_contradictions
from support.registry_model import record

PLACE = Place(file="c.yaml", line=1, column=1, field="")


def registry(name: str) -> Registry:
    return Registry(settings=RegistrySettings(name=name, urls=(f"http://{name}",)), place=PLACE)


def planned(mirror: str, level: str, *, source: str = "here", wanted: str | None = None) -> WayPlan:
    """A mirror whose source's registry had a level when it was looked at, and which may want one of its own."""
    rules = SubjectRules(level=wanted)
    schemas = MirroredSchemas(
        source=registry(source),
        destination=registry("there"),
        rules=rules,
        key=SubjectStrategy.NONE,
        value=SubjectStrategy.TOPIC_NAME,
        place=PLACE,
    )
    version = SchemaVersion(version=1, id=1, schema=Schema(text=record("a")))
    seen = SubjectHistory(subject="s", versions=(version,), level=level)
    plan = plan_subject(seen, SubjectHistory(subject="s", level="NONE"), rules)
    way = SubjectWay(mirror=mirror, destination="west", schemas=schemas, subjects=())
    return WayPlan(way=way, plan=MirrorPlan(plans=(plan,), wanted=frozenset({"s"})))


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        (planned("one", "BACKWARD"), planned("other", "BACKWARD"), False),
        # The level of one registry's subject changed between two looks.
        (planned("one", "BACKWARD"), planned("other", "NONE"), False),
        (planned("one", "BACKWARD"), planned("other", "NONE", source="elsewhere"), True),
        (planned("one", "BACKWARD"), planned("other", "BACKWARD", wanted="FULL"), True),
        (planned("one", "BACKWARD", wanted="FULL"), planned("other", "NONE", wanted="FULL"), False),
    ],
)
def test_mirrors_contradict_in_what_they_want_and_not_in_when_they_looked(
    one: WayPlan, other: WayPlan, is_refused: bool
) -> None:
    judged = without_contradictions([one, other])
    assert [bool(each.plan and each.plan.refused) for each in judged] == [is_refused] * 2
    assert [bool(each.actions) for each in judged] == [not is_refused] * 2
