"""Kafka on the wire: connections and requests, record batches and their records."""
