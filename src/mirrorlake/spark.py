"""Archives and live Kafka in Spark: ``from mirrorlake.spark import register``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Makes ``format("mirrorlake")`` known to a session, for ``spark.read`` and ``spark.readStream``. Idempotent.

    Also turns on, for this session, that Spark hands filters to data sources written in Python, which the option
    ``pushdown`` needs.
    """
    from mirrorlake.spark_source.source import MirrorlakeSource

    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(MirrorlakeSource)
