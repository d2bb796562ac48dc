"""Evaluates expressions in Spark over given records; run by test_equal_to_spark.py.

It reads paths from stdin, one a line: each of a pickle of questions
[([(key, value, timestamp_ms, partition, offset, headers)], [asked])], and says one line when it has answered them.

What is asked are expressions, or pairs of one and the offsets for which it must fail by ANSI rules. Writes
FILE.answers: a pickle of one answer a question. Of expressions: a list a row, a value an expression. Of pairs: for each
its bytes by offset, and the offsets of those it was said to fail for, and does.
"""

import pickle
import sys
from collections import defaultdict
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings

SCHEMA = "key binary, value binary, ms bigint, partition int, offset bigint, pairs array<struct<k: string, v: binary>>"

FAILING_ASKED_MAX = 2
"""How many rows of one expression are asked about each by itself."""


SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


def main() -> None:
    session = build_session(SessionSettings(lanes=1, batch_slots=0, driver_heap_mb=1024, spark_conf=SETTINGS))
    try:
        for line in sys.stdin:
            asked = Path(line.rstrip("\n"))
            answers = [
                answer(session.spark, rows, of) if isinstance(of[0], str) else exact_answer(session.spark, rows, of)
                for rows, of in pickle.loads(asked.read_bytes())
            ]
            asked.with_suffix(".answers").write_bytes(pickle.dumps(answers))
            print("answered", flush=True)
    finally:
        session.stop(10.0)


def records_of(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    columns = [
        *("key", "value", "partition", "offset"),
        f.timestamp_millis("ms").alias("timestamp"),
        f.map_from_entries("pairs").alias("headers"),
    ]
    return spark.createDataFrame(rows, SCHEMA).select(*columns).orderBy("offset").cache()


def exact_answer(
    spark: SparkSession, rows: list[tuple[object, ...]], asked: list[tuple[str, list[int]]]
) -> list[tuple[dict[int, bytes | None], list[int]]]:
    records = records_of(spark, rows)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    values: dict[str, dict[int, bytes | None]] = {}
    by_failing: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for text, failing in asked:
        by_failing[tuple(failing)].append(text)
    for offsets, texts in by_failing.items():
        sound = records.where(~f.col("offset").isin(list(offsets))) if offsets else records
        for at in range(0, len(texts), 40):
            values |= bytes_of(sound, texts[at : at + 40])
    answers = [
        (values[text], [each for each in failing[:FAILING_ASKED_MAX] if fails(records, text, each)])
        for text, failing in asked
    ]
    spark.conf.set("spark.sql.ansi.enabled", "false")
    return answers


def bytes_of(records: DataFrame, texts: list[str]) -> dict[str, dict[int, bytes | None]]:
    made = [f.expr(f"CAST(({text}) AS BINARY)").alias(f"c{n}") for n, text in enumerate(texts)]
    found = records.select("offset", *made).collect()
    return {
        text: {row[0]: None if row[n] is None else bytes(row[n]) for row in found} for n, text in enumerate(texts, 1)
    }


def fails(records: DataFrame, text: str, offset: int) -> bool:
    try:
        bytes_of(records.where(f.col("offset") == offset), [text])
    except PySparkException:
        return True
    return False


def answer(spark: SparkSession, rows: list[tuple[object, ...]], expressions: list[str]) -> list[list[object]]:
    records = records_of(spark, rows)
    answers: list[list[object]] = [[] for _ in rows]
    for at in range(0, len(expressions), 40):
        part = expressions[at : at + 40]
        found = records.select([f.expr(text).alias(f"c{n}") for n, text in enumerate(part)]).collect()
        for held, row in zip(answers, found, strict=True):
            held += [bytes(each) if isinstance(each, bytearray) else each for each in row]
    return answers


if __name__ == "__main__":
    main()
