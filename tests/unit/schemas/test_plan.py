"""What is done about one subject: every mode, level and relation of two histories."""

import itertools

import pytest

from mirrorlake.schemas.history import NO_CHECK
from mirrorlake.schemas.plan import SubjectPlan, plan_subject
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from support.registry_model import LEVELS
from unit.schemas.histories import history, letter_of

STRICT, LENIENT = SubjectRules(mode=SubjectMode.STRICT), SubjectRules(mode=SubjectMode.LENIENT)
REFUSED = None

# By relation: the source's versions and the destination's, a letter for each schema and a capital for a soft-deleted
# one; then what is registered in mode strict, lenient, and lenient where the level in the end is NONE.
RELATIONS: dict[str, tuple[str, str, str | None, str | None, str]] = {
    "both empty": ("", "", "", "", ""),
    "equal": ("abc", "abc", "", "", ""),
    "empty destination": ("abc", "", "abc", "abc", "abc"),
    "one version, empty destination": ("a", "", "a", "a", "a"),
    "destination is a prefix": ("abc", "a", "bc", "bc", "bc"),
    "destination is longer": ("ab", "abc", REFUSED, "", ""),
    "empty source": ("", "ab", REFUSED, "", ""),
    "reordered": ("abc", "acb", REFUSED, REFUSED, ""),
    "reordered, and one is missing": ("abc", "cb", REFUSED, REFUSED, "a"),
    "reversed": ("ab", "ba", REFUSED, REFUSED, ""),
    "foreign in between": ("abc", "axb", REFUSED, "c", "c"),
    "foreign first": ("abc", "xa", REFUSED, "bc", "bc"),
    "foreign last": ("abc", "abcx", REFUSED, "", ""),
    "nothing in common": ("ab", "xy", REFUSED, "ab", "ab"),
    "hole": ("abc", "ac", REFUSED, REFUSED, "b"),
    "hole at the beginning": ("abc", "bc", REFUSED, REFUSED, "a"),
    "hole and more to come": ("abcd", "ac", REFUSED, REFUSED, "bd"),
    "foreign in a hole": ("abc", "axc", REFUSED, REFUSED, "b"),
    "deleted at the destination, last": ("ab", "aB", "b", "b", "b"),
    "deleted at the destination, in between": ("abc", "aBc", REFUSED, REFUSED, "b"),
    "deleted and registered again at the destination": ("ab", "Aab", "", "", ""),
    "all deleted at the destination": ("ab", "AB", "ab", "ab", "ab"),
    "foreign and deleted": ("ab", "aXb", "", "", ""),
    "deleted at the source": ("aBc", "", "abc", "abc", "abc"),
    "deleted at the source, known at the destination": ("aBc", "abc", "", "", ""),
    "deleted on both sides": ("aBc", "aBc", "", "", ""),
    "deleted at the source, and never brought": ("aBc", "ac", "b", "b", "b"),
    "deleted at the source and registered again": ("Aba", "b", "a", "a", "a"),
    "deleted and registered again at the source, and brought before": ("Aba", "ab", REFUSED, REFUSED, ""),
}


def registered(plan: SubjectPlan) -> str:
    return "".join(letter_of(action) for action in plan.actions if action.kind == "register")


def acts(plan: SubjectPlan) -> list[str]:
    return [f"{action.kind} {letter_of(action) or action.value}" for action in plan.actions]


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_is_registered_by_relation_mode_and_level(relation: str) -> None:
    source, destination, strict, lenient, unordered = RELATIONS[relation]
    for level, level_there in itertools.product(LEVELS, LEVELS):
        there, here = history(source, level=level), history(destination, level=level_there)
        plans = [plan_subject(there, here, STRICT), plan_subject(there, here, LENIENT)]
        expected = [strict, unordered if level == NO_CHECK else lenient]
        assert [None if plan.refusal else registered(plan) for plan in plans] == expected, (level, level_there)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_refused_subject_is_not_touched(relation: str) -> None:
    source, destination, *_ = RELATIONS[relation]
    for level, level_there, rules in itertools.product(LEVELS, LEVELS, (STRICT, LENIENT)):
        plan = plan_subject(history(source, level=level), history(destination, level=level_there), rules)
        assert plan.refusal is None or plan.actions == ()


@pytest.mark.parametrize(("level", "level_there"), list(itertools.product(LEVELS, LEVELS)))
def test_the_level_is_low_while_versions_are_registered_and_the_sources_in_the_end(
    level: str, level_there: str
) -> None:
    plan = plan_subject(history("abc", level=level), history("a", level=level_there), STRICT)

    lowered = [] if level_there == "NONE" else ["set-level NONE"]
    restored = [] if level == "NONE" else [f"set-level {level}"]
    assert acts(plan) == [*lowered, "register b", "register c", *restored]


def test_the_first_version_of_a_subject_comes_before_its_level() -> None:
    plan = plan_subject(history("ab", level="FULL"), history("", level="BACKWARD"), STRICT)

    assert acts(plan) == ["register a", "set-level NONE", "register b", "set-level FULL"]


def test_nothing_is_done_about_the_level_of_a_subject_that_the_source_does_not_have() -> None:
    assert plan_subject(history("", level="FULL"), history("a", level="NONE"), LENIENT).actions == ()


def test_a_forced_level_goes_before_the_sources() -> None:
    rules = SubjectRules(level="FORWARD_TRANSITIVE")

    plan = plan_subject(history("a", level="FULL"), history("a", level="FULL"), rules)

    assert acts(plan) == ["set-level FORWARD_TRANSITIVE"]


def test_a_level_left_low_by_a_run_that_died_does_not_allow_another_order() -> None:
    plan = plan_subject(history("ab", level="FULL"), history("ba", level="NONE"), LENIENT)

    assert plan.refusal is not None


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ("aBc", "", ["register a", "register b", "register c", "delete b"]),
        ("aBc", "a", ["register b", "register c", "delete b"]),
        ("aBc", "abc", ["delete b"]),
        ("aBc", "aBc", []),
        ("aBc", "ac", ["register b", "delete b"]),
        ("aBc", "acB", []),
        ("aBc", "acb", ["delete b"]),
        ("Aba", "", ["register b", "register a"]),
        ("Aba", "ba", []),
        ("AB", "", ["register a", "register b", "delete b", "delete a"]),
    ],
)
def test_deleted_versions_are_registered_and_deleted_where_that_is_to_be_mirrored(
    source: str, destination: str, expected: list[str]
) -> None:
    rules = SubjectRules(deleted=DeletedVersions.MIRROR)

    plan = plan_subject(history(source, level="NONE"), history(destination, level="NONE"), rules)

    assert plan.refusal is None
    assert sorted(acts(plan)) == sorted(expected)
    assert [act for act in acts(plan) if act.startswith("register")] == [a for a in expected if a[0] == "r"]


@pytest.mark.parametrize(("source", "destination"), [("aBc", "ac"), ("aBc", "aBc"), ("aB", "a")])
def test_deleted_versions_can_be_left_out(source: str, destination: str) -> None:
    plan = plan_subject(history(source), history(destination), SubjectRules(deleted=DeletedVersions.SKIP))

    assert (plan.refusal, plan.actions) == (None, ())


def test_a_version_deleted_at_the_source_may_stay_listed_where_it_was_brought_before() -> None:
    rules = SubjectRules(mode=SubjectMode.LENIENT, deleted=DeletedVersions.SKIP)

    plan = plan_subject(history("aBc"), history("ab"), rules)

    assert registered(plan) == "c"


def test_two_versions_that_the_destination_takes_as_one_are_refused_in_mode_strict() -> None:
    source = history("ab")
    same = {source.versions[1].key: source.versions[0].key}

    strict = plan_subject(source, history("a"), STRICT, same=same)
    lenient = plan_subject(source, history("a"), LENIENT, same=same)

    assert strict.refusal is not None
    assert "versions 1 and 2" in strict.refusal.reason
    assert (lenient.refusal, lenient.actions) == (None, ())


def test_a_schema_that_the_destination_words_differently_is_known_as_the_same() -> None:
    source, destination = history("ab"), history("xy")
    same = {source.versions[i].key: destination.versions[i].key for i in (0, 1)}

    plan = plan_subject(source, destination, STRICT, same=same)

    assert (plan.refusal, plan.actions) == (None, ())


class TestModesOfTheRegistry:
    @pytest.mark.parametrize("mode", ["READONLY", "IMPORT", "FORWARD"])
    def test_a_closed_subject_is_refused_where_something_is_to_be_changed(self, mode: str) -> None:
        plan = plan_subject(history("ab"), history("a", mode=mode), STRICT)

        assert plan.refusal is not None
        assert mode in plan.refusal.reason
        assert plan.actions == ()

    def test_a_closed_subject_is_none_of_our_business_where_nothing_is_to_be_changed(self) -> None:
        plan = plan_subject(history("ab"), history("ab", mode="READONLY"), STRICT)

        assert (plan.refusal, plan.actions) == (None, ())

    def test_the_sources_mode_is_taken_over(self) -> None:
        rules = SubjectRules(registry_mode="mirror")

        plan = plan_subject(history("ab", mode="READONLY"), history("a"), rules)

        assert acts(plan) == ["set-level NONE", "register b", "set-level BACKWARD", "set-mode READONLY"]

    def test_a_subject_that_was_closed_by_us_is_opened_for_what_has_come(self) -> None:
        rules = SubjectRules(registry_mode="READONLY")

        plan = plan_subject(history("ab", level="NONE"), history("a", level="NONE", mode="READONLY"), rules)

        assert acts(plan) == ["set-mode READWRITE", "register b", "set-mode READONLY"]

    def test_a_subject_left_open_by_a_run_that_died_is_closed(self) -> None:
        rules = SubjectRules(registry_mode="READONLY")

        assert acts(plan_subject(history("ab"), history("ab"), rules)) == ["set-mode READONLY"]

    def test_a_registry_without_modes_is_left_alone(self) -> None:
        rules = SubjectRules(registry_mode="READONLY")

        assert plan_subject(history("ab"), history("ab", mode=None), rules).actions == ()


class TestKeptIds:
    RULES = SubjectRules(keeps_ids=True)

    def test_ids_are_given_in_mode_import_where_no_level_is_looked_at(self) -> None:
        plan = plan_subject(history("abc"), history("a"), self.RULES)

        assert acts(plan) == ["set-mode IMPORT", "register b", "register c"]
        assert [action.id for action in plan.actions] == [None, 101, 102]

    def test_a_subject_in_import_stays_there(self) -> None:
        plan = plan_subject(history("ab"), history("ab", mode="IMPORT"), self.RULES)

        assert plan.actions == ()

    def test_another_id_for_the_same_schema_is_refused(self) -> None:
        plan = plan_subject(history("ba"), history("a"), SubjectRules(keeps_ids=True, mode=SubjectMode.LENIENT))

        assert plan.refusal is not None

    def test_an_id_that_means_another_schema_is_refused(self) -> None:
        plan = plan_subject(history("ab"), history("a"), self.RULES, ids_there={101: "another"})

        assert plan.refusal is not None
        assert "101" in plan.refusal.reason

    def test_a_registry_without_modes_is_refused(self) -> None:
        assert plan_subject(history("a"), history("", mode=None), self.RULES).refusal is not None

    def test_a_subject_that_somebody_closed_is_refused(self) -> None:
        assert plan_subject(history("ab"), history("a", mode="READONLY"), self.RULES).refusal is not None
