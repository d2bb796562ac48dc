"""The Spark session under the engine: every setting it needs, the JVM's process, and an orderly end."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any

import structlog

from mirrorlake.errors import JavaUnusableError, MirrorlakeError, StartStoppedError
from mirrorlake.java import find_java
from mirrorlake.pipeline.cluster.executors import (
    ExecutorUnusableError,
    ExecutorWatch,
    await_executors,
    check_executors,
    living,
    say_ready,
)
from mirrorlake.pipeline.jvm import Jvm, start_jvm
from mirrorlake.pipeline.lease_job import LeaseRow, java_cause, run_lease, warm_up
from mirrorlake.pipeline.recalls import Recalls
from mirrorlake.pipeline.run_folder import RunFolder
from mirrorlake.pipeline.settings import SessionSettings, jvm_environment, jvm_flags, spark_conf, worker_python

_POLL_SECONDS = 0.1
_log = structlog.get_logger(__name__)


class EngineSession:
    """A running session and all that belongs to it.

    Attributes:
        spark: the ``SparkSession``.
        jvm: the process under it.
        recalls: asks leases of this session to end before their time.
        executors: looks at those of a cluster; None on one machine.
    """

    def __init__(
        self, spark: Any, jvm: Jvm, folder: RunFolder, recalls: Recalls, executors: ExecutorWatch | None = None
    ) -> None:
        self.spark = spark
        self.jvm = jvm
        self.recalls = recalls
        self.executors = executors
        self._folder = folder
        if executors is not None:
            executors.__enter__()

    @property
    def clock_offsets(self) -> Mapping[str, float]:
        """By how many seconds the clock of each executor is ahead of this machine's; none without a cluster."""
        return dict(self.executors.clock_offsets) if self.executors is not None else {}

    def is_alive(self) -> bool:
        """Returns whether the JVM still runs."""
        return self.jvm.is_alive()

    def answers(self) -> bool:
        """Asks the JVM whether Spark still runs, and returns that; hangs as long as the JVM does."""
        return not self.spark.sparkContext._jsc.sc().isStopped()

    def warm_up(self) -> None:
        """Runs an empty lease (see ``lease_job.warm_up``)."""
        warm_up(self.spark)

    def run_lease(
        self, work: str, plan: bytes, *, description: str, seconds_max: float | None = None
    ) -> list[LeaseRow]:
        """Runs ``work(plan)`` in a Python worker and returns its rows (see ``lease_job.run_lease``)."""
        return run_lease(self.spark, work, plan, description=description, seconds_max=seconds_max)

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Returns a thread with a JVM thread of its own, so that job descriptions and groups of lanes do not mix."""
        from pyspark import InheritableThread

        def work() -> None:
            self.spark.sparkContext.setLocalProperty("spark.jobGroup.id", name)
            target()

        thread: threading.Thread = InheritableThread(work, name=name)
        return thread

    def stop(self, timeout_seconds: float = 20.0) -> None:
        """Ends session, JVM and workers within about ``timeout_seconds``. Idempotent.

        Order of effects: Spark stops (running tasks are killed), the JVM ends or is killed, the folder goes.
        """
        give_up_at = time.monotonic() + timeout_seconds
        self._end_watch()
        self.jvm.mute()
        _stop_spark(self.spark, self.jvm, timeout_seconds / 2)
        self.jvm.stop(max(1.0, give_up_at - time.monotonic()))
        _forget_gateway()
        self._folder.close()

    def abandon(self) -> None:
        """Kills what is left of a dead session and removes its folder; asks Spark nothing. Idempotent."""
        self.jvm.kill()
        self._end_watch()
        self._folder.close()

    def _end_watch(self) -> None:
        watch, self.executors = self.executors, None
        if watch is not None:
            watch.__exit__()

    def __enter__(self) -> "EngineSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def build_session(settings: SessionSettings, *, more_jvm_flags: tuple[str, ...] = ()) -> EngineSession:
    """Starts a JVM and a Spark session on it; only one may live in a process.

    The JVM is deaf to SIGTERM, SIGINT and SIGHUP, and the handlers of this process stay as they are.

    Args:
        settings: what the user chose.
        more_jvm_flags: for the maker of class-data archives.

    Raises:
        JavaUnusableError: Java is missing, unusable, or Spark did not start on it.
        ExecutorUnusableError: a cluster has no executors, or they lack what leases need.
        ConfigurationError: a secret of Spark's cannot be read.
        StartStoppedError: the process was asked to stop meanwhile.
    """
    from pyspark import SparkContext

    # PySpark keeps gateway and context in globals; a second session would take the first one's down with it.
    assert SparkContext._active_spark_context is None, "this process has a session already"
    java = find_java()
    folder = RunFolder()
    jvm: Jvm | None = None
    try:
        flags = (*jvm_flags(settings, java.executable), *more_jvm_flags)
        conf = spark_conf(settings, folder.path, flags)
        secrets = {name: secret.reveal() for name, secret in settings.spark_secrets.items()}
        jvm = start_jvm(
            conf,
            environ=jvm_environment(settings, folder.path),
            folder=folder.path,
            timeout_seconds=settings.start_timeout_seconds,
            is_stopping=settings.is_stopping,
        )
        give_up_at = time.monotonic() + settings.cluster_timeout_seconds
        spark = _connect(jvm, conf | secrets, settings, give_up_at)
        watch = None if settings.is_local else _look_at_executors(spark, settings, give_up_at)
    except BaseException:
        if jvm is not None:
            jvm.stop(0.0)
        _forget_gateway()
        folder.close()
        raise
    return EngineSession(spark, jvm, folder, Recalls(folder.path if settings.is_local else None), watch)


def _connect(jvm: Jvm, conf: Mapping[str, str], settings: SessionSettings, give_up_at: float) -> Any:
    """Returns the session. Whoever gives up waiting ends the JVM next, and so the thread that is left here."""
    # In a thread of its own, because SparkContext takes SIGINT over when it is made in the main thread, and because
    # it waits for a cluster's master as long as it likes.
    starter = ThreadPoolExecutor(1, "spark-start")
    try:
        starting = starter.submit(_make_session, jvm, conf, worker_python(settings))
        while not starting.done():
            _check_start(settings, give_up_at)
            wait([starting], _POLL_SECONDS)
        return starting.result()
    except MirrorlakeError:
        raise
    except Exception as error:
        # Py4J's and Spark's errors, for settings that cannot work: heap, master, folders.
        raise JavaUnusableError(f"Spark did not start: {java_cause(str(error))}") from error
    finally:
        starter.shutdown(wait=False)


def _check_start(settings: SessionSettings, give_up_at: float) -> None:
    if settings.is_stopping():
        raise StartStoppedError("stopped while Spark started")
    if not settings.is_local and time.monotonic() > give_up_at:
        raise ExecutorUnusableError(
            f"Spark's master {settings.master} did not take this program within "
            f"{settings.cluster_timeout_seconds:.0f} s",
            hint="is it there, reachable from here, and of the same secret and version of Spark?",
        )


def _make_session(jvm: Jvm, conf: Mapping[str, str], python: str) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = python
    gateway = jvm.connect()
    SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm).setAll(list(conf.items())))
    return SparkSession.builder.getOrCreate()


def _look_at_executors(spark: Any, settings: SessionSettings, give_up_at: float) -> ExecutorWatch:
    """Waits for the executors of a cluster and looks at each; returns who looks at those that come later."""
    assert settings.master is not None
    executors = await_executors(
        lambda: living(spark),
        master=settings.master,
        slots=settings.lanes + settings.batch_slots,
        give_up_at=give_up_at,
        timeout_seconds=settings.cluster_timeout_seconds,
        is_stopping=settings.is_stopping,
    )
    python = worker_python(settings)
    checked = check_executors(spark, executors, settings.needs, python=python, is_stopping=settings.is_stopping)
    say_ready(checked)
    return ExecutorWatch(spark, checked, settings.needs, python=python)


def _stop_spark(spark: Any, jvm: Jvm, timeout_seconds: float) -> None:
    """Asks Spark to stop, for a bounded time: the call hangs when its JVM does."""
    if not jvm.is_alive():
        return
    stopper = ThreadPoolExecutor(1, "spark-stop")
    try:
        stopper.submit(spark.stop).result(timeout_seconds)
    except Exception as error:  # noqa: BLE001  The JVM's process is ended next, however it answered.
        _log.warning("Spark did not stop in order", error=repr(error))
    finally:
        stopper.shutdown(wait=False)


def _forget_gateway() -> None:
    """Makes PySpark forget a JVM that is gone; it would try to use it for the next session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
