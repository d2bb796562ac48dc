"""One lease: a Spark job with a single Python task, whose every outcome comes back as rows."""

import contextlib
import importlib
import itertools
import os
import pickle
import socket
import traceback
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError, TransientError
from mirrorlake.pipeline.cluster.identity import executor_id
from mirrorlake.pipeline.settled_objects import SettledObjects
from mirrorlake.watchdog import watchdog

LeaseRow = dict[str, object]
"""One fact from a task. ``kind`` says which; ``worker_pid`` and ``attempt`` are added to each."""

CRASHED = "crashed"
"""Kind of a row for an exception that left the work: ``error_type``, ``message``, ``traceback``."""
RETRIED = "retried"
"""Kind of the only row of a task that Spark started again: what the first attempt did is unknown."""
LOST_ON = "lost_on"
"""In a row of kind `RETRIED`: the executor of the first attempt, for messages; only where it is known."""
UNCHECKED = "unchecked"
"""Kind of the only row of a task that came to an executor nobody has looked at yet: ``host``. It did nothing."""

_TRACEBACK_FRAMES_MAX = 8
_MESSAGE_CHARACTERS_MAX = 2_000
_NOT_SAID = ("at ", "... ", "An error occurred while calling")
_AFTER_CAUSE = ("at ", "... ", "Caused by: ", "Driver stacktrace", "PYTHONPATH was")
JOB_TAGS = "spark.job.tags"
"""The property of a thread whose jobs bear these tags."""

_COMPRESSION_LEVEL = 1  # Level 6 takes eight times as long for one part in twenty less.
_SETTLED = SettledObjects()  # of a Python worker


class EngineDiedError(TransientError):
    """The JVM under this process is gone; no session of this process can be used again."""


@contextlib.contextmanager
def jvm_answers(*, lease: str | None = None) -> Iterator[None]:
    """Makes of what a JVM that is gone does to the block the error of a dead engine.

    Args:
        lease: a fact of that error, where it is about one.

    Raises:
        EngineDiedError: the JVM is gone.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    try:
        yield
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        said = f"Spark's JVM does not answer: {error}"
        raise (EngineDiedError(said) if lease is None else EngineDiedError(said, lease=lease)) from error


def run_lease(
    spark: Any,
    work: str,
    plan: bytes,
    *,
    description: str,
    seconds_max: float | None = None,
    place: str = "",
    executors: Collection[str] | None = None,
    tag: str = "",
) -> list[LeaseRow]:
    """Runs ``work(plan)`` in one Python worker and returns its rows.

    Order of effects: the worker imports the work, calls it once, then its rows travel as pickled bytes, so
    no content of theirs can disagree with a schema. Spark repeats a task whose worker died: the repeated one
    does nothing and returns one row of kind :data:`RETRIED`, because the work may have written already.
    The plan, which may hold secrets, reaches the worker as the data of the task's partition: never on a disk,
    never in a block that Spark's block manager would serve.

    Args:
        spark: the session; this thread's job description is set on it.
        work: ``module:function`` of a function from plan bytes to mappings that can be pickled.
        plan: given to the function as it is.
        description: shown as the job's description.
        seconds_max: the worker ends itself, hard, when the work has not returned after so many seconds; none
            means never. It is meant for work that hangs, not for work that is late: nothing is closed.
        place: where Spark should run it if it can, as its scheduler writes places; anywhere where left out.
        executors: ids of those on which it may run; on another one it does nothing and returns one row of kind
            :data:`UNCHECKED`. On any where left out, and where a worker cannot tell whose it is.
        tag: of its job, by which another thread may end it; this thread's later jobs have it until they get another.

    Raises:
        OutcomeUnknownError: Spark gave the job up; the work may have written something.
        EngineDiedError: the JVM is gone; the same holds.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with jvm_answers(lease=description):
            spark.sparkContext.setJobDescription(description)
            if tag:
                spark.sparkContext.setLocalProperty(JOB_TAGS, tag)
            order = order_bytes(work, plan, seconds_max, executors)
            found = _as_partition(spark.sparkContext, order, place).mapPartitions(serve).collect()
    except (PySparkException, Py4JJavaError, Py4JError) as error:
        cause = java_cause(str(error))
        raise OutcomeUnknownError(f"Spark gave up a lease: {cause}", lease=description) from error
    return [{**pickle.loads(row), "worker_pid": pid, "attempt": attempt} for row, pid, attempt in found]


def order_bytes(work: str, plan: bytes, seconds_max: float | None, executors: Collection[str] | None = None) -> bytes:
    """Returns all that a task is told; of plans of many partitions, which are alike, an eighth is left."""
    allowed = None if executors is None else frozenset(executors)
    order = pickle.dumps((work, plan, seconds_max, allowed), protocol=pickle.HIGHEST_PROTOCOL)
    return zlib.compress(order, level=_COMPRESSION_LEVEL)


def _as_partition(context: Any, order: bytes, place: str) -> Any:
    """Returns an RDD of one partition that holds ``order`` as its only row.

    Not in the task's closure, which is the same for every lease: Spark broadcasts closures, and PySpark writes one
    above a megabyte to disk. Nor by ``SparkContext.parallelize``, which writes its data to a file for the JVM to read.
    An RDD and not a DataFrame: there is nothing to plan, optimise and compile for one row, and that took two thirds
    of the JVM's time for a lease.
    """
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    rows = _placed(context, order, place) if place else context._jsc.parallelize([bytearray(order)], 1)
    return RDD(rows, context, NoOpSerializer())


def _placed(context: Any, order: bytes, place: str) -> Any:
    """Returns the same with a preferred place, which Java's door to Spark does not take."""
    jvm = context._jvm
    places, rows = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    places.add(place)
    rows.add(jvm.scala.Tuple2(bytearray(order), as_scala(places).toSeq()))
    return context._jsc.sc().makeRDD(as_scala(rows).toSeq(), jvm.scala.reflect.ClassTag.Any()).toJavaRDD()


def serve(orders: Iterator[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yields the work's rows, each pickled, with process id and attempt; runs in the Python worker. Raises nothing."""
    from pyspark import TaskContext

    _SETTLED.lease_begins()
    (order,) = orders
    work, plan, seconds_max, executors = pickle.loads(zlib.decompress(order))
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    if attempt > 0:
        rows = [_pickled({"kind": RETRIED})]
    elif executors is not None and executor_id() not in {"", *executors}:
        rows = [_pickled({"kind": UNCHECKED, "host": socket.gethostname()})]
    else:
        rows = rows_of(work, plan, seconds_max)
    for row in rows:
        yield row, os.getpid(), attempt


def rows_of(work: str, plan: bytes, seconds_max: float | None) -> list[bytes]:
    """Calls ``work(plan)`` and returns its rows, each pickled, and one of kind `CRASHED` for what it raises.

    With ``seconds_max`` this process ends, hard, when the work has not returned after so many seconds.
    """
    rows: list[bytes] = []
    try:
        with watchdog(seconds_max):
            for row in _produced(work, plan):
                rows.append(_pickled(row))  # One by one: rows before an exception are kept.
    except BaseException as error:  # noqa: BLE001  Whatever it is: left to Spark, it would repeat the task.
        rows.append(_pickled(_crash(error)))
    return rows


def _produced(work: str, plan: bytes) -> Iterable[Mapping[str, object]]:
    module, _, function = work.partition(":")
    produced: Iterable[Mapping[str, object]] = getattr(importlib.import_module(module), function)(plan)
    return produced


def _pickled(row: Mapping[str, object]) -> bytes:
    return pickle.dumps(dict(row), protocol=pickle.HIGHEST_PROTOCOL)


def _crash(error: BaseException) -> LeaseRow:
    frames = traceback.format_exception(type(error), error, error.__traceback__, limit=-_TRACEBACK_FRAMES_MAX)
    return {
        "kind": CRASHED,
        "error_type": type(error).__name__,
        "message": str(error)[:_MESSAGE_CHARACTERS_MAX],
        "is_transient": isinstance(error, TransientError) if isinstance(error, MirrorlakeError) else None,
        "traceback": "".join(frames),
    }


def java_cause(text: str) -> str:
    """Returns on one line what failed in the JVM, and the first cause of it, of what Py4J or Spark says.

    Py4J's own first line names the call only, and Java's causes come after many lines of stack. A line that ends with a
    colon announces what failed, as a worker's last words: all up to the stack belongs to it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((n for n, line in enumerate(lines) if not line.startswith(_NOT_SAID)), 0)
    found = lines[first].removeprefix(": ") if lines else "it says nothing"
    if found.endswith(":"):
        announced = itertools.takewhile(lambda line: not line.startswith(_AFTER_CAUSE), lines[first + 1 :])
        found = " ".join([found, *announced])
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes and causes[-1] not in found:
        found = f"{found}; caused by {causes[-1]}"
    return found[:_MESSAGE_CHARACTERS_MAX]
