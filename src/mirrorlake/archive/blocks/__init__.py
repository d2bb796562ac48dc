"""Checksums of the blocks of a file, and reading a file by them."""
