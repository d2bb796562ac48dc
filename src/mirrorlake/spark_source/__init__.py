"""Spark's door to archives and to live Kafka: the data source ``mirrorlake``, and SQL over it."""
