"""PySpark's server for accumulators, whose other end is a JVM: what it writes to stderr when that is gone."""

import socket
import struct
import threading
from typing import Any

import pytest
from pyspark import accumulators

from mirrorlake.pipeline.pyspark_globals import end_quietly

TOKEN = "token"


@pytest.mark.parametrize(
    ("sent", "is_said"),
    [(TOKEN.encode() + struct.pack("!i", 0), False), (b"other", True)],
    ids=["a JVM that ends", "a stranger"],
)
def test_the_end_of_a_jvm_is_no_error_and_anything_else_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sent: bytes, *, is_said: bool
) -> None:
    server = accumulators._start_update_server(TOKEN, is_unix_domain_sock=False)
    end_quietly(server)
    closed, closes = threading.Event(), server.shutdown_request

    def close(request: Any) -> None:
        closes(request)
        closed.set()

    monkeypatch.setattr(server, "shutdown_request", close)
    try:
        with socket.create_connection(server.server_address[:2]) as jvm:
            jvm.sendall(sent)
            if not is_said:
                assert jvm.recv(1) == b"\1"
        assert closed.wait(60.0)
    finally:
        server.shutdown()
    assert ("Traceback" in capsys.readouterr().err) == is_said
