"""A bucket for which nobody gave credentials: that is what is said, and not what a service of the machine answers."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mirrorlake.errors import PermissionDeniedError, StoreUnavailableError
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import S3Settings
from support.proxy import Proxy

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")


@contextmanager
def metadata_service(status: int) -> Iterator[str]:
    """The address of an instance metadata service that answers everything with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_PUT()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def bucket() -> ObjectStore:
    """One of its own, because clients are kept, with where they found their credentials."""
    name = f"b-{uuid.uuid4().hex[:8]}"
    return open_store(S3Settings(bucket=name, region="eu-west-1", endpoint="http://127.0.0.1:1"))


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("status", [403, 404])
def test_a_machine_that_gives_no_credentials_is_not_a_store_that_says_no(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with metadata_service(status) as address:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", address)
        with pytest.raises(PermissionDeniedError) as raised:
            list(bucket().list("x"))
    assert "/x/: no credentials for the store were found: none are configured" in raised.value.message
    assert f"(status {status})" in raised.value.message
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint


def test_a_machine_without_that_service_is_asked_again_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy() as nobody:
        nobody.refuses = True
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://{nobody.address}")
        with pytest.raises(StoreUnavailableError) as raised:
            list(bucket().list("x"))
    assert "no credentials for the store were found" in raised.value.message
    assert "AWS_ACCESS_KEY_ID" in raised.value.hint
