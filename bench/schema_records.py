"""The records whose schema ids are rewritten: 1 KiB or 100 bytes of Avro each, of texts that compress to a half."""

import json
import random
import time

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mirrorlake.demo.columns import record_columns
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch

RECORDS_PER_BATCH = 126
"""As many as the default of 128 KiB has room for, uncompressed."""
FIELDS = 8
FIELD_BYTES = 124
"""Eight texts: a value of 1013 bytes."""
SMALL_FIELD_BYTES = 10
"""Eight texts: a value of 93 bytes."""
SMALL_RECORDS_PER_BATCH = 1000
_DISTINCT_BATCHES = 32
_ROUNDS = 5

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": f"field{number}", "type": "string"} for number in range(FIELDS)],
    },
    separators=(",", ":"),
)


def avro_bodies(count: int, *, seed: int = 1, field_bytes: int = FIELD_BYTES) -> list[bytes]:
    """Returns so many records in Avro, without what names their schema."""
    encode, _, context = _stock_client()
    texts = random.Random(seed)
    records = [
        {f"field{field}": texts.randbytes(field_bytes // 2).hex() for field in range(FIELDS)} for _ in range(count)
    ]
    return [bytes(encode(record, context) or b"")[5:] for record in records]


def batches_of(
    schema_id: int, codec: Codec, *, records: int = RECORDS_PER_BATCH, field_bytes: int = FIELD_BYTES
) -> list[tuple[int, bytes]]:
    """Returns batches of records with a schema id before their values, as (records, bytes)."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    now_ms = int(time.time() * 1000)
    made = []
    for number in range(_DISTINCT_BATCHES):
        columns = record_columns(
            timestamps_ms=[now_ms + each for each in range(records)],
            keys=[b"key-%08d" % each for each in range(records)],
            values=[head + body for body in avro_bodies(records, seed=number, field_bytes=field_bytes)],
            headers=[()] * records,
        )
        made.append((records, bytes(encode_batch(columns, codec=codec))))
    return made


def stock_records_per_cpu_second() -> float:
    """Returns how many records a thread decodes and encodes with Confluent's client for Python; the best of rounds."""
    encode, decode, context = _stock_client()
    template = encode({f"field{field}": "" for field in range(FIELDS)}, context)
    assert template is not None
    values = [template[:5] + body for body in avro_bodies(RECORDS_PER_BATCH)]
    found = []
    for _ in range(_ROUNDS + 1):
        began = time.thread_time()
        for value in values * 8:
            encode(decode(value, context), context)
        found.append(time.thread_time() - began)
    return 8 * len(values) / min(found)


def _stock_client() -> tuple[AvroSerializer, AvroDeserializer, SerializationContext]:
    client = SchemaRegistryClient.new_client({"url": "mock://here"})
    return (
        AvroSerializer(client, SCHEMA),
        AvroDeserializer(client),
        SerializationContext("orders", MessageField.VALUE),
    )
