"""Formats of segments: how the records of one range lie in one file."""
