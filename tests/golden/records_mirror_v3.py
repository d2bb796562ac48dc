"""The records in the golden archive of mirror-v3, in its own words."""

from typing import NamedTuple


class GoldenRecord(NamedTuple):
    offset: int
    timestamp_ms: int | None
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


FILES = (
    (
        GoldenRecord(0, 1_700_000_000_000, "create_time", b"key", b"value"),
        GoldenRecord(1, 1_700_000_000_001, "create_time", None, None),
        GoldenRecord(2, 1_700_000_000_002, "create_time", b"", b""),
        GoldenRecord(3, 1_700_000_000_003, "log_append_time", b"k", None, (("a", b"1"), ("b", None), ("a", b""))),
    ),
    (
        GoldenRecord(4, None, "not_available", b"\x00\xff", b"\xff" * 300, (("ключ", b"\x00"),)),
        GoldenRecord(5, 0, "create_time", b"key", b"value"),
    ),
)
"""The records of each file; none is left out."""
