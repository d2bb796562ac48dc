"""The compressions of an archive's Parquet pages: one list for what may be configured and what can be written."""

from enum import StrEnum


class Compression(StrEnum):
    """How Parquet pages are compressed, by mirror-v3's names."""

    ZSTD_1 = "zstd-1"
    ZSTD_3 = "zstd-3"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"
