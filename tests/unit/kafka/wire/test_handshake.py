"""The first answer: a broker's versions, or a peer that is no broker."""

import struct

import pytest

from mirrorlake.errors import NotKafkaError, UnsupportedError
from mirrorlake.kafka.wire.handshake import decode_api_versions, describe_peer

ANSWER = struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", 0, 3, 13, 18, 0, 4)


def test_versions_are_read_by_api() -> None:
    assert decode_api_versions(memoryview(ANSWER), peer="kafka:9092") == {0: (3, 13), 18: (0, 4)}


@pytest.mark.parametrize(
    "body",
    [
        *(ANSWER[:length] for length in range(len(ANSWER))),
        ANSWER + b"\0",
        struct.pack(">hi", 0, 0),
        b"\0\0\x7f\xff\xff\xff",
    ],
)
def test_anything_else_is_not_kafka(body: bytes) -> None:
    with pytest.raises(NotKafkaError, match="other:80 does not speak the Kafka protocol"):
        decode_api_versions(memoryview(body), peer="other:80")


def test_a_broker_that_refuses_the_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        decode_api_versions(memoryview(struct.pack(">hi", 35, 0)), peer="kafka:9092")


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "a TLS record came"),
        (b"HTTP/1.1 400 Bad Request\r\nServer: x", "an HTTP server answered (b'HTTP/1.1 400 Bad Request')"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "an SSH server answered (b'SSH-2.0-OpenSSH_9.2')"),
        (b"\xff\xff\xff\xffwhat", "the first bytes were b'\\xff\\xff\\xff\\xffwhat'"),
    ],
)
def test_a_peer_that_is_no_broker_is_described(start: bytes, said: str) -> None:
    assert said in describe_peer(start)
