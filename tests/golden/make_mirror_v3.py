"""Makes the golden archive of mirror-v3 0.x, once, by hand, with nothing of this package; kept, not remade.

    PYTHONPATH=tests python tests/golden/make_mirror_v3.py

One topic for each compression of its Parquet, and one in NDJSON, each with partition 0 in two files. Its `lz4` is the
old codec of Parquet, which pyarrow reads and does not write: Parquet's own Java library does, out of PySpark's jars.
"""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from golden.records_mirror_v3 import FILES, GoldenRecord
from support.golden import MIRROR_V3_SCHEMA, segment_name

FOLDER = Path(__file__).parent / "mirror_v3"

COMPRESSIONS: dict[str, tuple[str, int | None]] = {
    "zstd-1": ("zstd", 1),
    "zstd-3": ("zstd", 3),
    "snappy": ("snappy", None),
    "uncompressed": ("none", None),
}

JAVA_SCHEMA = """message arrow_schema {
  required binary topic (STRING); required int32 partition; required int64 offset (INTEGER(64,false));
  optional int64 timestamp_ms; required binary timestamp_type (STRING); optional binary key; optional binary value;
  required group headers (LIST) { repeated group list { optional group item {
    required binary key (STRING); optional binary value; } } }
}"""

OFFSET_FIELD, TIMESTAMP_FIELD = 2, 3


def write_parquet(path: Path, topic: str, records: tuple[GoldenRecord, ...]) -> None:
    codec, level = COMPRESSIONS[topic]
    rows = [
        {
            "topic": topic,
            "partition": 0,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": record.timestamp_type,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for record in records
    ]
    table = pa.Table.from_pylist(rows, schema=MIRROR_V3_SCHEMA)
    pq.write_table(
        table,
        path,
        compression=codec,
        compression_level=level,
        row_group_size=len(rows),
        use_dictionary=True,
        # Rust's writer calls a list's items `item`, as Arrow does, and not `element`, as Parquet would.
        use_compliant_nested_type=False,
    )


def write_ndjson(path: Path, topic: str, records: tuple[GoldenRecord, ...]) -> None:
    lines = [json.dumps(line(topic, record), separators=(",", ":"), ensure_ascii=False) for record in records]
    path.write_text("".join(f"{text}\n" for text in lines))


def line(topic: str, record: GoldenRecord) -> dict[str, object]:
    return {
        "topic": topic,
        "partition": 0,
        "offset": record.offset,
        **({} if record.timestamp_ms is None else {"timestamp_ms": record.timestamp_ms}),
        "timestamp_type": record.timestamp_type,
        **bytes_field("key", record.key),
        **bytes_field("value", record.value),
        **(
            {"headers": [{"key": key, **bytes_field("value", value)} for key, value in record.headers]}
            if record.headers
            else {}
        ),
    }


def bytes_field(name: str, data: bytes | None) -> dict[str, str]:
    return {} if data is None else {name: base64.b64encode(data).decode()}


def write_old_lz4(path: Path, records: tuple[GoldenRecord, ...]) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    parquet = jvm.org.apache.parquet
    schema = parquet.schema.MessageTypeParser.parseMessageType(JAVA_SCHEMA)
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path.as_uri())
    writer = (
        parquet.hadoop.example.ExampleParquetWriter.builder(hadoop_path)
        .withType(schema)
        .withCompressionCodec(parquet.hadoop.metadata.CompressionCodecName.LZ4)
        .withConf(jvm.org.apache.hadoop.conf.Configuration())
        .build()
    )

    def binary(data: bytes) -> object:
        return parquet.io.api.Binary.fromConstantByteArray(bytearray(data))

    long_value = parquet.example.data.simple.LongValue
    factory = parquet.example.data.simple.SimpleGroupFactory(schema)
    for record in records:
        row = factory.newGroup()
        row.add("topic", "lz4")
        row.add("partition", 0)
        row.add(OFFSET_FIELD, long_value(record.offset))
        if record.timestamp_ms is not None:
            row.add(TIMESTAMP_FIELD, long_value(record.timestamp_ms))
        row.add("timestamp_type", record.timestamp_type)
        for name, data in (("key", record.key), ("value", record.value)):
            if data is not None:
                row.add(name, binary(data))
        headers = row.addGroup("headers")
        for key, value in record.headers:
            item = headers.addGroup("list").addGroup("item")
            item.add("key", key)
            if value is not None:
                item.add("value", binary(value))
        writer.write(row)
    writer.close()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def main() -> None:
    for topic in (*COMPRESSIONS, "lz4", "lines"):
        folder = FOLDER / topic / "0"
        folder.mkdir(parents=True, exist_ok=True)
        for records in FILES:
            path = folder / segment_name(records[0].offset, records[-1].offset)
            if topic == "lines":
                write_ndjson(path.with_suffix(".ndjson"), topic, records)
            elif topic == "lz4":
                write_old_lz4(path, records)
            else:
                write_parquet(path, topic, records)


if __name__ == "__main__":
    main()
