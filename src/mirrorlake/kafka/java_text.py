"""Bytes as Java shows them as text: Kafka's own client, and Spark. Pure."""

import re

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Java's decoder makes one replacement character of it, cut short or not; Python's, up to three."""


def as_java_shows(text: bytes) -> str:
    """Returns bytes decoded from UTF-8; what is none of it becomes U+FFFD, one where Java has one."""
    if text.isascii():
        return text.decode("ascii")
    return _ENCODED_SURROGATE.sub(b"\xff", text).decode("utf-8", "replace")
