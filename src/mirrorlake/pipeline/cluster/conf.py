"""Spark's settings for a cluster."""

import os
import sys
from collections.abc import Mapping

from mirrorlake.pipeline.cluster.address import address_towards
from mirrorlake.pipeline.daemon import PRELOAD_VARIABLE

PYTHON = "spark.pyspark.python"

# Executors carry no bulk data in their JVM either.
_EXECUTOR_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError -XX:-UsePerfData"

DEFAULTS: Mapping[str, str] = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _EXECUTOR_FLAGS,
    # A host that fell silent costs its lanes a minute, not two; a lease is over long before.
    # Spark looks for such hosts once a minute by itself, so that it would be up to two all the same.
    "spark.network.timeout": "60s",
    "spark.network.timeoutInterval": "10s",
    "spark.executor.heartbeatInterval": "5s",
    # A dozen lines for each lease, for ever: a standalone worker keeps them in its folder.
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": str(16 * 1024**2),
    "spark.executor.logs.rolling.maxRetainedFiles": "4",
    # A host on which every task dies gets none for a while. The second attempt of a lease, which does nothing but say
    # so, may still run where the first died: there may be one executor only.
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "2",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "3",
    "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "8",
    "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "8",
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "4",
    "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "8",
    "spark.excludeOnFailure.timeout": "2m",
}
"""What a user may set otherwise."""


def cluster_conf(master: str, *, slots: int, attempts: int, preload: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that a cluster needs beside those of one machine.

    Args:
        master: Spark's master URL.
        slots: tasks that run at one time.
        attempts: of one task.
        preload: value of the variable that tells workers what to load.
        given: the user's own settings.
    """
    conf = {**DEFAULTS, **given}
    if "spark.driver.host" not in given and (address := address_towards(master)):
        conf |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return conf | {
        "spark.cores.max": str(slots),
        "spark.task.cpus": "1",
        "spark.task.maxFailures": str(attempts),
        "spark.dynamicAllocation.enabled": "false",
        f"spark.executorEnv.{PRELOAD_VARIABLE}": preload,
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }


def python_of(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str:
    """Returns the Python that executors start: the user's choice, else this one's path."""
    return given.get(PYTHON) or environ.get("PYSPARK_PYTHON") or sys.executable
