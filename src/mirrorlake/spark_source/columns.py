"""The columns a reader in Spark sees, the same for every format and for live Kafka.

Loads little: each of Spark's planning processes needs these first.
"""

from collections.abc import Sequence

import pyarrow as pa

from mirrorlake.errors import ConfigurationError

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestamp_type", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""All columns, as Arrow carries them to Spark: one row per record."""

SPARK_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestamp_type": "string",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The same in Spark's words, in the same order."""

CONSTANT = frozenset({"topic", "partition"})
"""Columns that are the same for all records of a partition: who asks for no other needs none of them read."""


def schema_of(names: Sequence[str]) -> pa.Schema:
    """Returns the Arrow schema of some columns, in this order.

    Raises:
        ConfigurationError: there is no such column, or one is named twice, or none is.
    """
    for name in names:
        if name not in SPARK_TYPES:
            raise ConfigurationError(
                f"there is no column {name!r}", hint=f"the columns are {', '.join(SPARK_TYPES)}", column=name
            )
    if not names or len(set(names)) != len(names):
        raise ConfigurationError(f"not a choice of columns: {', '.join(names) or 'none'}", hint="name each once")
    return pa.schema([SCHEMA.field(name) for name in names])


def spark_ddl(names: Sequence[str]) -> str:
    """Returns the schema of some columns in Spark's data definition language."""
    return ", ".join(f"`{name}` {SPARK_TYPES[name]}" for name in names)
