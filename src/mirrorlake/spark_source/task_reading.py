"""What one Spark task does: it reads its pieces one after the other, wherever they lie."""

import socket
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from mirrorlake.errors import MirrorlakeError, RequestTimeoutError, StoreUnavailableError
from mirrorlake.pipeline.cluster.check import unreadable_here
from mirrorlake.pipeline.cluster.executors import ExecutorUnusableError
from mirrorlake.pipeline.cluster.needs import Needs, needs_for
from mirrorlake.spark_source.bounded_reading import bounded
from mirrorlake.spark_source.columns import CONSTANT
from mirrorlake.spark_source.request import ReadOptions
from mirrorlake.spark_source.selection import ALL, Selection
from mirrorlake.spark_source.tasks import Piece


class Task(InputPartition):  # type: ignore[misc]  # PySpark's types are not looked at
    """What one Spark task reads: pieces, one after the other, on a host that has what is needed for that."""

    def __init__(self, pieces: Sequence[Piece], needs: Needs) -> None:
        super().__init__(tuple(pieces))
        self.needs = needs


def read_needs(options: ReadOptions) -> Needs:
    """Returns what hosts need to read the same as this one; secrets of variables come with the reader."""
    return replace(needs_for([options.place]), variables=())


def read_task(
    options: ReadOptions, names: Sequence[str], task: InputPartition, selection: Selection = ALL
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task; none of one without pieces, as Spark makes it where nothing was planned.

    Executors of a session that is not ours are looked at by nobody, and ours run queries before they were: so each task
    looks at its host itself. Where it fails, Spark tries it on another one. So it does where nothing comes for the
    time of ``options``, as a filesystem or a store does not answer.

    Raises:
        ExecutorUnusableError: this host lacks something, or has another folder where the archive should be.
        MirrorlakeError: something could not be read, or does not come.
    """

    def too_late() -> MirrorlakeError:
        kind = RequestTimeoutError if options.is_live else StoreUnavailableError
        return kind(
            f"nothing came of what a task reads on {socket.gethostname()} for {options.read_seconds_max:g} s",
            hint="see whether brokers, store or filesystem answer there; `readTimeout` (of `mirrorlake sql` "
            "`--read-timeout`) waits longer",
        )

    yield from bounded(_rows(options, names, task, selection), options.read_seconds_max, too_late=too_late)


def _rows(
    options: ReadOptions, names: Sequence[str], task: InputPartition, selection: Selection
) -> Generator[pa.RecordBatch]:
    pieces = task.value or ()
    if isinstance(task, Task) and (wrong := unreadable_here(task.needs)):
        raise ExecutorUnusableError(
            f"the executor on {socket.gethostname()} cannot read this: {'; '.join(wrong)}",
            hint="see docs/cluster.md: what executors need",
        )
    # Each loads its half only: Kafka's client and the compiled kernels are no part of reading Parquet.
    if options.is_live:
        from mirrorlake.spark_source.kafka_reading import read_live

        yield from read_live(options.cluster, pieces, names)
        return
    from mirrorlake.spark_source.archive_reading import ArchiveReading
    from mirrorlake.stores.opening import open_store

    reading = ArchiveReading(store=open_store(options.store), names=names, selection=selection)
    if CONSTANT.issuperset(names):
        from mirrorlake.spark_source.counting import counted_rows

        yield from counted_rows(reading, pieces)
        return
    for piece in pieces:
        yield from reading.read(piece)
