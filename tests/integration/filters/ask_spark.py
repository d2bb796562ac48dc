"""Evaluates expressions in Spark over given records; run by test_equal_to_spark.py.

ask_spark.py FILE    a pickle of questions [([(key, value, timestamp_ms, partition, offset, headers)], [expression])]

Writes FILE.answers: a pickle of one answer a question: a list a row, a value an expression.
"""

import pickle
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

SCHEMA = "key binary, value binary, ms bigint, partition int, offset bigint, pairs array<struct<k: string, v: binary>>"


def main(asked: Path) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.ansi.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    answers = [answer(spark, rows, expressions) for rows, expressions in pickle.loads(asked.read_bytes())]
    spark.stop()
    asked.with_suffix(".answers").write_bytes(pickle.dumps(answers))


def answer(spark: SparkSession, rows: list[tuple[object, ...]], expressions: list[str]) -> list[list[object]]:
    columns = [
        *("key", "value", "partition", "offset"),
        f.timestamp_millis("ms").alias("timestamp"),
        f.map_from_entries("pairs").alias("headers"),
    ]
    records = spark.createDataFrame(rows, SCHEMA).select(*columns).orderBy("offset").cache()
    answers: list[list[object]] = [[] for _ in rows]
    for at in range(0, len(expressions), 40):
        part = expressions[at : at + 40]
        found = records.select([f.expr(text).alias(f"c{n}") for n, text in enumerate(part)]).collect()
        for held, row in zip(answers, found, strict=True):
            held += [bytes(each) if isinstance(each, bytearray) else each for each in row]
    return answers


if __name__ == "__main__":
    main(Path(sys.argv[1]))
