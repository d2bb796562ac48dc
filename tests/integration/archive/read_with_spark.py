"""Reads the segments in a folder with Spark alone and prints each file's rows as JSON; run by test_other_readers.py.

read_with_spark.py FOLDER FILE CONDITION…

Of the one file, it prints the offsets that Spark finds by each condition.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def lines(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.json(path)
    return frame.withColumn("key", f.unbase64("key")).withColumn("value", f.unbase64("value"))


def main(folder: Path, file: str, conditions: Sequence[str]) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    found = {}
    for path in sorted(folder.iterdir()):
        frame = spark.read.parquet(str(path)) if path.suffix == ".parquet" else lines(spark, str(path))
        rows = frame.select(
            "topic", "partition", "offset", "timestamp_ms", "timestamp_type", f.hex("key"), f.hex("value"),
            f.expr("transform(headers, header -> header.key)"),
        ).orderBy("offset")  # fmt: skip
        found[path.name] = [list(row) for row in rows.collect()]
    filtered = {}
    for condition in conditions:
        # A value is asked for too, so that its pages are found by their places.
        rows = spark.read.parquet(file).where(condition).select("offset", "value").orderBy("offset")
        filtered[condition] = [row["offset"] for row in rows.collect()]
    spark.stop()
    print(json.dumps({"rows": found, "filtered": filtered}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
