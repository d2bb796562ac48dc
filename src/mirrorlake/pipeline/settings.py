"""What a session is built from: the user's choices, and all that follows from them for Spark and its JVM."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mirrorlake import class_archive
from mirrorlake.config.spark.settings import is_local
from mirrorlake.pipeline.cluster.conf import cluster_conf, python_of
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.daemon import PRELOAD_VARIABLE
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
HEAP_FLAGS = (
    *("-Xms32m", "-Xmn12m", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20"),
    *("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TrimNativeHeapInterval=60000"),
)
"""The heap begins small and stays so, and what a start has freed outside of it goes back each minute (Java 17.0.9).

By itself a JVM takes a 64th of the machine's memory at once, and leases leave their garbage in all of a large new
generation before it is collected. Smaller ones collect more often: after 420 leases of 100 KB 240 MB of PSS and 32 ms
of the JVM's CPU a lease with 24 MB, 215 MB and 32 ms with these 12, 204 MB and 37 ms with 8; and 46 ms with 8 and half
of the free memory (2026-11-27, means of two runs in turn, two cores under load)."""
_TASK_ATTEMPTS = 4

# Whoever may connect to the driver's ports could otherwise fetch what it broadcasts, and send it objects to
# deserialise. On one machine Spark draws a secret of 256 bits for each session, in the JVM's memory alone.
_AUTHENTICATED = {"spark.authenticate": "true"}
_DISKS = {"spark.io.encryption.enabled": "true"}
_ENCRYPTED = {"spark.network.crypto.enabled": "true", **_DISKS}
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
        uses_sql: whether to start with the archive that has the classes of SQL; without it SQL takes seconds to begin.
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
    uses_sql: bool = False
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
    def slots(self) -> int:
        """How many tasks run at one time."""
        return self.lanes + self.batch_slots

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, under the driver's own JVM."""
        return is_local(self.master)


def archive_for(settings: SessionSettings, java: Path) -> Path:
    """Returns where the class-data archive for these settings lies, whether it exists or not."""
    folder = settings.cache_folder or class_archive.cache_folder()
    return class_archive.archive_path(folder, java=java, jars=jars_folder(), flags=archive_flags(settings))


def archive_flags(settings: SessionSettings) -> tuple[str, ...]:
    """Returns the flags that an archive is made for: one holds the classes of SQL, and one does without them.

    The JVM maps an archive with a good part of what its readers never ask for: where nobody uses SQL, 40 MB.
    """
    # The property says nothing to anybody; it tells the one archive from the other.
    return (*ARCHIVE_FLAGS, f"-Dmirrorlake.sql={str(settings.uses_sql).lower()}")


def jars_folder() -> Path:
    """Returns where Spark's jars lie."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def jvm_flags(settings: SessionSettings, java: Path) -> tuple[str, ...]:
    """Returns the JVM's options, without heap, folder and logging."""
    archive = class_archive.use_options(archive_for(settings, java)) if settings.class_archive else ()
    return (*archive_flags(settings), *HEAP_FLAGS, *class_archive.QUIET, *archive)


def spark_conf(settings: SessionSettings, folder: Path, flags: tuple[str, ...]) -> dict[str, str]:
    """Returns all Spark settings of a session.

    Args:
        settings: what the user chose.
        folder: short-lived and short, for sockets and temporary files.
        flags: the JVM's options.
    """
    is_tls = settings.spark_conf.get("spark.ssl.rpc.enabled") == "true"
    options = [*flags, f"-Djava.io.tmpdir={folder}", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    conf = {
        "spark.app.name": settings.app_name,
        # local[n] alone never repeats a task, and a lease whose worker died must come back as "retried".
        "spark.master": settings.master or f"local[{settings.slots},{_TASK_ATTEMPTS}]",
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
        if settings.ui_port is None and settings.event_log is None:
            # With each heartbeat the JVM measures itself twice, for a page and a log that are not there.
            conf["spark.executor.heartbeatInterval"] = "30s"
        # On a cluster this folder is not there: sockets lie where an executor's temporary files do.
        conf["spark.python.unix.domain.socket.dir"] = str(folder)
        return conf | dict(settings.spark_conf) | _AUTHENTICATED
    assert settings.master is not None
    more = cluster_conf(
        settings.master,
        slots=settings.slots,
        attempts=_TASK_ATTEMPTS,
        preload=",".join(settings.preload),
        given=settings.spark_conf,
    )
    return conf | more | _AUTHENTICATED | (_DISKS if is_tls else _ENCRYPTED)


def jvm_environment(settings: SessionSettings, folder: Path) -> dict[str, str]:
    """Returns the environment of the JVM, and so of the Python workers."""
    environ = dict(os.environ)
    # Spark's launcher is a JVM of its own that lives a quarter of a second.
    environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData")
    environ["PYSPARK_PYTHON"] = worker_python(settings)
    environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environ[PRELOAD_VARIABLE] = ",".join(settings.preload)
    # The workers' parent imports numpy before it forks: it must start no threads that a fork would lose.
    environ["OPENBLAS_NUM_THREADS"] = "1"
    environ["SPARK_LOCAL_DIRS"] = str(folder)
    # Where Spark's page listens. What executors connect to is `spark.driver.host`.
    if settings.is_local or settings.ui_port is not None:
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environ


def worker_python(settings: SessionSettings) -> str:
    """Returns what Spark starts as Python: on one machine the one that runs this."""
    return sys.executable if settings.is_local else python_of(settings.spark_conf)
