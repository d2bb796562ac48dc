"""The first answer on a connection: which APIs the peer knows, or who else it is."""

import struct
from collections.abc import Mapping

from mirrorlake.errors import NotKafkaError, UnsupportedError

_ERROR_AND_COUNT = struct.Struct(">hi")
_VERSIONS = struct.Struct(">hhh")
_UNSUPPORTED_VERSION = 35


def decode_api_versions(view: memoryview, *, peer: str) -> Mapping[int, tuple[int, int]]:
    """Returns lowest and highest version (both inclusive) by API key, from an answer to ApiVersions 0.

    Raises:
        NotKafkaError: not such an answer.
        UnsupportedError: the broker refuses it.
    """
    size = len(view)
    if size >= _ERROR_AND_COUNT.size:
        error_code, count = _ERROR_AND_COUNT.unpack_from(view)
        if error_code == _UNSUPPORTED_VERSION:
            raise UnsupportedError(f"{peer} does not know ApiVersions version 0", address=peer)
        if error_code == 0 and count > 0 and size == _ERROR_AND_COUNT.size + count * _VERSIONS.size:
            entries = _VERSIONS.iter_unpack(view[_ERROR_AND_COUNT.size :])
            return {key: (lowest, highest) for key, lowest, highest in entries}
    raise NotKafkaError(
        f"{peer} does not speak the Kafka protocol: its answer to ApiVersions has {size} bytes: {bytes(view[:32])!r}",
        hint="check host and port",
        address=peer,
    )


def describe_peer(start: bytes) -> str:
    """Returns what the first bytes of a peer that is not a Kafka broker look like."""
    if _is_tls(start):
        return f"a TLS record came ({start[:16]!r})"
    if start.startswith(b"HTTP/"):
        return f"an HTTP server answered ({start.splitlines()[0]!r})"
    if start.startswith(b"SSH-"):
        return f"an SSH server answered ({start.splitlines()[0]!r})"
    return f"the first bytes were {start[:32]!r}"


def hint_about_peer(start: bytes) -> str:
    """Returns what to do about a peer that is not a Kafka broker, or is one behind TLS."""
    if _is_tls(start):
        return "the listener speaks TLS: set security.protocol to SSL or SASL_SSL"
    return "check host and port, and whether the listener expects TLS"


def _is_tls(start: bytes) -> bool:
    return start[:1] in (b"\x15", b"\x16") and start[1:2] == b"\x03"
