"""Whether `spark-submit` started this process, and which one."""

import signal
from collections.abc import Iterator

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.pipeline.cluster.submission import (
    ask_to_stop,
    begin_submission,
    check_version,
    submitted_settings,
)


def test_a_process_that_was_not_begun_by_spark_submit_has_no_settings_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    assert begin_submission() is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "39153")  # of a program of spark-submit that calls the command
    monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "7ba5")
    assert submitted_settings() is None


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
