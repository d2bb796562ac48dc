"""The engine: a Spark session, lanes of bounded one-task jobs, and what keeps them alive.

Nothing in here knows Kafka, and importing it imports no PySpark.
"""
