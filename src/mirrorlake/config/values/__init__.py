"""Readers of the values that fields of the file have."""
