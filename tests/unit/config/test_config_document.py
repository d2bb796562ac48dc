from collections.abc import Mapping

import pytest

from mirrorlake.config.document import NODES_MAX, Document, read_document
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import ProblemList


def read(content: str | bytes, environ: Mapping[str, str] | None = None) -> tuple[Document, list[str]]:
    problems = ProblemList()
    raw = content.encode() if isinstance(content, str) else content
    document = read_document(raw, file="c.yaml", environ=environ or {}, problems=problems)
    return document, [str(problem) for problem in problems.found]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("12:30:00", "12:30:00"),
        ("2026-01-31", "2026-01-31"),
        ("1_000", "1_000"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("9" * 40, "9" * 40),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(scalar: str, value: object) -> None:
    document, problems = read(f"a: {scalar}")
    assert problems == []
    assert document.tree == {"a": value}
    assert type(document.tree["a"]) is type(value)


def test_every_key_and_item_has_its_line_and_column() -> None:
    document, _ = read("a: 1\nb:\n  - x\n  - c: 2\n")
    assert document.marks == {
        (): (1, 1),
        ("a",): (1, 1),
        ("b",): (2, 1),
        ("b", 0): (3, 5),
        ("b", 1): (4, 5),
        ("b", 1, "c"): (4, 5),
    }


def test_a_missing_field_is_placed_at_what_is_around_it() -> None:
    document, _ = read("a: 1\nb:\n  - x: 1\n")
    place = document.place(("b", 0, "y", "z"))
    assert (place.line, place.column, place.field) == (3, 5, "b[0].y.z")


def test_keys_are_text_whatever_they_look_like() -> None:
    document, _ = read("0: a\ntrue: b\nsasl.password: c\n")
    assert document.tree == {"0": "a", "true": "b", "sasl.password": "c"}
    assert document.place(("sasl.password",)).field == '["sasl.password"]'


def test_a_key_that_stands_twice_is_an_error_with_both_lines() -> None:
    document, problems = read("a: 1\nb: 2\na: 3\n")
    assert problems == ["c.yaml:3: a: is there twice, first on line 1 (remove one of them)"]
    assert document.tree == {"a": 1, "b": 2}


def test_a_syntax_error_has_its_line_and_does_not_repeat_the_text() -> None:
    _, problems = read("a: 1\npassword: [hunter2\n")
    assert len(problems) == 1
    assert problems[0].startswith("c.yaml:3: not YAML: while parsing a flow sequence")
    assert "hunter2" not in problems[0]


def test_a_tab_is_explained() -> None:
    _, problems = read("a:\n\tb: 1\n")
    assert problems[0].startswith("c.yaml:2: not YAML")
    assert problems[0].endswith("(indent with spaces, not with tabs)")


def test_a_reference_without_quotes_in_brackets_is_explained() -> None:
    _, problems = read("a: [x, ${B}]")
    assert problems[0].endswith("(inside [ ] and { } put ${…} in quotes)")


def test_a_second_document_is_an_error() -> None:
    _, problems = read("a: 1\n---\na: 2\n")
    assert "remove the second `---`" in problems[0]


def test_bytes_that_are_not_utf8_are_an_error_with_their_line() -> None:
    _, problems = read(b"a: 1\nb: \xff\n")
    assert problems == ["c.yaml:2: not UTF-8 (save the file as UTF-8)"]


def test_a_control_character_is_an_error() -> None:
    _, problems = read("a: \x01")
    assert problems == ["c.yaml: not YAML: a character that is not allowed in it (#x0001)"]


def test_a_byte_order_mark_does_no_harm() -> None:
    document, problems = read(b"\xef\xbb\xbfa: 1\n")
    assert (document.tree, problems) == ({"a": 1}, [])


def test_an_alias_repeats_its_anchor() -> None:
    document, _ = read("a: &x {c: 1}\nb: *x\n")
    assert document.tree == {"a": {"c": 1}, "b": {"c": 1}}


def test_a_merge_key_is_refused_with_its_place_and_the_remedy_and_nothing_else_is_said_of_its_mapping() -> None:
    document, problems = read("a: &x {c: 1}\nb:\n  d: 2\n  <<: *x\n")
    assert problems == [
        "c.yaml:4: b.<<: merge keys are not supported (write the fields out; or let an alias stand for a whole value "
        "(`west: *east`); what mirrors have in common may stand in `defaults`)"
    ]
    assert isinstance(document.tree, dict)
    assert document.tree["a"] == {"c": 1}
    assert isinstance(document.tree["b"], UnsetText)


def test_a_key_in_quotes_is_no_merge_key() -> None:
    document, problems = read('"<<": 1\n')
    assert (document.tree, problems) == ({"<<": 1}, [])


def test_an_alias_inside_itself_is_refused() -> None:
    _, problems = read("a: &x [*x, *x]")
    assert len(problems) == 1
    assert "nested deeper than 64 levels" in problems[0]


def test_aliases_of_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    _, problems = read("\n".join(lines))
    assert len(problems) == 1
    assert f"more than {NODES_MAX} values" in problems[0]


def test_a_file_nested_without_end_is_refused() -> None:
    _, problems = read("[" * 5000)
    assert len(problems) == 1


@pytest.mark.parametrize("tagged", ["!!python/object:os.system ls", "!mine x", "!!set {x}", "!!binary aGk="])
def test_tags_are_refused(tagged: str) -> None:
    document, problems = read(f"a: {tagged}")
    assert len(problems) == 1
    assert "is not known here" in problems[0]
    assert document.tree == {"a": ""}


def test_an_unset_variable_is_an_error_with_place_and_name() -> None:
    _, problems = read("a:\n  b: x${MISSING}y\n")
    expected = "c.yaml:2: a.b: the environment variable MISSING is not set "
    assert problems == [expected + "(set it, or correct the name)"]
