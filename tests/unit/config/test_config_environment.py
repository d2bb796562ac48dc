from pathlib import Path

import pytest

from mirrorlake.config.environment import VARIABLES, Environment, LogFormat, LogLevel, Override, read_environment
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.process_settings import ListenAddress
from unit.config.config_texts import kafka, load, refusals, v3

V3 = v3("{type: kafka, bootstrap-servers: w}", "- {name: m, source: {bootstrap-servers: e}, topic: t, partition: 0}")


def test_an_empty_environment_gives_defaults() -> None:
    assert read_environment({}) == Environment()
    assert read_environment(dict.fromkeys(VARIABLES, "")) == Environment()


def test_every_variable_is_read() -> None:
    environment = read_environment(
        {
            "MIRRORLAKE_LOG_LEVEL": "debug",
            "MIRRORLAKE_LOG_FORMAT": "json",
            "MIRRORLAKE_CACHE": "/cache",
            "MIRRORLAKE_METRICS": "0.0.0.0:9191",
            "MIRRORLAKE_HEARTBEAT": "2m",
            "MIRRORLAKE_OVERLAY": "production",
            "MIRROR_V3_METRICS_PORT": "9292",
            "MIRROR_V3_HEARTBEAT_SECS": "0",
            "MIRRORLAKE_SERVICE_HOST": "10.0.0.1",
        }
    )
    assert environment == Environment(
        log_level=LogLevel.DEBUG,
        log_format=LogFormat.JSON,
        cache_folder=Path("/cache"),
        metrics=Override(listen=ListenAddress(host="0.0.0.0", port=9191)),
        heartbeat=Override(seconds=120.0),
        overlay="production",
        v3_metrics_port=9292,
        v3_heartbeat_seconds=0,
    )


@pytest.mark.parametrize("name", list(VARIABLES))
def test_an_unreadable_value_is_an_error_that_names_the_variable(name: str) -> None:
    with pytest.raises(ConfigurationErrors, match=f"environment: {name}: "):
        read_environment({name: "?"})


@pytest.mark.parametrize("port", ["-1", "65536", "http", "9090 ", "１", "9" * 30])
def test_a_port_of_mirror_v3_must_be_one(port: str) -> None:
    with pytest.raises(ConfigurationErrors, match="MIRROR_V3_METRICS_PORT: expected a whole number from 0 to 65535"):
        read_environment({"MIRROR_V3_METRICS_PORT": port})


def test_a_bad_variable_is_reported_together_with_the_file() -> None:
    lines = refusals(kafka(destination=", nonsense: 1"), MIRRORLAKE_LOG_LEVEL="loud")
    assert len(lines) == 2
    assert lines[1].startswith("environment: MIRRORLAKE_LOG_LEVEL: expected debug or info or warning or error")


def test_mirror_v3s_variables_hold_in_its_form() -> None:
    service = load(V3, MIRROR_V3_METRICS_PORT="9191", MIRROR_V3_HEARTBEAT_SECS="5").service
    assert service.metrics == ListenAddress(host="0.0.0.0", port=9191)
    assert service.heartbeat_seconds == 5.0


def test_zero_switches_off_in_the_mirror_v3_form() -> None:
    service = load(V3, MIRROR_V3_METRICS_PORT="0", MIRROR_V3_HEARTBEAT_SECS="0").service
    assert (service.metrics, service.heartbeat_seconds) == (None, None)


def test_mirror_v3s_variables_do_not_reach_the_native_form() -> None:
    service = load(kafka(), MIRROR_V3_METRICS_PORT="9191", MIRROR_V3_HEARTBEAT_SECS="5").service
    assert (service.metrics, service.heartbeat_seconds) == (None, 30.0)


@pytest.mark.parametrize("text", [kafka(), V3, kafka() + "service: {metrics: '127.0.0.1:1', heartbeat: 9s}\n"])
def test_our_variables_go_before_the_file_in_both_forms(text: str) -> None:
    service = load(text, MIRRORLAKE_METRICS="127.0.0.1:9393", MIRRORLAKE_HEARTBEAT="off").service
    assert service.metrics == ListenAddress(host="127.0.0.1", port=9393)
    assert service.heartbeat_seconds is None
    assert load(text, MIRRORLAKE_METRICS="off").service.metrics is None
