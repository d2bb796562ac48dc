"""The Spark session under the engine: every setting it needs, the JVM's process, and an orderly end."""

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from mirrorlake import class_archive
from mirrorlake.config.spark_settings import is_local
from mirrorlake.errors import JavaUnusableError, MirrorlakeError, StartStoppedError
from mirrorlake.java import find_java
from mirrorlake.pipeline.cluster.conf import cluster_conf, python_of
from mirrorlake.pipeline.cluster.executors import (
    ExecutorUnusableError,
    ExecutorWatch,
    await_executors,
    check_executors,
    living,
    say_ready,
)
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.daemon import PRELOAD_VARIABLE
from mirrorlake.pipeline.jvm import Jvm, start_jvm
from mirrorlake.pipeline.lease_job import LeaseRow, java_cause, run_lease, warm_up
from mirrorlake.pipeline.recalls import Recalls
from mirrorlake.pipeline.run_folder import RunFolder
from mirrorlake.secret import Secret

# One collector thread and the quick compiler, because the cores belong to the lanes and no bulk data passes
# the JVM. One without memory must die, not linger: a dead one is seen and started again. Performance data
# would be one more file in /tmp.
ARCHIVE_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
HEAP_FLAGS = ("-Xms64m", "-Xmn24m", "-XX:MinHeapFreeRatio=15", "-XX:MaxHeapFreeRatio=30")
"""The heap begins small and stays so. By itself a JVM takes a 64th of the machine's memory at once, and leases leave
their garbage in all of a large new generation before it is collected: after 120 leases of 100 KB 369 MB of PSS without
these, 277 with them, and 32 and 34 ms of the JVM's CPU a lease (2026-11-22, two cores under load)."""

_TASK_ATTEMPTS = 4
_POLL_SECONDS = 0.1

# Whoever may connect to the driver's ports could otherwise fetch what it broadcasts, and send it objects to
# deserialise. On one machine Spark draws a secret of 256 bits for each session, in the JVM's memory alone.
_AUTHENTICATED = {"spark.authenticate": "true"}
_DISKS = {"spark.io.encryption.enabled": "true"}
_ENCRYPTED = {"spark.network.crypto.enabled": "true", **_DISKS}
_log = structlog.get_logger(__name__)
_LOGGING = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What a session is built from.

    Attributes:
        lanes: leases that run at one time.
        batch_slots: task slots beside the lanes, for batch jobs.
        master: Spark's master URL; by default this machine, with a slot for each lane and batch slot.
        app_name: shown by Spark.
        driver_heap_mb: the JVM's heap; Spark refuses less than 450 MiB.
        preload: ``module`` or ``module:function``, imported or called once per machine before workers fork.
        class_archive: whether to start with the user's class-data archive, where there is one.
        cache_folder: where class-data archives lie; the user's cache folder by default.
        start_timeout_seconds: until the JVM must listen.
        spark_conf: further Spark settings; they win over ours, except those that keep other users out.
        spark_secrets: the same for those that must stand on no command line.
        cluster_timeout_seconds: until the master of a cluster must have answered, and an executor be there.
        ui_port: of Spark's page, on loopback; None for none.
        event_log: folder for Spark's event logs.
        needs: what every executor of a cluster is looked at for.
        is_stopping: asked while a start takes its time; one that says so ends it.
    """

    lanes: int
    batch_slots: int = 1
    master: str | None = None
    app_name: str = "mirrorlake"
    driver_heap_mb: int = 512
    preload: tuple[str, ...] = ()
    class_archive: bool = True
    cache_folder: Path | None = None
    start_timeout_seconds: float = 120.0
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    spark_secrets: Mapping[str, Secret] = field(default_factory=dict)
    cluster_timeout_seconds: float = 60.0
    ui_port: int | None = None
    event_log: Path | None = None
    needs: Needs = field(default_factory=Needs)
    is_stopping: Callable[[], bool] = bool

    def __post_init__(self) -> None:
        assert self.lanes >= 1
        assert self.batch_slots >= 0

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, under the driver's own JVM."""
        return is_local(self.master)


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
            environ=_environment(settings, folder.path),
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


def archive_for(settings: SessionSettings, java: Path) -> Path:
    """Returns where the class-data archive for these settings lies, whether it exists or not."""
    folder = settings.cache_folder or class_archive.cache_folder()
    return class_archive.archive_path(folder, java=java, jars=jars_folder(), flags=ARCHIVE_FLAGS)


def jars_folder() -> Path:
    """Returns where Spark's jars lie."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def jvm_flags(settings: SessionSettings, java: Path) -> tuple[str, ...]:
    """Returns the JVM's options, without heap, folder and logging."""
    archive = class_archive.use_options(archive_for(settings, java)) if settings.class_archive else ()
    return (*ARCHIVE_FLAGS, *HEAP_FLAGS, *class_archive.QUIET, *archive)


def spark_conf(settings: SessionSettings, folder: Path, flags: tuple[str, ...]) -> dict[str, str]:
    """Returns all Spark settings of a session.

    Args:
        settings: what the user chose.
        folder: short-lived and short, for sockets and temporary files.
        flags: the JVM's options.
    """
    slots = settings.lanes + settings.batch_slots
    is_tls = settings.spark_conf.get("spark.ssl.rpc.enabled") == "true"
    options = [*flags, f"-Djava.io.tmpdir={folder}", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    conf = {
        "spark.app.name": settings.app_name,
        # local[n] alone never repeats a task, and a lease whose worker died must come back as "retried".
        "spark.master": settings.master or f"local[{slots},{_TASK_ATTEMPTS}]",
        "spark.driver.memory": f"{settings.driver_heap_mb}m",
        "spark.driver.extraJavaOptions": " ".join(shlex.quote(option) for option in options),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Kept also without the page; a service runs a million jobs.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.python.daemon.module": "mirrorlake.pipeline.daemon",
        # Loopback TCP costs 45 ms more a job, and was seen to hang under two-way load.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if settings.ui_port is not None:
        conf |= {"spark.ui.enabled": "true", "spark.ui.port": str(settings.ui_port)}
    if settings.event_log is not None:
        conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": settings.event_log.as_uri()}
    if settings.is_local:
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # On a cluster this folder is not there: sockets lie where an executor's temporary files do.
        conf["spark.python.unix.domain.socket.dir"] = str(folder)
        return conf | dict(settings.spark_conf) | _AUTHENTICATED
    assert settings.master is not None
    more = cluster_conf(
        settings.master,
        slots=slots,
        attempts=_TASK_ATTEMPTS,
        preload=",".join(settings.preload),
        given=settings.spark_conf,
    )
    return conf | more | _AUTHENTICATED | (_DISKS if is_tls else _ENCRYPTED)


def _environment(settings: SessionSettings, folder: Path) -> dict[str, str]:
    """Returns the environment of the JVM, and so of the Python workers."""
    environ = dict(os.environ)
    # Spark's launcher is a JVM of its own that lives a quarter of a second.
    environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData")
    environ["PYSPARK_PYTHON"] = _worker_python(settings)
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environ[PRELOAD_VARIABLE] = ",".join(settings.preload)
    # The workers' parent imports numpy before it forks: it must start no threads that a fork would lose.
    environ["OPENBLAS_NUM_THREADS"] = "1"
    environ["SPARK_LOCAL_DIRS"] = str(folder)
    # Where Spark's page listens. What executors connect to is `spark.driver.host`.
    if settings.is_local or settings.ui_port is not None:
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environ


def _worker_python(settings: SessionSettings) -> str:
    """Returns what Spark starts as Python: on one machine the one that runs this."""
    return sys.executable if settings.is_local else python_of(settings.spark_conf)


def _connect(jvm: Jvm, conf: Mapping[str, str], settings: SessionSettings, give_up_at: float) -> Any:
    """Returns the session. Whoever gives up waiting ends the JVM next, and so the thread that is left here."""
    # In a thread of its own, because SparkContext takes SIGINT over when it is made in the main thread, and because
    # it waits for a cluster's master as long as it likes.
    starter = ThreadPoolExecutor(1, "spark-start")
    try:
        starting = starter.submit(_make_session, jvm, conf, _worker_python(settings))
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
    python = _worker_python(settings)
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
