"""Kafka destinations with `offsets: map`: data, progress and offset map in one transaction."""
