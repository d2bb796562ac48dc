"""What somebody writes on the first day, and what they are told: each refusal names what is wrong and a remedy."""

import pytest

from unit.config.config_texts import CLUSTERS, archive, kafka, messages, native, refusals

INDENTED = """
clusters:
  east: {bootstrap-servers: "east:9092"}
mirrors:
  - name: m
    source: {cluster: east, topics: [orders]}
    destinations: []
"""


@pytest.mark.parametrize("written", ["   source:", "  source:"])
def test_a_line_that_is_indented_otherwise_is_told_where_it_should_begin(written: str) -> None:
    (line,) = refusals(INDENTED.replace("    source:", written))
    assert line.startswith("6: not YAML: ")
    assert line.endswith("(a line is not indented like its block, see line 5)")


def test_a_line_that_is_indented_too_far_is_told_so() -> None:
    (line,) = refusals(INDENTED.replace("    source:", "     source:"))
    assert line.startswith("6: not YAML: ")
    assert line.endswith("(a line is not indented like its block, or a text that holds `: ` needs quotes)")


def test_a_bracket_that_is_never_closed_is_told_where_it_opened() -> None:
    (line,) = refusals(INDENTED.replace("[orders]}", "[orders}"))
    assert line.endswith("(the bracket opened on line 6 is not closed, or a comma is missing)")


@pytest.mark.parametrize("topics", ["[*.orders]", "[@a]", "[`a`]"])
def test_a_sign_that_yaml_keeps_for_itself_is_put_in_quotes(topics: str) -> None:
    text = kafka(topics=topics)
    (line,) = refusals(text)
    assert line.endswith("(a text that begins with this sign is put in quotes)")


@pytest.mark.parametrize("topic", ["orders.*", "orders-[0-9]+", "(a|b)", "^orders$"])
def test_an_expression_as_others_write_it_is_told_of_its_slashes(topic: str) -> None:
    (line,) = messages(kafka(topics=f"['{topic}']"))
    assert line.endswith("; an expression is written between slashes: /orders-.*/)")


def test_topics_parted_by_commas_are_told_of_lists() -> None:
    (line,) = messages(kafka(topics="['orders,payments']"))
    assert line.endswith("; several are several items of the list)")


def test_one_value_where_a_list_is_wanted_is_told_of_brackets() -> None:
    assert messages(kafka(topics="orders")) == [
        "mirrors[0].source.topics: expected a list, found `orders` (put it in [ ], several separated by commas)"
    ]


@pytest.mark.parametrize(
    ("servers", "named"), [('["east:9092", "b"]', "`b`"), ('"east:9092,b"', "`b`"), ('"b"', "`b`")]
)
def test_the_server_that_is_not_one_is_named_and_not_its_list(servers: str, named: str) -> None:
    (line,) = messages(kafka().replace('"east:9092"', servers))
    assert line == (
        f"clusters.east.bootstrap-servers: {named} is not host:port (write host:port; several are separated by commas)"
    )


def test_a_server_that_came_from_the_environment_is_named_by_its_variable_only() -> None:
    (line,) = messages(kafka().replace('"east:9092"', '"${SERVERS}"'), SERVERS="east:9092,hidden")
    assert "hidden" not in line
    assert "the value of ${SERVERS} is not host:port" in line


def test_a_key_without_a_value_is_told_so() -> None:
    (line, *_) = messages(native("- name:\n  source: {cluster: east, topics: [a]}\n  destinations: []"))
    assert line == "mirrors[0].name: expected text, found nothing (write a value behind the colon)"


@pytest.mark.parametrize("size", ["1e6", "-1", "true"])
def test_a_size_that_is_none_is_told_how_sizes_are_written(size: str) -> None:
    (line,) = messages(archive(destination=f", flush: {{max-bytes: {size}}}"))
    assert line.endswith("(write a size with B, kB, MB, GB, KiB, MiB or GiB, for example 128MiB)")


def test_a_store_without_a_scheme_is_told_which_there_are() -> None:
    text = CLUSTERS.replace(
        "{type: filesystem, root: /lake}", "{type: s3, bucket: b, region: r, endpoint: 'localhost:9000'}"
    )
    assert [line for line in messages(text + "mirrors: []\n") if "endpoint" in line] == [
        "stores.lake.endpoint: `localhost:9000` is not an http or https address "
        "(write http:// or https:// before the host, and no credentials)"
    ]
