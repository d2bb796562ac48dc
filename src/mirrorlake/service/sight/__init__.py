"""What a running service tells: logs, metrics, health, states of its partitions."""
