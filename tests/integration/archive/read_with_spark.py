"""Reads the segments in a folder with Spark alone and prints each file's rows as JSON; run by test_other_readers.py.

read_with_spark.py FOLDER
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def lines(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.json(path)
    return frame.withColumn("key", f.unbase64("key")).withColumn("value", f.unbase64("value"))


def main(folder: Path) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    found = {}
    for path in sorted(folder.iterdir()):
        frame = spark.read.parquet(str(path)) if path.suffix == ".parquet" else lines(spark, str(path))
        rows = frame.select(
            "topic", "partition", "offset", "timestamp_ms", "timestamp_type", f.hex("key"), f.hex("value"),
            f.expr("transform(headers, header -> header.key)"),
        ).orderBy("offset")  # fmt: skip
        found[path.name] = [list(row) for row in rows.collect()]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
