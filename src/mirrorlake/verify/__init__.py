"""Proves that copies equal their sources: comparing, hashing, reports."""
