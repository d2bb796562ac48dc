"""Tables of a query that asks for no column of the records: an archive's files tell how many there are by their ends.

Such a table is given to Spark as ranges of its JVM, one for each partition, with as many rows as there are records: no
Python process is started for it. What a count may believe is the same as in a task (`counting`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from mirrorlake.errors import MirrorlakeError, QueryError
from mirrorlake.spark_source.archive_reading import ArchiveReading
from mirrorlake.spark_source.columns import CONSTANT
from mirrorlake.spark_source.counting import count_by_partition
from mirrorlake.spark_source.request import ReadOptions
from mirrorlake.spark_source.side_by_side import until_stopped
from mirrorlake.spark_source.source import planned_archive
from mirrorlake.stores.opening import open_store

FILES_MAX = 2_000
"""Of how many files the driver looks at the ends: about a second's worth. Of more the tasks of a job do."""

PARTITIONS_MAX = 64
"""Into how many ranges a table is cut: Spark plans each for itself, at a millisecond or two."""

_ROWS_OF_A_SLICE = 50_000_000
"""Rows that a task counts in half a second, or less."""


def counted_table(
    spark: Any, options: ReadOptions, names: Collection[str], *, is_stopping: Callable[[], bool]
) -> Any | None:
    """Returns a DataFrame with a row for each record of an archive; None where that is for Spark's tasks to read.

    Args:
        spark: the session.
        options: what to read, of a store.
        names: of the columns wanted, `CONSTANT` ones.
        is_stopping: asked some times a second while the store is looked at.

    Raises:
        QueryError: a topic is missing, the archive is broken, or it could not be asked; or the query is to stop.
    """
    assert CONSTANT.issuperset(names)
    try:
        counts = until_stopped(lambda: _counts(options), is_stopping)
    except QueryError:
        raise
    except MirrorlakeError as error:
        raise QueryError(" ".join(str(error).split())) from error
    return None if counts is None else spark.sql(ranges_text(counts, names, tasks=options.tasks))


def _counts(options: ReadOptions) -> Mapping[tuple[str, int], int] | None:
    pieces = planned_archive(options)
    if len(pieces) > FILES_MAX:
        return None
    reading = ArchiveReading(store=open_store(options.store), names=sorted(CONSTANT))
    counts = count_by_partition(reading, pieces)
    return counts if counts is None or len(counts) <= PARTITIONS_MAX else None


def ranges_text(counts: Mapping[tuple[str, int], int], names: Iterable[str], *, tasks: int) -> str:
    """Returns the query whose rows are ``topic`` and ``partition`` of each record.

    Args:
        counts: of records, by topic and partition.
        names: of the columns, in their order.
        tasks: into how many tasks a range is cut where it is a long one.
    """
    parts = []
    for (topic, partition), rows in counts.items() or [(("", 0), 0)]:
        # As bytes: no sign of a topic's name means anything in there.
        values = {"topic": f"string(X'{topic.encode().hex()}')", "partition": str(partition)}
        columns = ", ".join(f"{values[name]} AS `{name}`" for name in names)
        slices = max(1, min(tasks, rows // _ROWS_OF_A_SLICE))
        parts.append(f"SELECT {columns} FROM range(0, {rows}, 1, {slices})")
    return " UNION ALL ".join(parts)
