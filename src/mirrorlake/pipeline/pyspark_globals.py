"""What PySpark keeps for a whole process: its gateway to a JVM, its session, its converters and its server."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from mirrorlake.pipeline.jvm import Jvm

_log = structlog.get_logger(__name__)


def pass_no_numpy_values() -> None:
    """Takes away what makes Java's of numpy's values: we pass none, and to ask whether something is one costs dearly.

    The first call of a JVM method with an argument would import ``pyspark.testing``, and with it pandas and unittest: a
    second of the start, and 40 MB (PySpark 4.0 and 4.1, ``NumpyScalarConverter.can_convert``).
    """
    from py4j import protocol  # type: ignore[import-untyped]
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    costly = (NumpyArrayConverter, NumpyScalarConverter)
    protocol.INPUT_CONVERTER[:] = [each for each in protocol.INPUT_CONVERTER if not isinstance(each, costly)]


def end_quietly(accumulators: Any) -> None:
    """Makes PySpark's server for accumulators say nothing when the JVM at its other end is gone.

    It takes that for an error, and writes a traceback to stderr: at the end of a session, where the JVM ends before
    the server has looked whether it should, and when a JVM dies, which is said elsewhere.
    """
    said = accumulators.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            said(request, address)

    accumulators.handle_error = handle_error


def stop_spark(spark: Any, jvm: Jvm, timeout_seconds: float) -> None:
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


def forget_gateway() -> None:
    """Makes PySpark forget a JVM that is gone; it would try to use it for the next session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
