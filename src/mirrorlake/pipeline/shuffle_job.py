"""A shuffle: tasks that each read a part of something, and tasks that each take all blocks of some buckets.

What travels between the two are blocks of bytes, none large, which Spark writes to disk, brings together by their
bucket, and sorts there by what they say of their order; so neither the data of a bucket nor a block's content is ever
held by the JVM. Tasks must bear to be run again, even while they still run: Spark repeats them where a worker or an
executor is lost.
"""

import importlib
import itertools
import pickle
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mirrorlake.errors import ExecutorUncheckedError, OutcomeUnknownError
from mirrorlake.pipeline.cluster.identity import executor_id
from mirrorlake.pipeline.lease_job import JOB_TAGS, LeaseRow, java_cause, jvm_answers
from mirrorlake.pipeline.task_bounds import TASK_SECONDS
from mirrorlake.watchdog import watchdog

Block = tuple[int, int, int, bytes]
"""Bucket, and two numbers by which the blocks of a bucket are sorted; then the bytes, a megabyte or so."""

ReadWork = Callable[[bytes], Iterable[Block]]
MergeWork = Callable[[Iterator[Block], Sequence[bytes]], Iterable[Mapping[str, object]]]

PLANS_BYTES_MAX = 900_000
"""PySpark writes the code of a task to disk where it is above a megabyte, and plans with it."""

_SCHEMA = "bucket int, major int, minor int, data binary"


def run_shuffle(
    jobs: Any,
    read: str,
    merge: str,
    orders: Sequence[bytes],
    *,
    plans: Sequence[bytes],
    description: str,
    executors: Collection[str] | None = None,
    read_seconds_max: float = TASK_SECONDS,
    merge_seconds_max: float = TASK_SECONDS,
    tag: str = "",
) -> list[LeaseRow]:
    """Runs ``read`` of each order, and ``merge`` of the blocks of all buckets; returns the rows of the latter.

    Orders, which may hold secrets, reach their tasks as the data of the tasks' partitions, as leases' plans do, and
    plans with the code of theirs: neither is among the blocks, which lie on disk.

    A task that comes to an executor it may not run on does nothing and fails, and Spark tries it on another one: twice
    at most on the same (``spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor``), four times in all.

    Args:
        jobs: the door to Spark; a shuffle is SQL's.
        read: ``module:function`` from an order to blocks.
        merge: ``module:function`` from the blocks of some buckets, in the order of buckets and of both numbers, and
            the plans of all, to mappings that can be pickled.
        orders: one task each.
        plans: one for each bucket, which blocks name from 0 on; `PLANS_BYTES_MAX` together.
        description: shown as the job's description.
        executors: ids of those on which tasks may run; on any where left out, and where a worker cannot tell whose it
            is.
        read_seconds_max: a worker that has not read an order after so many seconds ends itself, hard, and Spark tries
            its task elsewhere.
        merge_seconds_max: the same for the blocks that one task merges.
        tag: of its jobs, by which another thread finds them; this thread's later jobs have it until they get another.

    Raises:
        ExecutorUncheckedError: Spark gave the job up because a task came to other executors again and again; other
            tasks may have written something.
        OutcomeUnknownError: Spark gave the job up; tasks may have written something.
        EngineDiedError: the JVM is gone; the same holds.
    """
    assert sum(map(len, plans)) <= PLANS_BYTES_MAX, "PySpark would write them to disk"
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with jvm_answers(lease=description):
            jobs.sparkContext.setJobDescription(description)
            if tag:
                jobs.sparkContext.setLocalProperty(JOB_TAGS, tag)
            allowed = None if executors is None else frozenset(executors)
            blocks = _shuffled(jobs, _ReadTask(read, allowed, read_seconds_max), orders, len(plans))
            found = blocks.rdd.mapPartitions(_MergeTask(merge, plans, allowed, merge_seconds_max)).collect()
    except (PySparkException, Py4JJavaError, Py4JError) as error:
        if ExecutorUncheckedError.__name__ in str(error):
            said = f"tasks came to executors that were not looked at, and Spark gave a job up: {java_cause(str(error))}"
            raise ExecutorUncheckedError(said, lease=description) from error
        raise OutcomeUnknownError(f"Spark gave up a job: {java_cause(str(error))}", lease=description) from error
    return [pickle.loads(row) for row in found]


def _shuffled(jobs: Any, read: "_ReadTask", orders: Sequence[bytes], buckets: int) -> Any:
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    context = jobs.sparkContext
    rows = context._jsc.parallelize([bytearray(order) for order in orders], len(orders))
    blocks = RDD(rows, context, NoOpSerializer()).mapPartitions(read)
    frame = jobs.session.createDataFrame(blocks, _SCHEMA, verifySchema=False)
    return frame.repartitionById(buckets, "bucket").sortWithinPartitions("bucket", "major", "minor")


def shuffled_in_process(read: str, merge: str, orders: Sequence[bytes], *, plans: Sequence[bytes]) -> list[LeaseRow]:
    """Does the same without Spark, everything in memory; for tests of everything that is not Spark's."""
    blocks = sorted(_ReadTask(read)(iter(orders)), key=lambda block: block[:3])
    assert all(0 <= bucket < len(plans) for bucket, *_ in blocks)
    merged = (
        _MergeTask(merge, plans)(iter(list(found)))
        for _, found in itertools.groupby(blocks, key=lambda block: block[0])
    )
    return [pickle.loads(row) for rows in merged for row in rows]


class _ReadTask:
    """Reads the orders of a task, in the Python worker of one of some executors."""

    def __init__(self, work: str, executors: frozenset[str] | None = None, seconds_max: float | None = None) -> None:
        self._work = work
        self._executors = executors
        self._seconds_max = seconds_max

    def __call__(self, orders: Iterator[bytes]) -> Iterator[Block]:
        _check_executor(self._executors)
        work: ReadWork = _imported(self._work)
        with watchdog(self._seconds_max):
            for order in orders:
                yield from work(bytes(order))


class _MergeTask:
    """Merges the blocks of a task, in the Python worker of one of some executors.

    Its rows travel pickled, so that no schema stands between.
    """

    def __init__(
        self,
        work: str,
        plans: Sequence[bytes],
        executors: frozenset[str] | None = None,
        seconds_max: float | None = None,
    ) -> None:
        self._work = work
        self._plans = tuple(plans)
        self._executors = executors
        self._seconds_max = seconds_max

    def __call__(self, rows: Iterator[Any]) -> Iterator[bytes]:
        _check_executor(self._executors)
        work: MergeWork = _imported(self._work)
        blocks = ((int(bucket), int(major), int(minor), bytes(data)) for bucket, major, minor, data in rows)
        with watchdog(self._seconds_max):
            for row in work(blocks, self._plans):
                yield pickle.dumps(dict(row), protocol=pickle.HIGHEST_PROTOCOL)


def _check_executor(executors: frozenset[str] | None) -> None:
    """Raises on an executor that is none of some: the task fails there, and Spark tries it elsewhere."""
    if executors is not None and executor_id() not in {"", *executors}:
        raise ExecutorUncheckedError(
            f"a task came to an executor on {socket.gethostname()} that was not looked at yet, and did nothing"
        )


def _imported(work: str) -> Any:
    module, _, function = work.partition(":")
    return getattr(importlib.import_module(module), function)
