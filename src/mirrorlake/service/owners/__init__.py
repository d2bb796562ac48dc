"""Whose a mirror is at its Kafka destinations: state records, take-over, signs of life."""
