"""The settings of Spark: those of the file, and those of `spark-submit`."""
