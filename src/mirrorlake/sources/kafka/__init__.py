"""Kafka clusters as sources: leaders are found, and read by one connection each."""
