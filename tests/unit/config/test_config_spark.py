"""``engine`` on a cluster: what Spark may be told, what it may not, and what it must be told."""

from pathlib import Path

import pytest

from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.spark.settings import OURS, is_local
from unit.config.config_texts import kafka, load, messages

SECURE = (
    "spark.authenticate: true, spark.authenticate.secret: {file: /run/secret}, "
    "spark.network.crypto.enabled: true, spark.io.encryption.enabled: true"
)


def engine(text: str) -> str:
    return kafka() + f"engine: {{{text}}}\n"


def conf(text: str, *, more: str = "") -> str:
    return engine(f"spark-conf: {{{text}}}{more}")


def test_a_cluster_is_read_with_its_settings() -> None:
    read = load(
        engine(
            f"master: 'spark://h:7077', lanes: 6, batch-slots: 2, start-timeout: 90s, ui: 4040, "
            f"event-log: /var/log/spark, spark-conf: {{{SECURE}, spark.executor.memory: 1g, spark.executor.cores: 2}}"
        )
    ).engine
    assert (read.master, read.lanes, read.batch_slots) == ("spark://h:7077", 6, 2)
    assert (read.start_timeout_seconds, read.ui_port, read.event_log) == (90.0, 4040, Path("/var/log/spark"))
    assert read.spark_conf == {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "2",
    }
    assert list(read.spark_secrets) == ["spark.authenticate.secret"]
    assert not is_local(read.master)


def test_one_machine_needs_nothing() -> None:
    read = load(kafka()).engine
    assert (read.master, read.spark_conf, read.ui_port, read.event_log) == (None, {}, None, None)
    assert load(engine("ui: off")).engine.ui_port is None


@pytest.mark.parametrize("name", sorted(OURS))
def test_what_the_engine_decides_is_refused_with_its_reason(name: str) -> None:
    assert messages(conf(f"{name}: x")) == [f'engine.spark-conf["{name}"]: cannot be set ({OURS[name]})']
    assert messages(conf(f"{name}.below: x")) == [f'engine.spark-conf["{name}.below"]: cannot be set ({OURS[name]})']


def test_a_setting_that_only_begins_like_one_of_those_may_be_set() -> None:
    assert load(conf("spark.master.rest.port: 1").replace("spark.master.rest", "spark.uis")).engine.spark_conf


@pytest.mark.parametrize("name", ["spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"])
def test_nobody_turns_off_what_keeps_strangers_out(name: str) -> None:
    (line,) = messages(conf(f"{name}: false"))
    assert line == (
        f'engine.spark-conf["{name}"]: expected true, found `false` (nobody but this program may reach its leases)'
    )


def test_a_cluster_without_protection_is_refused_with_every_setting_it_lacks() -> None:
    lines = messages(engine("master: 'spark://h:7077'"))
    assert [line.partition(" (")[0] for line in lines] == [
        "engine.lanes: is required with a `master` that is not this machine",
        "engine.spark-conf: a cluster needs `spark.authenticate.secret: {file: /path}`: a secret that master, workers "
        "and this process share",
        "engine.spark-conf: a cluster needs `spark.authenticate: true`: else everybody who reaches its ports can run "
        "code",
        "engine.spark-conf: a cluster needs `spark.io.encryption.enabled: true`: what executors put on their disks is "
        "readable else",
        "engine.spark-conf: a cluster needs `spark.network.crypto.enabled: true` or `spark.ssl.rpc.enabled: true`: "
        "plans with passwords travel to the executors",
    ]
    assert all("docs/cluster.md" in line for line in lines[1:])


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api:6443"])
def test_yarn_and_kubernetes_draw_the_secret_themselves(master: str) -> None:
    text = SECURE.replace("spark.authenticate.secret: {file: /run/secret}, ", "")
    assert load(engine(f"master: '{master}', lanes: 2, spark-conf: {{{text}}}")).engine.master == master


def test_tls_between_spark_processes_will_do() -> None:
    text = SECURE.replace("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    assert load(engine(f"master: 'spark://h:1', lanes: 2, spark-conf: {{{text}}}"))


@pytest.mark.parametrize("master", ["h:7077", "spark://h", "mesos://h:1", "sc://h:15002", "local-cluster[2,1,1024]"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    (line,) = messages(engine(f"master: '{master}', lanes: 2"))
    assert line == "engine.master: expected `spark://host:port`, `k8s://…`, `yarn` or `local[n]`"


def test_a_secret_in_clear_is_refused_and_not_repeated() -> None:
    for name in ("spark.authenticate.secret", "spark.ssl.rpc.keyPassword", "spark.hadoop.fs.s3a.access.key"):
        (line,) = messages(conf(f"{name}: hunter2"))
        assert line == (
            f'engine.spark-conf["{name}"]: a secret may not be in the file (write ${{NAME}} or {{file: /path/of/it}})'
        )


def test_a_secret_of_the_environment_is_kept_apart() -> None:
    read = load(conf('spark.ssl.rpc.keyPassword: "${P}"'), P="hunter2").engine
    assert read.spark_secrets["spark.ssl.rpc.keyPassword"].reveal() == "hunter2"
    assert "hunter2" not in repr(read)


def test_the_path_of_a_secrets_file_is_no_secret() -> None:
    read = load(conf("spark.authenticate.secret.driver.file: /run/s")).engine
    assert read.spark_conf == {"spark.authenticate.secret.driver.file": "/run/s"}


def test_without_a_cluster_spark_stays_on_loopback() -> None:
    (line,) = messages(conf("spark.driver.host: 10.0.0.1"))
    assert line == (
        'engine.spark-conf["spark.driver.host"]: cannot be set (without a cluster Spark listens on loopback alone)'
    )


def test_other_names_and_values_are_refused_with_their_place() -> None:
    assert messages(conf("executor.memory: 1g")) == [
        'engine.spark-conf["executor.memory"]: is not a setting of Spark\'s (their names begin with `spark.`)'
    ]
    assert messages(conf("spark.executor.memory: [1g]")) == [
        'engine.spark-conf["spark.executor.memory"]: expected text or a number, found a list'
    ]
    assert messages(engine("ui: 0, event-log: logs")) == [
        "engine.ui: expected a whole number from 1 to 65535, found the number 0",
        "engine.event-log: `logs` is a relative path (write it from the root on, for example /var/log/spark)",
    ]


def test_a_setting_from_a_variable_that_is_not_set_is_told_once() -> None:
    with pytest.raises(ConfigurationErrors) as caught:
        load(conf('spark.executor.memory: "${MEMORY}"'))
    assert len(caught.value.problems) == 1
