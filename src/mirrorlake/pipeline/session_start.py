"""Starts a JVM and a Spark session on it: on one machine, or on the executors of a cluster."""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from mirrorlake.errors import JavaUnusableError, MirrorlakeError, StartStoppedError
from mirrorlake.java import find_java
from mirrorlake.pipeline.cluster.executors import ExecutorUnusableError
from mirrorlake.pipeline.cluster.looks import say_ready
from mirrorlake.pipeline.cluster.master import MasterWatch, is_standalone, standing_at
from mirrorlake.pipeline.cluster.start import fit_executors
from mirrorlake.pipeline.cluster.watch import ExecutorWatch
from mirrorlake.pipeline.jvm import Jvm, start_jvm
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.lease_job import java_cause
from mirrorlake.pipeline.pyspark_globals import end_quietly, forget_gateway, pass_no_numpy_values
from mirrorlake.pipeline.run_folder import RunFolder
from mirrorlake.pipeline.session import EngineSession, Jobs
from mirrorlake.pipeline.settings import SessionSettings, jvm_environment, jvm_flags, spark_conf, worker_python
from mirrorlake.pipeline.start_checks import check_page, check_settings

_POLL_SECONDS = 0.1


def build_session(settings: SessionSettings, *, more_jvm_flags: tuple[str, ...] = ()) -> EngineSession:
    """Starts a JVM and a Spark session on it; only one may live in a process.

    The JVM is deaf to SIGTERM, SIGINT and SIGHUP, and the handlers of this process stay as they are.

    Args:
        settings: what the user chose.
        more_jvm_flags: for the maker of class-data archives.

    Raises:
        JavaUnusableError: Java is missing, unusable, or Spark did not start on it.
        ExecutorUnusableError: a cluster has no executors, or they lack what leases need.
        ConfigurationError: a secret of Spark's cannot be read, or the event log or Spark's page cannot be where it is
            wanted.
        StartStoppedError: the process was asked to stop meanwhile.
    """
    from pyspark import SparkContext

    check_settings(settings)
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
        jobs = _connect(jvm, conf | secrets, settings, give_up_at)
        check_page(settings, jobs.sparkContext.uiWebUrl)
        watch = None if settings.is_local else _look_at_executors(jobs, settings, give_up_at)
    except BaseException:
        if jvm is not None:
            jvm.stop(0.0)
        forget_gateway()
        folder.close()
        raise
    lease_files = LeaseFiles(folder.path if settings.is_local else None)
    master = _watch_master(jobs, jvm, watch, settings) if watch is not None else None
    return EngineSession(jobs, jvm, folder, lease_files, watch, master, slots=settings.slots)


def _watch_master(jobs: Jobs, jvm: Jvm, executors: ExecutorWatch, settings: SessionSettings) -> MasterWatch | None:
    """Returns who ends the session, as if its JVM had died, where a standalone master has forgotten it."""
    master = settings.master
    if master is None or not is_standalone(master):
        return None
    return MasterWatch(lambda: executors.has_any, lambda: standing_at(jobs, master), jvm.kill)


def _connect(jvm: Jvm, conf: Mapping[str, str], settings: SessionSettings, give_up_at: float) -> Jobs:
    """Returns the door to Spark. Whoever gives up waiting ends the JVM next, and so the thread that is left here."""
    # In a thread of its own, because SparkContext takes SIGINT over when it is made in the main thread, and because
    # it waits for a cluster's master as long as it likes.
    starter = ThreadPoolExecutor(1, "spark-start")
    try:
        starting = starter.submit(_make_context, jvm, conf, worker_python(settings))
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
            f"no session on Spark's master {settings.master} after {settings.cluster_timeout_seconds:.0f} s",
            hint="where the master's log knows this program, it was only slow: raise `engine.start-timeout`; else see "
            "whether it is there, reachable from here, and of the same secret and version of Spark",
        )


def _make_context(jvm: Jvm, conf: Mapping[str, str], python: str) -> Jobs:
    from pyspark import SparkConf, SparkContext

    pass_no_numpy_values()
    os.environ["PYSPARK_PYTHON"] = python
    gateway = jvm.connect()
    context = SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm).setAll(list(conf.items())))
    end_quietly(context._accumulatorServer)
    return Jobs(context)


def _look_at_executors(jobs: Jobs, settings: SessionSettings, give_up_at: float) -> ExecutorWatch:
    """Waits for the executors of a cluster and looks at them; returns who looks at those that come later."""
    assert settings.master is not None
    python = worker_python(settings)
    checked = fit_executors(
        jobs,
        settings.needs,
        master=settings.master,
        slots=settings.slots,
        python=python,
        give_up_at=give_up_at,
        seconds_max=settings.cluster_timeout_seconds,
        is_stopping=settings.is_stopping,
    )
    say_ready(checked)
    return ExecutorWatch(jobs, checked, settings.needs, python=python)
