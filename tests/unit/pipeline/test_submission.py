"""Whether `spark-submit` started this process, and which one."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.pipeline.cluster.submission import ask_to_stop, check_version, is_submitted
from mirrorlake.pipeline.settings import SessionSettings, jvm_environment

GATEWAY = {"PYSPARK_GATEWAY_PORT": "39153", "PYSPARK_GATEWAY_SECRET": "7ba5"}


def test_spark_submit_has_started_a_process_that_knows_port_and_secret_of_its_gateway() -> None:
    assert is_submitted(GATEWAY)
    assert not is_submitted({})
    assert not is_submitted({"PYSPARK_GATEWAY_PORT": "39153"})


def test_workers_are_not_told_of_that_gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in GATEWAY.items():
        monkeypatch.setenv(name, value)
    environ = jvm_environment(SessionSettings(lanes=1), tmp_path)
    assert not set(GATEWAY) & set(environ)


def test_a_spark_submit_of_another_version_is_refused_with_both() -> None:
    check_version("4.3.0", "4.3.0")
    with pytest.raises(ConfigurationError) as refused:
        check_version("4.2.1", "4.3.0")
    assert refused.value.message == "spark-submit is of Spark 4.2.1, and mirrorlake is installed with PySpark 4.3.0"
    assert "the spark-submit of that PySpark" in refused.value.hint


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that came, by number; the dispositions are put back."""
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, _frame: came.append(number))
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_graceful_stop_is_asked_for_by_the_signal_that_a_second_one_may_follow(heard: list[int]) -> None:
    ask_to_stop()
    assert heard == [signal.SIGHUP]


def test_below_nohup_it_is_asked_for_by_sigterm(heard: list[int]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ask_to_stop()
    assert heard == [signal.SIGTERM]
