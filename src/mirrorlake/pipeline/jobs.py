"""The door to a running Spark: its context, by which leases run, and SQL for those few that use it."""

import threading
from typing import Any


class Jobs:
    """Spark without SQL, until somebody wants SQL.

    A ``SparkSession`` makes the JVM load the classes of Catalyst, and what Scala knows of types: 30 MB, and a second of
    CPU at the start. Leases are jobs over RDDs and need none of it.

    Attributes:
        sparkContext: PySpark's, under the name it has in a ``SparkSession``: what needs no more takes either.
    """

    def __init__(self, context: Any) -> None:
        self.sparkContext = context
        self._lock = threading.Lock()
        self._session: Any = None

    @property
    def session(self) -> Any:
        """The ``SparkSession`` over this context, made when it is first asked for, from any thread."""
        from pyspark.sql import SparkSession

        with self._lock:
            if self._session is None:
                self._session = SparkSession.builder.getOrCreate()
            return self._session

    def stop(self) -> None:
        """Stops Spark, as either would."""
        (self.sparkContext if self._session is None else self._session).stop()
