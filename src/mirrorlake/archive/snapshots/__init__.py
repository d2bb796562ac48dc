"""Snapshots: segments that hold the latest record of every key, in the order of the keys' bytes."""
