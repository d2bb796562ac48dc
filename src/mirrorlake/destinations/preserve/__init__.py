"""Kafka destinations with `offsets: preserve`: every record at the offset it has at the source."""
