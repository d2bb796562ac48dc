"""Schema ids alone: batches whose ids are rewritten, beside Confluent's own decoding and encoding of their records."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mirrorlake.demo.columns import record_columns
from mirrorlake.kafka.records.batches import Codec, verify_crc, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.kafka.schema_ids.rewriting import with_ids

RECORDS_PER_BATCH = 126
_FIELDS = 8
_FIELD_BYTES = 124
"""Eight texts: a value of 1013 bytes."""
_BATCHES = 200
_ROUNDS = 5
_NOW_MS = 1_790_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdsPath:
    """CPU-seconds of one thread for so many records of 1 KiB of Avro; the best of five rounds.

    ``read_cpu_seconds`` is for the checksums alone, which every batch that is copied as its bytes costs too.
    """

    what: str
    records: int
    cpu_seconds: float
    read_cpu_seconds: float | None = None

    @property
    def records_per_cpu_second(self) -> float:
        """Records per CPU-second of one thread."""
        return self.records / self.cpu_seconds


def measure_schema_ids() -> list[SchemaIdsPath]:
    """Measures rewriting, by codec, and then decoding and encoding by Confluent's client for Python."""
    client = SchemaRegistryClient.new_client({"url": "mock://here"})
    schema = {"type": "record", "name": "Order", "fields": [_field(number) for number in range(_FIELDS)]}
    encode, decode = AvroSerializer(client, json.dumps(schema)), AvroDeserializer(client)
    context = SerializationContext("orders", MessageField.VALUE)
    values = [encode(_record(number), context) for number in range(RECORDS_PER_BATCH)]
    assert all(values)
    found = [_rewriting(codec, values) for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD)]
    best = _best(lambda: [encode(decode(value, context), context) for value in values])
    return [*found, SchemaIdsPath(what="Confluent's decode and encode", records=len(values), cpu_seconds=best)]


def _rewriting(codec: Codec, values: list[bytes]) -> SchemaIdsPath:
    count = len(values)
    columns = record_columns(
        timestamps_ms=[_NOW_MS + number for number in range(count)],
        keys=[b"key-%08d" % number for number in range(count)],
        values=values,
        headers=[()] * count,
    )
    (batch,) = walk(memoryview(bytearray(encode_batch(columns, codec=codec))))
    ids = SchemaIdMap.of({int.from_bytes(value[1:5], "big"): 500 for value in values})

    def read() -> None:
        for _ in range(_BATCHES):
            verify_crc(batch)

    def rewrite() -> None:
        for _ in range(_BATCHES):
            verify_crc(batch)
            with_ids(batch, ids)

    return SchemaIdsPath(
        what=f"ids rewritten, {codec.name.lower()}",
        records=count * _BATCHES,
        cpu_seconds=_best(rewrite),
        read_cpu_seconds=_best(read),
    )


def _best(work: Callable[[], object]) -> float:
    work()  # compiles kernels
    found = []
    for _ in range(_ROUNDS):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return min(found)


def _field(number: int) -> dict[str, str]:
    return {"name": f"field{number}", "type": "string"}


def _record(number: int) -> dict[str, str]:
    return {f"field{each}": f"{number:x}".ljust(_FIELD_BYTES, "abcdefghijklmnop"[each]) for each in range(_FIELDS)}
