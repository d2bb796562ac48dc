"""How many records an archive holds, told by the ends of its files: what a query that asks for no column of them needs.

A file's own account is believed as far as a reader of its rows believes it: it must be the file that its name says, of
the range, topic and partition planned. Where it gives none, or lies only in part in what is wanted, its records are
read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from mirrorlake.spark_source.archive_reading import ArchiveReading
from mirrorlake.spark_source.columns import CONSTANT
from mirrorlake.spark_source.rows import rows_with
from mirrorlake.spark_source.side_by_side import at_once, side_by_side
from mirrorlake.spark_source.tasks import Piece

_ENDS_AT_ONCE = 256
"""Pieces whose counts are asked for before the first of their rows is handed on."""


def counted_rows(reading: ArchiveReading, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of pieces of which only `CONSTANT` columns are wanted; those of one partition come together.

    Raises:
        MirrorlakeError: see `ArchiveReading.read`.
    """
    for start in range(0, len(pieces), _ENDS_AT_ONCE):
        some = pieces[start : start + _ENDS_AT_ONCE]
        counts = zip(some, _counts(reading, some), strict=True)
        for (topic, partition), of_one in groupby(counts, key=lambda each: (each[0].topic, each[0].partition)):
            told = 0
            for piece, count in of_one:
                if count is None:
                    yield from reading.read(piece)
                else:
                    told += count
            if told:
                yield from rows_with({}, told, topic=topic, partition=partition, names=reading.names)


def count_by_partition(reading: ArchiveReading, pieces: Iterable[Piece]) -> Counter[tuple[str, int]] | None:
    """Returns the number of records by topic and partition; None where one piece does not tell it.

    Raises:
        MirrorlakeError: see `ArchiveReading.count`.
    """
    assert CONSTANT.issuperset(reading.names)
    found: Counter[tuple[str, int]] = Counter()
    pieces = list(pieces)
    for piece, count in zip(pieces, _counts(reading, pieces), strict=True):
        if count is None:
            return None
        found[piece.topic, piece.partition] += count
    return found


def _counts(reading: ArchiveReading, pieces: Sequence[Piece]) -> list[int | None]:
    return side_by_side(reading.count, pieces, at_once=at_once(reading.store))
