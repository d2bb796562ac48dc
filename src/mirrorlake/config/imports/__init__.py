"""Configurations of other programs, read and written as ours: pure, no file and no network is touched."""
