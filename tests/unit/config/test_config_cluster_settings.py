"""What the configuration says of a cluster arrives at the wire client, every tuning property of it."""

import pytest

from mirrorlake.config.client_properties import TUNING
from mirrorlake.kafka.wire.settings import ClusterSettings
from unit.config.config_texts import kafka, load

EAST = '"east:9092"'


def settings_with(properties: str) -> ClusterSettings:
    text = kafka().replace(EAST, f"{EAST}, properties: {{{properties}}}")
    return load(text).clusters[0].settings


def test_what_is_not_set_is_left_to_the_client() -> None:
    assert settings_with("") == ClusterSettings(name="east", bootstrap_servers=("east:9092",))


def test_properties_become_settings_with_units() -> None:
    settings = settings_with(
        "client.id: c, request.timeout.ms: 1500, socket.connection.setup.timeout.ms: 2500, "
        "fetch.max.bytes: 4096, max.partition.fetch.bytes: 2048, fetch.min.bytes: 10, fetch.max.wait.ms: 20"
    )

    assert settings == ClusterSettings(
        name="east",
        bootstrap_servers=("east:9092",),
        client_id="c",
        request_timeout_seconds=1.5,
        connect_timeout_seconds=2.5,
        fetch_bytes_max=4096,
        fetch_partition_bytes_max=2048,
        fetch_bytes_min=10,
        fetch_wait_seconds_max=0.02,
    )


@pytest.mark.parametrize("name", [*TUNING, "client.id"])
def test_no_property_is_accepted_and_then_lost(name: str) -> None:
    value = TUNING[name].minimum if name in TUNING else "somebody"

    assert settings_with(f"{name}: {value}") != settings_with("")
