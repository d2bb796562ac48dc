"""Keeping archives small: merging segments, retiring old ones, and deleting what neither readers nor writers need."""
