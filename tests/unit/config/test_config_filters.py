"""`filter` of a mirror: what it becomes, and where it is refused."""

import pickle

import pytest

from mirrorlake.filters.parsing import parse_filter
from unit.config.config_texts import load, messages, native

WHERE = "headers['type'] = 'order'"
MAPPED = "{type: kafka, cluster: west, offsets: map}"


def filtered(destination: str, where: str = WHERE) -> str:
    return native(f"""
        - name: orders
          source: {{cluster: east, topics: [orders]}}
          filter: {{where: "{where}"}}
          destinations: [{destination}]
        """)


@pytest.mark.parametrize("destination", [MAPPED, "{type: archive, store: lake}"])
def test_a_filter_arrives_as_a_value_that_travels(destination: str) -> None:
    (mirror,) = load(filtered(destination)).mirrors
    assert mirror.filter == parse_filter(WHERE)
    assert pickle.loads(pickle.dumps(mirror.filter)) == mirror.filter


def test_without_a_filter_there_is_none() -> None:
    text = filtered(MAPPED).replace(f'filter: {{where: "{WHERE}"}}', "")
    assert load(text).mirrors[0].filter is None


@pytest.mark.parametrize(
    ("destination", "where", "message"),
    [
        ("{type: kafka, cluster: west}", WHERE, "a filter leaves offsets out, and west keeps those of the source"),
        ("{type: archive, store: lake, compaction: log}", WHERE, "a filter cannot be had with `compaction: log`"),
        (MAPPED, "upper(key) = 'A'", "there is no function `upper` in an expression"),
        (MAPPED, "key = 1", "compares BINARY with BIGINT"),
        (MAPPED, "", "where"),
    ],
)
def test_what_cannot_be_filtered_is_refused_with_the_remedy(destination: str, where: str, message: str) -> None:
    found = messages(filtered(destination, where))
    assert len(found) == 1, found
    assert message in found[0]


def test_every_destination_of_a_mirror_must_be_able_to_leave_records_out() -> None:
    assert len(messages(filtered(f"{MAPPED}, {{type: kafka, cluster: east, topic: copy}}"))) == 1


def test_a_condition_from_a_variable_is_not_repeated_in_a_refusal() -> None:
    (said,) = messages(filtered(MAPPED, "${WHERE}"), WHERE="upper(key) = 'hush'")
    assert "hush" not in said
    assert "${WHERE}" in said
