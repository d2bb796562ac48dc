"""`select` of a mirror: what it becomes, and where it is refused."""

import pickle

import pytest

from mirrorlake.filters.projection import Projection, parse_value
from unit.config.config_texts import load, messages, native

MAPPED = "{type: kafka, cluster: west, offsets: map}"
SELECT = (
    """{key: "get_json_object(CAST(value AS STRING), '$.id')", headers: {kind: "'order'"}, drop-headers: [trace]}"""
)


def selecting(select: str, destination: str = MAPPED, more: str = "") -> str:
    return native(f"""
        - name: orders
          source: {{cluster: east, topics: [orders]}}
          select: {select}
          destinations: [{destination}]
          {more}
        """)


@pytest.mark.parametrize("destination", [MAPPED, "{type: archive, store: lake}"])
def test_a_projection_arrives_as_a_value_that_travels(destination: str) -> None:
    (mirror,) = load(selecting(SELECT, destination)).mirrors
    assert mirror.select == Projection(
        key=parse_value("get_json_object(CAST(value AS STRING), '$.id')"),
        headers=(("kind", parse_value("'order'")),),
        dropped=("trace",),
    )
    assert pickle.loads(pickle.dumps(mirror.select)) == mirror.select


def test_without_one_there_is_none() -> None:
    assert load(selecting(SELECT).replace(f"select: {SELECT}", "")).mirrors[0].select is None


REFUSED = [
    ("{key: NULL}", 'write "NULL" in quotes'),
    ('{key: "offset"}', "it is of type BIGINT, and must be STRING or BINARY"),
    ('{value: "upper(CAST(value AS STRING))"}', "there is no function `upper` in an expression"),
    ('{value: "value AS v"}', "nothing an expression knows"),
    ("{value: \"raise_error('no')\"}", "it is nothing but an error"),
    ('{topic: "value"}', "is not a known field"),
    ("{}", "selects nothing"),
    ('{headers: {a: "key"}, drop-headers: [a]}', "drops header `a`, which `headers` sets"),
    ("{drop-headers: [a, a]}", "names a header twice"),
    ("{headers: [a]}", "expected headers by name"),
    ('{headers: {a: "1"}}', "it is of type BIGINT"),
    ("{drop-headers: []}", "expected a list of headers' names"),
    (f'{{value: "{" || ".join(["value"] * 9)}"}}', "it repeats 9 times what a record holds"),
    (
        '{key: "value || value || value", value: "value || value || value || value || value || value"}',
        "repeats 9 times",
    ),
    (f"{{value: \"'{'x' * 1025}'\"}}", "it puts 1025 bytes more into each record"),
    ("{headers: {" + ", ".join(f"h{number}: \"'x'\"" for number in range(17)) + "}}", "sets 17 headers"),
]


@pytest.mark.parametrize(("select", "message"), REFUSED)
def test_what_cannot_be_selected_is_refused_at_its_place_with_the_remedy(select: str, message: str) -> None:
    (said,) = messages(selecting(select))
    assert message in said
    assert "mirrors[0].select" in said


@pytest.mark.parametrize(
    ("destination", "message"),
    [
        ("{type: kafka, cluster: west}", "with `offsets: preserve` west has the source's"),
        ("{type: archive, store: lake, compaction: log}", "`select` cannot be had with `compaction: log`"),
    ],
)
def test_destinations_that_hold_the_sources_records_are_refused(destination: str, message: str) -> None:
    (said,) = messages(selecting(SELECT, destination))
    assert message in said


def test_an_expression_from_a_variable_is_not_repeated_in_a_refusal() -> None:
    (said,) = messages(selecting('{key: "${KEY}"}'), KEY="upper('hush')")
    assert "hush" not in said
    assert "${KEY}" in said


@pytest.mark.parametrize(
    ("select", "of_key", "of_value", "message"),
    [
        ('{key: "value"}', "none", "topic-name", ""),
        ('{key: "value"}', "topic-name", "none", "`select` changes each key of mirror orders"),
        ('{value: "key"}', "none", "topic-name", "`select` changes each value of mirror orders"),
        ("{headers: {a: \"'b'\"}}", "topic-name", "topic-name", ""),
    ],
)
def test_what_schemas_reads_an_id_in_is_not_changed(select: str, of_key: str, of_value: str, message: str) -> None:
    schemas = f"schemas: {{from: here, to: there, key: {of_key}, value: {of_value}}}"
    registries = "registries:\n  here: {url: http://here}\n  there: {url: http://there}\n"
    text = registries + selecting(select, more=schemas)
    if message:
        (said,) = messages(text)
        assert message in said
    else:
        assert load(text).mirrors[0].select is not None


def test_heartbeats_stay_as_they_are() -> None:
    (mirror,) = load(selecting(SELECT, more="heartbeats: {}")).mirrors
    assert mirror.heartbeats is not None
    assert mirror.select_of(mirror.heartbeats.topic) is None
    assert mirror.select_of("orders") == mirror.select


def test_projections_are_told_apart_by_their_texts() -> None:
    texts = ["key", "value", "CAST(key AS STRING)"]
    made = [Projection(key=parse_value(text)) for text in texts]
    made += [Projection(value=parse_value(text)) for text in texts]
    made += [Projection(headers=((name, parse_value("key")),)) for name in "ab"]
    made += [Projection(dropped=("a",)), Projection(dropped=("a", "b"))]
    assert len({each.fingerprint for each in made}) == len(made)
    assert Projection(key=parse_value("key")).fingerprint == made[0].fingerprint


@pytest.mark.parametrize(
    ("key", "follows"),
    [
        ("substring(key, 6, 1000)", True),
        ("'one'", True),
        ("value", False),
        ("coalesce(key, value)", False),
        ("coalesce(headers['id'], key)", False),
        ("CASE WHEN offset > 5 THEN key END", False),
    ],
)
def test_whether_records_of_one_key_have_one_afterwards_is_seen_in_the_expression(key: str, follows: bool) -> None:
    assert Projection(key=parse_value(key)).keys_follow_keys is follows
    assert Projection(value=parse_value(key)).keys_follow_keys
