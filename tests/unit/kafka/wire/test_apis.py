"""The table of APIs agrees with Kafka's own schemas, as kafka-python ships them, and with itself."""

import subprocess
import sys

import pytest
from kafka.protocol import admin, consumer, metadata, producer, sasl

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.kafka.wire.apis import FLEXIBLE_SINCE, VERSION_CAPS, VERSION_FLOORS, Api

SCHEMAS = {
    message.API_KEY: message
    for module in (admin, consumer, metadata, producer, sasl)
    for name, message in vars(module).items()
    if name.endswith("Request") and hasattr(message, "API_KEY")
}


@pytest.mark.parametrize("api", Api)
def test_name_and_flexible_versions_are_kafkas(api: Api) -> None:
    schema = SCHEMAS[api]
    flexible = [version for version in range(schema.max_version + 1) if schema.flexible_version_q(version)]

    assert schema.name == f"{api.title}Request"
    assert FLEXIBLE_SINCE[api] == (flexible[0] if flexible else schema.max_version + 1)


@pytest.mark.parametrize("api", Api)
def test_floor_and_cap_leave_a_version(api: Api) -> None:
    assert 0 <= VERSION_FLOORS[api] <= VERSION_CAPS[api] <= SCHEMAS[api].max_version


@pytest.mark.parametrize(
    ("api", "cap"),
    [
        (Api.PRODUCE, 11),  # 12 is transactions version 2
        (Api.FETCH, 12),  # 13 names topics by id only
        (Api.INIT_PRODUCER_ID, 4),
        (Api.ADD_PARTITIONS_TO_TXN, 3),  # 4 is for brokers
        (Api.END_TXN, 4),  # 5 is transactions version 2
    ],
)
def test_no_version_with_another_meaning_is_ever_sent(api: Api, cap: int) -> None:
    assert VERSION_CAPS[api] <= cap


@pytest.mark.parametrize(
    "module",
    [
        *("wire.settings", "wire.fetch", "wire.produce", "wire.error_codes"),
        *("control.connection", "control.descriptions"),
    ],
)
def test_the_stream_of_batches_does_not_import_kafka_python(module: str) -> None:
    script = f"import mirrorlake.kafka.{module}, sys; print('kafka' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
