"""One topic to Parquet in a folder and in buckets: what the store costs beside the encoding, all else being equal.

The source is filled once, and the contenders take turns in each round, so that a machine that slows down for a while
slows all of them. Copying begins with the first published segment for all of them: before it nobody can see from
outside how far an upload is.
"""

from collections.abc import AsyncIterator
from pathlib import Path

from bench.brokers import BenchKafka
from bench.contender import Kind, Measured, measure
from bench.inputs import INPUTS, Filled
from bench.mirrorlake_contender import MirrorlakeFolder, MirrorlakeS3

STORES_INPUT = INPUTS["k1"].repeated(4)


async def measure_stores(
    *, source: BenchKafka, destination: BenchKafka, filled: Filled, folder: Path, rounds: int
) -> AsyncIterator[Measured]:
    """Archives ``STORES_INPUT`` ``rounds`` times to each kind of store, and yields each run when it is over."""
    for round_number in range(rounds):
        for contender in (
            MirrorlakeFolder(),
            MirrorlakeS3(Kind.PARQUET_S3),
            MirrorlakeS3(Kind.PARQUET_S3_CRC),
            MirrorlakeS3(Kind.PARQUET_S3_TLS),
        ):
            own = folder / f"{round_number}-{contender.kind.name.lower()}"
            own.mkdir()
            yield await measure(
                contender,
                source=source,
                destination=destination,
                wanted=STORES_INPUT,
                filled=filled,
                folder=own,
            )
            _remove(own)


def _remove(folder: Path) -> None:
    """Makes room for the next one; the log of the contender stays until the end."""
    for file in sorted(folder.glob("lake/**/*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
