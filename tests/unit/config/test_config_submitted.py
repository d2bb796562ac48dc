"""What `spark-submit` was given stands behind the file's settings, and is held to the same rules."""

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.process_settings import Engine
from mirrorlake.config.spark.settings import OURS
from unit.config.config_texts import kafka

MASTER = "spark://h:7077"
SECURE = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "hunter2",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
# As Spark 4.3 adds them by itself.
ALWAYS = {
    "spark.master": "local[*]",
    "spark.app.name": "submit.py",
    "spark.app.submitTime": "1795912940190",
    "spark.submit.deployMode": "client",
    "spark.submit.pyFiles": "",
}


def read(engine: str = "", **given: str) -> Engine:
    text = kafka() + (f"engine: {{{engine}}}\n" if engine else "")
    submitted = {**ALWAYS, **{name if "." in name else name.replace("_", "."): value for name, value in given.items()}}
    return parse_configuration(text.encode(), file="m.yaml", environ={}, submitted=submitted).engine


def problems(engine: str = "", **given: str) -> list[str]:
    with pytest.raises(ConfigurationErrors) as refused:
        read(engine, **given)
    return [str(problem) for problem in refused.value.problems]


def test_master_settings_and_secret_are_taken_from_spark_submit() -> None:
    engine = read("lanes: 2", spark_master=MASTER, spark_executor_memory="1g", **SECURE)
    assert engine.master == MASTER
    assert engine.spark_conf == {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
        "spark.executor.memory": "1g",
    }
    assert engine.spark_secrets["spark.authenticate.secret"].reveal() == "hunter2"
    assert "hunter2" not in repr(engine)


def test_what_the_file_says_counts_before_what_spark_submit_says() -> None:
    engine = read("spark-conf: {spark.executor.memory: 2g}", spark_executor_memory="1g", spark_executor_cores="3")
    assert engine.spark_conf == {"spark.executor.memory": "2g", "spark.executor.cores": "3"}
    of_file = "lanes: 2, spark-conf: {spark.authenticate.secret: {file: /run/secret}}"
    held = read(of_file, spark_master=MASTER, **SECURE).spark_secrets["spark.authenticate.secret"]
    assert str(held.file) == "/run/secret"


@pytest.mark.parametrize("local", ["local", "local[*]", "local[8]", "local[2,4]"])
def test_a_local_master_of_spark_submit_says_nothing(local: str) -> None:
    assert read(spark_master=local).master is None
    secured = ", ".join(f"{name}: {value}" for name, value in SECURE.items() if name != "spark.authenticate.secret")
    of_file = f"master: 'k8s://h:1', lanes: 2, spark-conf: {{{secured}}}"
    assert read(of_file, spark_master=local).master == "k8s://h:1"


def test_two_masters_are_refused_and_the_same_one_twice_is_not() -> None:
    of_file = "master: 'spark://other:7077', lanes: 2"
    assert problems(of_file, spark_master=MASTER, **SECURE) == [
        "m.yaml:11: engine.master: is `spark://other:7077`, and spark-submit has `spark://h:7077` "
        "(leave one of them out)"
    ]
    assert read(of_file, spark_master="spark://other:7077", **SECURE).master == "spark://other:7077"


@pytest.mark.parametrize("name", sorted(set(OURS) - {"spark.master", "spark.submit.deployMode"}))
def test_what_the_engine_decides_is_refused_but_for_what_the_launching_jvm_was_given(name: str) -> None:
    if name.startswith("spark.driver.extraJavaOptions"):
        assert read(**{name: "-Xss1m"}).spark_conf == {}
        return
    assert problems(**{name: "x"}) == [
        f"spark-submit: {name}: cannot be set ({OURS[name]}; leave it out of the command line, of the properties file "
        "and of spark-defaults.conf)"
    ]


def test_settings_of_the_launching_jvm_are_not_handed_on() -> None:
    given = {"spark_driver_memory": "4g", "spark_driver_cores": "2", "spark_driver_extraClassPath": "/x.jar"}
    assert read(**given, spark_driver_host="10.0.0.1", spark_master=MASTER, **SECURE, engine="lanes: 1").spark_conf == {
        **{name: value for name, value in SECURE.items() if name != "spark.authenticate.secret"},
        "spark.driver.host": "10.0.0.1",
    }


def test_a_cluster_that_spark_submit_names_needs_what_one_in_the_file_needs() -> None:
    lines = problems("lanes: 2", spark_master=MASTER)
    assert len(lines) == 4
    assert all("engine.spark-conf: a cluster needs `spark." in line for line in lines)
    assert problems("lanes: 2", spark_master=MASTER, **{**SECURE, "spark.authenticate": "false"}) == [
        "m.yaml:11: engine.spark-conf: a cluster needs `spark.authenticate: true`: else everybody who reaches its "
        "ports can run code (see docs/cluster.md)",
        "spark-submit: spark.authenticate: expected true, found `false` (nobody but this program may reach its leases)",
    ]
    assert problems(spark_master="mesos://h:1") == [
        "m.yaml:2: engine.master: expected `spark://host:port`, `k8s://…`, `yarn` or `local[n]`"
    ]


def test_the_driver_stays_where_spark_submit_is_called_and_brings_no_python_files() -> None:
    assert problems(spark_submit_deployMode="cluster", spark_submit_pyFiles="/a.zip") == [
        "spark-submit: spark.submit.deployMode: expected client (this process starts Spark itself: use --deploy-mode "
        "client)",
        "spark-submit: spark.submit.pyFiles: --py-files cannot be used (executors need mirrorlake installed, or an "
        "environment in --archives: see docs/cluster.md)",
    ]
