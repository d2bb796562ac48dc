"""What a cluster is told, and where its executors find this process."""

import sys
from pathlib import Path

from mirrorlake.pipeline.cluster.conf import DEFAULTS, cluster_conf, python_of
from mirrorlake.pipeline.settings import SessionSettings, spark_conf

FOLDER = Path("/tmp/mirrorlake-0-abc")
MASTER = "spark://127.0.0.1:7077"


def conf(**given: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return cluster_conf(MASTER, slots=5, attempts=4, preload="a,b:c", given=named)


def test_executors_get_what_workers_load_and_as_many_slots_as_there_are_lanes_and_batch_slots() -> None:
    said = conf()
    assert said["spark.executorEnv.MIRRORLAKE_WORKER_PRELOAD"] == "a,b:c"
    assert said["spark.executorEnv.OPENBLAS_NUM_THREADS"] == "1"
    assert (said["spark.cores.max"], said["spark.task.cpus"], said["spark.task.maxFailures"]) == ("5", "1", "4")
    assert said["spark.dynamicAllocation.enabled"] == "false"


def test_a_task_may_be_tried_again_where_it_died_and_elsewhere_after_that() -> None:
    # Spark refuses a start unless a node is left before the attempts are over.
    per_node = int(DEFAULTS["spark.excludeOnFailure.task.maxTaskAttemptsPerNode"])
    assert 1 < int(DEFAULTS["spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor"]) < per_node < 4


def test_a_user_sizes_executors_and_decides_where_they_call() -> None:
    assert conf(spark_executor_memory="2g")["spark.executor.memory"] == "2g"
    said = conf(**{"spark.driver.host": "driver.example"})
    assert said["spark.driver.host"] == "driver.example"
    assert "spark.driver.bindAddress" not in said


def test_the_python_of_executors_is_the_users_or_ours() -> None:
    assert python_of({}, {}) == sys.executable
    assert python_of({}, {"PYSPARK_PYTHON": "/image/python"}) == "/image/python"
    given = {"spark.pyspark.python": "./environment/bin/python"}
    assert python_of(given, {"PYSPARK_PYTHON": "/image/python"}) == "./environment/bin/python"


def test_a_cluster_gets_no_folder_of_this_machine() -> None:
    said = spark_conf(SessionSettings(lanes=1, master=MASTER), FOLDER, ())
    assert "spark.python.unix.domain.socket.dir" not in said
    assert not [name for name, value in said.items() if str(FOLDER) in value and not name.startswith("spark.driver.")
                and name != "spark.sql.warehouse.dir"]  # fmt: skip


def test_tls_between_processes_takes_the_place_of_the_other_encryption_on_the_wire_alone() -> None:
    settings = SessionSettings(lanes=1, master=MASTER, spark_conf={"spark.ssl.rpc.enabled": "true"})
    said = spark_conf(settings, FOLDER, ())
    assert "spark.network.crypto.enabled" not in said
    assert said["spark.io.encryption.enabled"] == said["spark.authenticate"] == "true"


def test_page_and_event_log_are_off_unless_asked_for() -> None:
    said = spark_conf(SessionSettings(lanes=1), FOLDER, ())
    assert said["spark.ui.enabled"] == "false"
    assert "spark.eventLog.enabled" not in said
    said = spark_conf(SessionSettings(lanes=1, ui_port=4040, event_log=Path("/var/log/spark")), FOLDER, ())
    assert (said["spark.ui.enabled"], said["spark.ui.port"], said["spark.ui.killEnabled"]) == ("true", "4040", "false")
    assert (said["spark.eventLog.enabled"], said["spark.eventLog.dir"]) == ("true", "file:///var/log/spark")
