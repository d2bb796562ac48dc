"""Credentials of a role that a token in a file stands for, as platforms for containers give them."""

import os
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from mirrorlake.errors import StoreUnavailableError
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.credentials import s3_credentials
from mirrorlake.stores.settings import S3Settings
from support.certificates import Authority
from support.object_servers import ObjectServer

ROLE = "arn:aws:iam::123456789012:role/mirror"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "own-ca")


class _Passing(BaseHTTPRequestHandler):
    """Hands requests on to moto, which tells by the body which service is meant; the library asks in the address."""

    moto: ClassVar[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or urlsplit(self.path).query.encode()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        with urllib.request.urlopen(urllib.request.Request(self.moto, data=body, headers=form), timeout=20) as answer:
            content = answer.read()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def token_service(moto: ObjectServer, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of moto's token service behind TLS: a token is shown to no other."""
    issued = authority.issue("token-service", hosts=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.bundle)
    handler = type("Passing", (_Passing,), {"moto": moto.endpoint})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def token_file(token_service: str, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A token; the environment knows where the token service is, and nothing that gives credentials by itself."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", token_service)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.file))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    token = tmp_path / "token"
    token.write_text("of.this.container")
    return token


@pytest.fixture
def without_keys(moto: ObjectServer, authority: Authority) -> S3Settings:
    return replace(moto.settings(ca_file=authority.file), access_key_id=None, secret_access_key=None)


def test_a_role_of_the_environment_is_assumed_with_the_token(
    without_keys: S3Settings, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token_file))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    store = BucketStore(without_keys)

    store.create("orders/0/a", b"content")

    assert store.read("orders/0/a") == b"content"


def test_a_role_whose_token_is_not_there_gives_no_access(
    without_keys: S3Settings, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token_file.with_name("missing")))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)

    with pytest.raises(StoreUnavailableError, match=r"token file .*missing"):
        BucketStore(without_keys).create("orders/0/a", b"content")


def test_a_role_of_a_profile_is_assumed_with_the_token(
    without_keys: S3Settings, token_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(f"[profile pod]\nrole_arn = {ROLE}\nweb_identity_token_file = {token_file}\n")
    settings = replace(without_keys, profile="pod")

    give = s3_credentials(settings)
    assert give is not None
    assert give()["token"]  # what a role has and a user has not
    store = BucketStore(settings)
    store.create("orders/0/a", b"content")
    assert store.read("orders/0/a") == b"content"
