"""Snapshots: the latest value of every key up to an offset."""
