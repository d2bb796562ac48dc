"""The data source ``mirrorlake`` as Spark knows it: it makes readers, which plan on the driver and read in tasks.

Spark runs each of these in processes of its own: nothing is shared but what is pickled from one to the next, and each
loads what it is made of. So what only some of them need is loaded where it is needed: configuration files' models,
Kafka's client and compiled kernels cost a second together.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mirrorlake.errors import ConfigurationError
from mirrorlake.spark_source.columns import CONSTANT, SPARK_TYPES, schema_of, spark_ddl
from mirrorlake.spark_source.pushdown import selection_of
from mirrorlake.spark_source.request import ReadOptions
from mirrorlake.spark_source.selection import ALL, Selection
from mirrorlake.spark_source.task_reading import Task, read_needs, read_task
from mirrorlake.spark_source.tasks import (
    FILE_COST_BYTES,
    NO_LIMIT,
    TASK_BYTES_MAX,
    Piece,
    grouped,
    grouped_for_counting,
    split,
)

if TYPE_CHECKING:
    from mirrorlake.spark_source.streams import MirrorlakeStreamReader

FORMAT = "mirrorlake"


class MirrorlakeSource(DataSource):  # type: ignore[misc]  # PySpark's types are not looked at
    """Reads archives and live Kafka: ``spark.read.format("mirrorlake")``; options in ``docs/spark.md``."""

    slots: int | None = None
    """Of the session it was registered with; see `with_slots`."""

    _batch_options: ReadOptions | None = None

    @classmethod
    def name(cls) -> str:
        """Returns what follows ``format``."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns asked for, all where none are named.

        Raises:
            ConfigurationError: the options cannot be used.
        """
        return spark_ddl(self._of_batch().columns)

    def _of_batch(self) -> ReadOptions:
        """Returns what the options say, read once: the process that plans is handed what the first one read."""
        if self._batch_options is None:
            self._batch_options = _parsed(self.options, self.slots)
        return self._batch_options

    def reader(self, schema: StructType) -> "MirrorlakeReader":
        """Returns what reads a batch.

        Raises:
            ConfigurationError: the options cannot be used, or the schema has other columns or types.
        """
        options = self._of_batch()
        kind = FilteredReader if options.takes_filters else MirrorlakeReader
        return kind(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> "MirrorlakeStreamReader":  # noqa: N802  Spark's name
        """Returns what reads a stream.

        Raises:
            ConfigurationError: the options cannot be used, or the schema has other columns or types.
        """
        from mirrorlake.spark_source.streams import MirrorlakeStreamReader

        # Read anew: a stream may be started long after it was loaded, and secrets change.
        return MirrorlakeStreamReader(_parsed(self.options, self.slots), columns_of(schema))


def with_slots(slots: int) -> type[MirrorlakeSource]:
    """Returns the source for a session of so many slots.

    The process that plans is another one than the session's, and is handed nothing but the class.
    """
    return type(MirrorlakeSource.__name__, (MirrorlakeSource,), {"slots": slots, "__doc__": MirrorlakeSource.__doc__})


def _parsed(options: dict[str, str], slots: int | None) -> ReadOptions:
    from mirrorlake.spark_source.options import read_options

    return read_options(options, slots=slots)


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Returns the columns of a schema that the user may have chosen.

    Raises:
        ConfigurationError: other columns than there are, or other types than they have.
    """
    names = tuple(schema.fieldNames())
    wanted = schema_of(names)
    for found, expected in zip(to_arrow_schema(schema, timezone="UTC"), wanted, strict=True):
        if not found.type.equals(expected.type):
            raise ConfigurationError(
                f"the column {found.name!r} is of type {SPARK_TYPES[found.name]}, and the schema says otherwise",
                hint=f"name columns in the option columns, or write the schema as {spark_ddl(names)}",
            )
    return names


class MirrorlakeReader(DataSourceReader):  # type: ignore[misc]  # PySpark's types are not looked at
    """Plans and reads one batch.

    Args:
        options: what to read.
        names: of the columns, in order.
    """

    def __init__(self, options: ReadOptions, names: Sequence[str]) -> None:
        self._options = options
        self._names = tuple(names)
        self._selection = ALL

    def partitions(self) -> list[InputPartition]:
        """Returns the tasks; asks the store or the cluster what there is.

        Raises:
            MirrorlakeError: a topic is missing, the archive is broken, or it could not be asked.
        """
        options = self._options
        needs = read_needs(options)
        if options.is_live:
            from mirrorlake.spark_source.kafka_plan import plan_live

            live = split(plan_live(options, self._selection), tasks=options.tasks)
            return [Task(pieces, needs) for pieces in grouped(live, tasks=options.tasks, cost_max=NO_LIMIT)]
        pieces = planned_archive(options, self._selection)
        if CONSTANT.issuperset(self._names):
            return [Task(each, needs) for each in grouped_for_counting(pieces, tasks=options.tasks)]
        tasks = grouped(pieces, tasks=options.tasks, cost_max=TASK_BYTES_MAX, piece_cost=FILE_COST_BYTES)
        return [Task(pieces, needs) for pieces in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task.

        Raises:
            MirrorlakeError: something could not be read.
        """
        return read_task(self._options, self._names, partition, self._selection)


def planned_archive(options: ReadOptions, selection: Selection = ALL) -> list[Piece]:
    """Returns the pieces of an archive that may be wanted, in order; asks the store what there is.

    Raises:
        MirrorlakeError: a topic is missing, the archive is broken, or it could not be asked.
    """
    from mirrorlake.spark_source.archive_plan import find_partitions, plan_batch
    from mirrorlake.stores.opening import open_store

    store = open_store(options.store)
    found = find_partitions(
        store, options.names, options.patterns, are_snapshots=options.are_snapshots, selection=selection
    )
    return list(plan_batch(store, found, starting=options.starting, ending=options.ending, selection=selection))


class FilteredReader(MirrorlakeReader):
    """Leaves out what a query's filters do.

    Spark 4.3 keeps what it planned with filters in the DataFrame's relation, where its other queries, and other
    branches of the same one, find it in place of their own (decision 0187). So this is for a DataFrame that one query
    reads in one place.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Notes what rows can be wanted; returns all filters, as Spark is to look at each row once more."""
        self._selection = selection_of(filters, self._names)
        return filters
