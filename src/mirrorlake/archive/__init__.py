"""The archive: immutable segment files whose names hold the offsets they cover, one chain per partition.

What the files and names mean, to the byte: ``docs/archive-format.md``.
"""
