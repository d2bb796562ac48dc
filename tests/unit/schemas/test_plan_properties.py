"""What holds of every plan: done to a registry it gives what its mode promises, whole or after any crash."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schemas.history import NO_CHECK
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from support.registry_model import LEVELS, RegistryModel, record
from unit.schemas.modelled import history_of, perform, planned, state

SCHEMAS = [
    record("a"),
    record("a", "b"),
    record("a", doc="d"),
    record("a", aliases=["o"]),
    record("b"),
    record("a", "c?"),
]

schemas = st.integers(0, len(SCHEMAS) - 1)
steps = st.lists(st.tuples(schemas, st.booleans()), max_size=7)
rules_of = st.builds(
    SubjectRules,
    mode=st.sampled_from(SubjectMode),
    level=st.sampled_from([None, *LEVELS]),
    deleted=st.sampled_from(DeletedVersions),
    registry_mode=st.sampled_from([None, "mirror", "READONLY"]),
)


@st.composite
def registries(draw: st.DrawFn) -> RegistryModel:
    """A registry with a subject that grew somehow: versions registered under level NONE, some of them deleted."""
    model = RegistryModel(level="NONE", next_id=draw(st.integers(1, 50)))
    for index, is_deleted in draw(steps):
        made = model.register("s", {"schema": SCHEMAS[index]})
        if is_deleted:
            model.delete("s", made.version)
    model.level = draw(st.sampled_from(LEVELS))
    if draw(st.booleans()):
        model.levels["s"] = draw(st.sampled_from(LEVELS))
    return model


@st.composite
def pairs(draw: st.DrawFn) -> tuple[RegistryModel, RegistryModel]:
    """Two registries, of which the second often holds a beginning of what the first does."""
    source = draw(registries())
    if draw(st.booleans()):
        return source, draw(registries())
    destination = RegistryModel(level="NONE", next_id=900)
    versions = source.subjects.get("s", [])
    for each in versions[: draw(st.integers(0, len(versions)))]:
        made = destination.register("s", each.body)
        if each.is_deleted and draw(st.booleans()):
            destination.delete("s", made.version)
    destination.level = draw(st.sampled_from(LEVELS))
    return source, destination


def texts(model: RegistryModel, *, deleted: bool) -> list[str]:
    return [v.schema.text for v in history_of(model, "s").versions if deleted or not v.is_deleted]


def promised(source: RegistryModel, destination: RegistryModel, rules: SubjectRules) -> None:
    """Checks what the rules promise of two registries, told by another way than the plan's."""
    live, listed = texts(source, deleted=False), texts(destination, deleted=False)
    known = texts(destination, deleted=True)
    if rules.deleted is not DeletedVersions.SKIP:
        assert set(texts(source, deleted=True)) <= set(known)
    assert set(live) <= set(listed)
    if rules.mode is SubjectMode.STRICT and rules.deleted is DeletedVersions.MIRROR:
        assert listed == live
    if rules.mode is SubjectMode.STRICT:
        assert set(listed) <= set(texts(source, deleted=True))
    level = rules.level or source.level_of("s")
    if listed and source.subjects.get("s"):
        assert destination.level_of("s") == level
    was_deleted = {v.schema.text for v in history_of(source, "s").versions if v.is_deleted}
    if rules.mode is SubjectMode.STRICT or level != NO_CHECK:
        # Whatever was deleted and made again may stand where it stood first.
        assert [t for t in listed if t in live and t not in was_deleted] == [t for t in live if t not in was_deleted]


@given(pairs(), rules_of)
def test_a_plan_that_is_done_gives_what_its_mode_promises_and_leaves_nothing_to_do(
    registries: tuple[RegistryModel, RegistryModel], rules: SubjectRules
) -> None:
    source, destination = registries
    plan, before = planned(source, destination, rules), state(destination)

    perform(destination, plan.actions)

    if plan.refusal is not None:
        assert state(destination) == before
        return
    promised(source, destination, rules)
    again = planned(source, destination, rules)
    assert (again.refusal, again.actions) == (None, ())


@given(pairs(), rules_of, st.data())
def test_a_run_that_died_anywhere_is_gone_on_from(
    registries: tuple[RegistryModel, RegistryModel], rules: SubjectRules, data: st.DataObject
) -> None:
    source, destination = registries
    plan = planned(source, destination, rules)
    whole = deepcopy(destination)
    perform(whole, plan.actions)

    done = data.draw(st.integers(0, len(plan.actions)))
    perform(destination, plan.actions[:done])
    rest = planned(source, destination, rules)
    perform(destination, rest.actions)

    assert (rest.refusal is None) == (plan.refusal is None)
    if plan.refusal is None:
        promised(source, destination, rules)
        assert texts(destination, deleted=False) == texts(whole, deleted=False)
        assert destination.level_of("s") == whole.level_of("s")
        assert destination.mode_of("s") == whole.mode_of("s")


@given(registries(), rules_of, st.lists(st.tuples(schemas, st.booleans()), max_size=5))
def test_a_subject_that_goes_on_at_the_source_goes_on_at_the_destination(
    source: RegistryModel, rules: SubjectRules, more: list[tuple[int, bool]]
) -> None:
    destination = RegistryModel(next_id=500)
    perform(destination, planned(source, destination, rules).actions)

    source.levels["s"] = "NONE"
    deleted = {v.schema.text for v in history_of(source, "s").versions if v.is_deleted}
    for index, is_deleted in more:
        if SCHEMAS[index] in deleted and rules.deleted is not DeletedVersions.MIRROR:
            continue  # it stands elsewhere then, where only who deletes can follow
        deleted |= {SCHEMAS[index]} if is_deleted else set()
        made = source.register("s", {"schema": SCHEMAS[index]})
        if is_deleted:
            source.delete("s", made.version)
        plan = planned(source, destination, rules)
        assert plan.refusal is None
        perform(destination, plan.actions)
        promised(source, destination, rules)


@given(registries(), st.data())
def test_ids_are_kept_from_the_beginning_and_after_a_crash(source: RegistryModel, data: st.DataObject) -> None:
    rules = SubjectRules(keeps_ids=True, mode=SubjectMode.LENIENT)
    destination = RegistryModel(next_id=1)
    plan = planned(source, destination, rules)

    perform(destination, plan.actions[: data.draw(st.integers(0, len(plan.actions)))])
    perform(destination, planned(source, destination, rules).actions)

    ids = {each.schema.text: each.id for each in history_of(source, "s").versions}
    assert {each.schema.text: each.id for each in history_of(destination, "s").versions} == ids
