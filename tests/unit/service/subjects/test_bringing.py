"""Ids that records have, and what of their subjects is brought to the destination."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.mirroring import SubjectMirroring
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.service.subjects.bringing import Brought, bring, bring_ids, seen_in, together
from support.registry_model import RegistryModel, guid_of, record
from support.stub_registry import StubRegistry


def brought(
    here: RegistryModel,
    there: RegistryModel,
    ids: Sequence[SchemaName],
    *,
    named: Sequence[str] = (),
    subjects: Sequence[str] | None = None,
    rules: SubjectRules = SubjectRules(),  # noqa: B008  a frozen value
) -> Brought:
    """Brings ids, or whole subjects where they are named."""

    async def run(source: str, destination: str) -> Brought:
        first, second = (RegistryClient(RegistrySettings(name=url, urls=(url,))) for url in (source, destination))
        mirroring = SubjectMirroring(first, second, rules, lambda name: f"copy-{name}" if name in named else name)
        try:
            if subjects is not None:
                return await bring(await mirroring.plan(subjects), mirroring)
            return await bring_ids(ids, mirroring, named=named)
        finally:
            for client in (first, second):
                await client.close()

    with StubRegistry(here) as first, StubRegistry(there) as second:
        return asyncio.run(run(first.url, second.url))


def registry(next_id: int = 1, **subjects: list[str]) -> RegistryModel:
    model = RegistryModel(level="NONE", next_id=next_id)
    for subject, schemas in subjects.items():
        for each in schemas:
            model.register(subject, {"schema": each})
    return model


def test_of_the_subjects_of_an_id_those_that_the_mirror_names_are_brought() -> None:
    here = registry(a=[record("x")], m=[record("x"), record("y")], z=[record("x")])
    there = registry(next_id=900)
    found = brought(here, there, [1], named=["m"])
    assert (dict(found.pairs), dict(found.refused), found.absent) == ({1: 900, 2: 901}, {}, frozenset())
    assert list(there.subjects) == ["copy-m"]


def test_of_others_the_first_by_name_is_brought_under_its_own_name() -> None:
    here = registry(b=[record("x")], a=[record("x")])
    there = registry(next_id=900)
    assert dict(brought(here, there, [1], named=["m"]).pairs) == {1: 900}
    assert list(there.subjects) == ["a"]


def test_what_the_source_does_not_know_is_absent_and_changes_nothing() -> None:
    there = registry()
    found = brought(registry(a=[record("x")]), there, [77, -3])
    assert (found.absent, dict(found.pairs), there.changes) == (frozenset({77, -3}), {}, [])


def test_a_refused_subject_refuses_its_ids_but_for_those_that_are_there() -> None:
    here, there = registry(s=[record("x"), record("y")]), registry(900, s=[record("x"), record("foreign")])
    there.changes.clear()
    for found in (brought(here, there, [2]), brought(here, there, [], subjects=["s"])):
        assert dict(found.pairs) == {1: 900}
        assert list(found.refused) == [2]
        assert "source: 1=" in found.refused[2]
        assert "destination: 1=" in found.refused[2]
    assert there.changes == []


def test_a_version_that_the_rules_leave_out_is_refused_and_not_absent() -> None:
    here = registry(s=[record("x"), record("y")])
    here.delete("s", 1)
    rules = SubjectRules(mode=SubjectMode.LENIENT, deleted=DeletedVersions.SKIP)
    found = brought(here, registry(next_id=900), [1, 2], rules=rules)
    assert (dict(found.pairs), found.absent) == ({2: 900}, frozenset())
    assert "deleted-versions" in found.refused[1]


def test_bringing_again_changes_nothing_and_tells_the_same() -> None:
    here, there = registry(s=[record("x")]), registry(next_id=900)
    first, second = (brought(here, there, [1]) for _ in range(2))
    assert first.pairs == second.pairs
    assert (len(first.done) > 0, second.done) == (True, ())


def newer(model: RegistryModel) -> RegistryModel:
    """A registry that gives GUIDs, as Confluent's from 8.0 on."""
    return replace(model, has_guids=True)


def guid(schema: str, *references: dict[str, object]) -> UUID:
    return UUID(guid_of({"schema": schema, "references": references}))


def test_a_guid_is_asked_about_and_its_subject_is_brought_before_it_is_known() -> None:
    here, there = newer(registry(m=[record("x"), record("y")])), newer(registry(next_id=900))
    found = brought(here, there, [guid(record("y"))], named=["m"])
    assert found.pairs[guid(record("y"))] == guid(record("y"))
    assert found.pairs[2] == 901
    assert (found.absent, found.unnamed, list(there.subjects)) == (frozenset(), frozenset(), ["copy-m"])


def test_a_guid_is_another_one_where_what_it_refers_to_has_another_number_there() -> None:
    """As its reference's first version was deleted for good at the source, and so never came."""
    here, there = newer(registry(base=[record("old"), record("base")])), newer(registry(next_id=900))
    here.delete("base", 1)
    here.delete("base", 1, permanent=True)
    body = {"schema": record("x"), "references": [{"name": "Base", "subject": "base", "version": 2}]}
    here.register("m", body)
    source = guid(record("x"), {"name": "Base", "subject": "base", "version": 2})
    found = brought(here, there, [source], named=["m"])
    assert found.pairs[source] == guid(record("x"), {"name": "Base", "subject": "base", "version": 1})
    assert found.pairs[source] == UUID(guid_of(there.live("copy-m")[0].body))


def test_a_guid_whose_schema_is_in_a_registry_without_guids_is_told_apart() -> None:
    here, there = newer(registry(m=[record("x")])), registry(next_id=900)
    found = brought(here, there, [guid(record("x"))])
    assert (found.unnamed, found.absent, dict(found.refused)) == (frozenset({guid(record("x"))}), frozenset(), {})
    assert dict(found.pairs) == {1: 900}


def test_a_guid_that_the_source_does_not_know_is_absent_and_so_is_any_where_it_gives_none() -> None:
    asked = [guid(record("z")), guid(record("x"))]
    for here in (newer(registry(m=[record("y")])), registry(m=[record("x")])):
        there = newer(registry())
        found = brought(here, there, asked)
        assert (found.absent, dict(found.pairs), there.changes) == (frozenset(asked), {}, [])


def test_a_guid_of_a_schema_that_was_deleted_for_good_is_absent() -> None:
    """Confluent's registry still tells the id it had; and has an error of its own for the schema."""
    here = newer(registry(m=[record("x"), record("y")]))
    here.delete("m", 1)
    here.delete("m", 1, permanent=True)
    assert brought(here, newer(registry()), [guid(record("x"))]).absent == frozenset({guid(record("x"))})


def test_a_guid_of_a_refused_subject_is_refused_but_for_what_is_there() -> None:
    here, there = newer(registry(m=[record("x"), record("y")])), newer(registry(m=[record("x"), record("foreign")]))
    found = brought(here, there, [guid(record("y")), guid(record("x"))])
    assert guid(record("y")) in found.refused
    assert found.pairs[guid(record("x"))] == guid(record("x"))


def test_a_plan_tells_before_anything_is_done_what_is_there_and_what_will_be() -> None:
    here = registry(s=[record("x"), record("y")], t=[record("z")])
    there = registry(next_id=900, s=[record("x")])

    async def look(source: str, destination: str) -> None:
        first, second = (RegistryClient(RegistrySettings(name=url, urls=(url,))) for url in (source, destination))
        mirroring = SubjectMirroring(first, second, SubjectRules())
        try:
            plans = [await mirroring.plan(["s"]), await mirroring.plan(["t"])]
            seen = together(seen_in(each) for each in plans)
            assert dict(seen.pairs) == {1: 900}
            assert dict(seen.keys_there) == {1: (await first.history("s")).versions[0].key}
            assert sorted(seen.meanings, key=str) == [1, 2, 3]
            assert [plan.awaited for plan in plans] == [{2}, {3}]
            found = await bring(plans[0], mirroring)
            assert (dict(found.pairs), len(found.keys_there)) == ({1: 900, 2: 901}, 2)
        finally:
            for client in (first, second):
                await client.close()

    with StubRegistry(here) as first, StubRegistry(there) as second:
        asyncio.run(look(first.url, second.url))
    assert len(there.live("s")) == 2
