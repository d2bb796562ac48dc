import pickle
import random
from pathlib import Path

import pytest

from mirrorlake.config.expansion import expand
from mirrorlake.config.values.files import read_secret
from mirrorlake.errors import ConfigurationError
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.pipeline.lease_job import order_bytes
from mirrorlake.secret import Secret
from support.large_plans import large_plan

PASSWORD = "correct-horse-battery-staple"


def read(text: str) -> Secret:
    return read_secret(expand(text, {"MIRRORLAKE_TEST_P": PASSWORD, "MIRRORLAKE_TEST_Q": "tail"}))


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORLAKE_TEST_P", PASSWORD)
    monkeypatch.setenv("MIRRORLAKE_TEST_Q", "tail")


def test_a_secret_that_is_a_variable_is_in_a_plan_by_name() -> None:
    plan = plan_bytes({"password": read("${MIRRORLAKE_TEST_P}")})
    assert PASSWORD.encode() not in plan
    assert pickle.loads(plan)["password"].reveal() == PASSWORD


def test_a_worker_reads_it_from_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_bytes(read("${MIRRORLAKE_TEST_P}"))
    monkeypatch.setenv("MIRRORLAKE_TEST_P", "another")
    assert pickle.loads(plan).reveal() == "another"

    monkeypatch.delenv("MIRRORLAKE_TEST_P")
    with pytest.raises(ConfigurationError, match="the environment variable MIRRORLAKE_TEST_P, which holds a secret"):
        pickle.loads(plan)


@pytest.mark.parametrize("text", ["user:${MIRRORLAKE_TEST_P}", "${MIRRORLAKE_TEST_P}${MIRRORLAKE_TEST_Q}"])
def test_a_secret_that_was_put_together_travels(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = read(text)
    plan = plan_bytes(secret)
    monkeypatch.delenv("MIRRORLAKE_TEST_P")
    assert pickle.loads(plan) == secret


def test_a_secret_whose_variable_has_another_content_now_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = read("${MIRRORLAKE_TEST_P}")
    monkeypatch.setenv("MIRRORLAKE_TEST_P", "another")
    assert pickle.loads(plan_bytes(secret)).reveal() == PASSWORD


def test_a_secret_in_a_file_travels_as_its_path(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    plan = plan_bytes(Secret(file=file))
    assert PASSWORD.encode() not in plan
    assert pickle.loads(plan).reveal() == PASSWORD


def test_a_plan_of_six_thousand_partitions_is_a_few_bytes_for_each() -> None:
    plan = large_plan(6_000, random.Random(1), Secret("p"))
    order = order_bytes("module:work", plan_bytes(plan), 30.0)
    assert len(order) < 6_000 * 25
    assert pickle.loads(plan_bytes(plan)) == plan
