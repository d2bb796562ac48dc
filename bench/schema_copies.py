"""What it costs a mirror to rewrite schema ids: beside the same mirror without schemas, of the same records, at once.

On a machine that others use too, what disturbs one of two copies that go on together disturbs the other as much
(`bench/pair.py`); counted is the CPU time of all processes of each mirror.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

from bench.brokers import BenchKafka, create_topics
from bench.contender import Measured, measure
from bench.fixed_registry import FixedRegistry
from bench.inputs import Input, fill
from bench.jvm_serde import jvm_records_per_cpu_second
from bench.mirrorlake_contender import Mirrorlake, kafka_configuration
from bench.schema_records import (
    SCHEMA,
    SMALL_FIELD_BYTES,
    SMALL_RECORDS_PER_BATCH,
    avro_bodies,
    batches_of,
    stock_records_per_cpu_second,
)
from bench.storage import Storage, bytes_of, choose_place
from mirrorlake.embedded.jars import kafka_libs
from mirrorlake.kafka.records.batches import Codec

CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
RECORD_BYTES = 1024
SMALL_RECORD_BYTES = 100
SMALL_TIMES = 4
"""So many small records are copied for each large one."""
SOURCE_ID, DESTINATION_ID = 1, 500
_JVM_RECORDS = 126


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCopies:
    """Two copies of the same records at the same moment, by codec."""

    codec: str
    raw: Measured
    rewritten: Measured

    @property
    def cpu_ratio(self) -> float:
        """CPU-seconds per byte with rewritten ids, × those of the copy without schemas."""
        return self.raw.megabytes_per_cpu_second / self.rewritten.megabytes_per_cpu_second

    @property
    def rewriting_records_per_cpu_second(self) -> float:
        """Records per CPU-second of what the rewriting adds to a copy: what decoding and encoding adds to another's."""
        added = 1 / self.rewritten.records_per_cpu_second - 1 / self.raw.records_per_cpu_second
        return 1 / added if added > 0 else inf

    @property
    def records_per_second(self) -> float:
        """Records with rewritten ids by the clock, while the other copy has its share of the same cores."""
        return self.rewritten.copied_records / self.rewritten.copy_wall_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFigures:
    """Copies by codec, and what others need for the same records: decoded and encoded by one thread of theirs.

    ``small`` is a copy of records of 100 bytes, not compressed, that has the machine for itself.
    """

    copies: Sequence[SchemaCopies]
    small: Measured
    python_records_per_cpu_second: float
    jvm_records_per_cpu_second: float | None
    """None where the JVM's serializers could not be had."""


class MirrorlakeSchemas(Mirrorlake):
    """The same mirror with `schemas`, whose ids are others at the destination.

    Args:
        here: the source's registry.
        there: the destination's.
    """

    def __init__(self, here: FixedRegistry, there: FixedRegistry) -> None:
        super().__init__()
        self.name += ", schema ids rewritten"
        self._here, self._there = here, there

    def _configuration(self, source: BenchKafka, destination: BenchKafka, topic: str) -> str:
        registries = f'registries: {{here: {{url: "{self._here.url}"}}, there: {{url: "{self._there.url}"}}}}\n'
        whole = kafka_configuration(source, destination, topic)
        return f"{registries}{whole}    schemas: {{from: here, to: there, ids: remap}}\n"


def measure_schemas(times: int, storage: Storage | None) -> SchemaFigures:
    """Measures copies of ``times`` million records by codec, then Confluent's client for Python, and the JVM's."""
    copies = []
    for codec in CODECS:
        copies.append(asyncio.run(_copies(codec, times, storage)))
        print(_said(copies[-1]), flush=True)
    return SchemaFigures(
        copies=copies,
        small=asyncio.run(_small(times * SMALL_TIMES, storage)),
        python_records_per_cpu_second=stock_records_per_cpu_second(),
        jvm_records_per_cpu_second=jvm_records_per_cpu_second(SCHEMA, avro_bodies(_JVM_RECORDS)),
    )


def _said(run: SchemaCopies) -> str:
    rates = [each.records_per_cpu_second / 1e3 for each in (run.rewritten, run.raw)]
    return f"{run.codec}: {rates[0]:.0f} k records/CPU s, raw {rates[1]:.0f}; CPU × raw {run.cpu_ratio:.2f}"


async def _copies(codec: Codec, times: int, storage: Storage | None) -> SchemaCopies:
    name = f"avro-{codec.name.lower()}"
    wanted = Input(name=name, records=times * 1_000_000, record_bytes=RECORD_BYTES, codec=name)
    batches = await asyncio.to_thread(batches_of, SOURCE_ID, codec)
    raw, rewritten = await _side_by_side(
        wanted, batches, lambda here, there: (Mirrorlake(), MirrorlakeSchemas(here, there)), storage
    )
    return SchemaCopies(codec=codec.name.lower(), raw=raw, rewritten=rewritten)


async def _small(times: int, storage: Storage | None) -> Measured:
    """Measures a copy with rewritten ids of so many million records of 100 bytes, alone."""
    name = "avro-small"
    wanted = Input(name=name, records=times * 1_000_000, record_bytes=SMALL_RECORD_BYTES, codec=name)
    batches = await asyncio.to_thread(
        partial(batches_of, SOURCE_ID, Codec.NONE, records=SMALL_RECORDS_PER_BATCH, field_bytes=SMALL_FIELD_BYTES)
    )
    (alone,) = await _side_by_side(wanted, batches, lambda here, there: (MirrorlakeSchemas(here, there),), storage)
    return alone


async def _side_by_side(
    wanted: Input,
    batches: Sequence[tuple[int, bytes]],
    contenders: Callable[[FixedRegistry, FixedRegistry], Sequence[Mirrorlake]],
    storage: Storage | None,
) -> list[Measured]:
    """Measures copies of the same records at the same moment, each to a broker of its own."""
    with contextlib.ExitStack() as servers:
        here = servers.enter_context(FixedRegistry(f"{wanted.name}-value", SCHEMA, SOURCE_ID))
        there = servers.enter_context(FixedRegistry(f"{wanted.name}-value", SCHEMA, DESTINATION_ID))
        copying = contenders(here, there)
        place = choose_place(bytes_of(wanted, copying[0].kind, copies=len(copying)), wanted=storage)
        made = tempfile.TemporaryDirectory(prefix="mirrorlake-schemas-", dir=place.folder)
        folder, libs = Path(servers.enter_context(made)), kafka_libs()
        source = servers.enter_context(BenchKafka(folder / "source", libs=libs))
        await create_topics(source, {wanted.name: wanted.partitions})
        filled = await asyncio.to_thread(partial(fill, source.port, wanted, batches=batches))
        destinations = []
        for number in range(len(copying)):
            (folder / f"contender-{number}").mkdir()
            destinations.append(servers.enter_context(BenchKafka(folder / f"to-{number}", libs=libs, forgets=True)))
            await create_topics(destinations[-1], {wanted.name: wanted.partitions})
        return await asyncio.gather(
            *(
                measure(
                    contender,
                    source=source,
                    destination=destination,
                    wanted=wanted,
                    filled=filled,
                    folder=folder / f"contender-{number}",
                )
                for number, (contender, destination) in enumerate(zip(copying, destinations, strict=True))
            )
        )
