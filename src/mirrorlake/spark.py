"""Archives and live Kafka in Spark: ``from mirrorlake.spark import register``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Makes ``format("mirrorlake")`` known to a session, for ``spark.read`` and ``spark.readStream``. Idempotent.

    A read is divided into as many tasks as the session has slots now, unless its ``minPartitions`` says otherwise. Call
    it again once a cluster has given more executors.

    Also turns on, for this session, that Spark hands filters to data sources written in Python, which the option
    ``pushdown`` needs.
    """
    from mirrorlake.spark_source.source import MirrorlakeSource, with_slots

    spark.conf.set(_PUSHDOWN, "true")
    context = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
    spark.dataSource.register(MirrorlakeSource if context is None else with_slots(context.defaultParallelism))
