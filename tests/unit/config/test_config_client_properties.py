import pytest

from mirrorlake.config.client_properties import NOT_YET, OURS, SECRET, SECURITY, TEXTS, TUNING
from unit.config.config_texts import kafka, load, messages

EAST = '"east:9092"'


def properties(text: str) -> str:
    """Returns a file whose cluster east has properties."""
    return kafka().replace(EAST, f"{EAST}, properties: {{{text}}}")


def test_tuning_arrives_with_units() -> None:
    east = (
        load(
            properties(
                "client.id: c, request.timeout.ms: 1500, socket.connection.setup.timeout.ms: 2500, "
                "fetch.max.bytes: 4096, max.partition.fetch.bytes: 2048, fetch.min.bytes: 10, fetch.max.wait.ms: 20"
            )
        )
        .clusters[0]
        .settings
    )
    assert (east.client_id, east.request_timeout_seconds, east.connect_timeout_seconds) == ("c", 1.5, 2.5)
    assert (east.fetch_bytes_max, east.fetch_partition_bytes_max) == (4096, 2048)
    assert (east.fetch_bytes_min, east.fetch_wait_seconds_max) == (10, 0.02)


def test_properties_may_come_from_the_environment() -> None:
    text = kafka().replace(EAST, EAST + ', properties: {request.timeout.ms: "${T}"}')
    assert load(text, T="700").clusters[0].settings.request_timeout_seconds == 0.7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acks: all", "clusters.east.properties.acks: cannot be set (it is always `all`)"),
        ("group.id: g", 'clusters.east.properties["group.id"]: cannot be set (positions come from the destination'),
        (
            "bootstrap.servers: e",
            'clusters.east.properties["bootstrap.servers"]: cannot be set (write it beside `properties`',
        ),
        (
            "request.timeout: 5",
            'clusters.east.properties["request.timeout"]: is not a property of Kafka\'s clients known here '
            "(did you mean `request.timeout.ms`?)",
        ),
        (
            "request.timeout.ms: 5s",
            'clusters.east.properties["request.timeout.ms"]: expected a whole number from 100 to 600000, found `5s`',
        ),
        (
            "request.timeout.ms: 5",
            'clusters.east.properties["request.timeout.ms"]: expected a whole number from 100 to 600000, found the',
        ),
        (
            "client.id: größe",
            'clusters.east.properties["client.id"]: expected at most 249 characters of ASCII, found `größe`',
        ),
        (
            f"client.id: {'x' * 250}",
            'clusters.east.properties["client.id"]: expected at most 249 characters of ASCII, found `xxx',
        ),
        (
            "fetch.max.bytes: 67108865",
            'clusters.east.properties["fetch.max.bytes"]: expected a whole number from 1024 to 67108864, found the',
        ),
        ("client.id: ''", 'clusters.east.properties["client.id"]: is empty'),
        ("client.id: [a]", 'clusters.east.properties["client.id"]: expected text or a number, found a list'),
        ("client.id:", 'clusters.east.properties["client.id"]: expected text or a number, found nothing'),
    ],
)
def test_a_wrong_property_is_refused(text: str, expected: str) -> None:
    lines = messages(properties(text))
    assert len(lines) == 1
    assert lines[0].startswith(expected)


def test_properties_must_be_a_mapping() -> None:
    text = kafka().replace(EAST, f"{EAST}, properties: [a]")
    assert messages(text) == ["clusters.east.properties: expected a mapping, found a list"]


def test_every_property_is_of_one_kind_only() -> None:
    kinds = [set(TUNING), set(TEXTS), set(SECURITY), set(OURS), set(NOT_YET)]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    assert SECURITY.keys() >= SECRET
