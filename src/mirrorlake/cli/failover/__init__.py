"""``failover`` and ``failback``."""
