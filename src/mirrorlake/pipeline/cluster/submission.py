"""The JVM of `spark-submit`, where that has started this process: what it was told, and its end.

Spark is not run in that JVM. It would be our parent, and a signal to it would end it in the middle of a flush; so the
session gets a JVM of its own as always (`jvm.py`), and this one waits. Two shutdown hooks are put into it: one tells
this process, which then ends in order, the other waits for that. Both are made of the JDK's own classes, over Py4J.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from mirrorlake.errors import ConfigurationError

# How `spark-submit` tells a program where its gateway is, and what to say there.
_GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def check_version(submitted: str, installed: str) -> None:
    """Checks that both are the same Spark.

    Args:
        submitted: the version of the Spark whose `spark-submit` was called.
        installed: that of the PySpark beside this package.

    Raises:
        ConfigurationError: they differ.
    """
    if submitted != installed:
        raise ConfigurationError(
            f"spark-submit is of Spark {submitted}, and mirrorlake is installed with PySpark {installed}",
            hint="call the spark-submit of that PySpark, in bin/ of its environment, or install the version of Spark "
            "that the cluster has",
        )


class Submission:
    """What `spark-submit` was told, and how it ends. Made by `begin_submission`.

    Args:
        gateway: PySpark's gateway to its JVM.
        environ: the variables by which it told of itself.

    Attributes:
        spark_version: that it is of.
        settings: all settings of Spark that it has.
        environ: as given.
    """

    def __init__(self, gateway: Any, environ: Mapping[str, str]) -> None:
        self._jvm = gateway.jvm
        self.environ = environ
        self.spark_version = str(self._jvm.org.apache.spark.package.SPARK_VERSION())
        self.settings = {str(each._1()): str(each._2()) for each in self._jvm.org.apache.spark.SparkConf().getAll()}

    def follow(self) -> None:
        """From now on this process hears of the end of `spark-submit`, and that waits for this one's."""
        ending = self._jvm.java.util.concurrent.CountDownLatch(1)
        ended = self._jvm.java.lang.ProcessHandle.of(os.getpid()).get().onExit()
        self._at_shutdown(ending, "countDown", self._jvm.java.lang.Void.TYPE)
        self._at_shutdown(ended, "join", self._class("java.lang.Object"))
        threading.Thread(target=self._wait, args=(ending,), name="spark-submit", daemon=True).start()

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def _at_shutdown(self, receiver: Any, method: str, returned: Any) -> None:
        """Has the JVM call a method without arguments, in a thread of its own, when it is asked to end."""
        invoke, lang = self._jvm.java.lang.invoke, self._jvm.java.lang
        handle = invoke.MethodHandles.publicLookup().bind(receiver, method, invoke.MethodType.methodType(returned))
        task = invoke.MethodHandleProxies.asInterfaceInstance(self._class("java.lang.Runnable"), handle)
        lang.Runtime.getRuntime().addShutdownHook(lang.Thread(task))

    @staticmethod
    def _wait(ending: Any) -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            getattr(ending, "await")()
        except (Py4JError, OSError):  # it was killed
            _drop_output()
        ask_to_stop()


def ask_to_stop() -> None:
    """Asks this process for a graceful stop.

    By SIGHUP, which `StopSignal` does not count: whoever signals `spark-submit` often signals all its processes, and a
    second SIGTERM would end this one at once. Where `nohup` has it ignored, by SIGTERM.
    """
    is_heard = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGHUP if is_heard else signal.SIGTERM)


def _drop_output() -> None:
    """Lets go of stdout and stderr, which nobody reads any more: a write would fail in the midst of a graceful stop."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


_begun: Submission | None = None


def begin_submission() -> Submission | None:
    """Returns the `spark-submit` that has started this process; None where none has.

    From then on `submitted_settings` knows it, and nothing that this process starts is told of its gateway.

    Raises:
        ConfigurationError: it is of another version of Spark.
    """
    global _begun
    if not all(name in os.environ for name in _GATEWAY):
        return None
    from importlib.metadata import version

    from pyspark.java_gateway import launch_gateway

    found = Submission(launch_gateway(), {name: os.environ[name] for name in _GATEWAY})
    check_version(found.spark_version, version("pyspark"))
    for name in _GATEWAY:
        del os.environ[name]
    _begun = found
    return found


def submitted_environ() -> Mapping[str, str]:
    """Returns the variables that tell of the `spark-submit` this process was begun with, for its next start."""
    return _begun.environ if _begun is not None else {}


def submitted_settings() -> Mapping[str, str] | None:
    """Returns the settings of the `spark-submit` that this process was begun with; None where it was begun without.

    Its variables in the environment say less: whoever calls the command in a program of `spark-submit` has them too.
    """
    return _begun.settings if _begun is not None else None
