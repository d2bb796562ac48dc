"""Buckets behind TLS with an authority of one's own, and buckets that are named in the host."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.errors import ConfigurationError, StoreUnavailableError
from mirrorlake.stores.bucket_store import BucketStore
from support.certificates import Authority
from support.go_programs import GoProgramUnusableError
from support.object_servers import BUCKET, Versitygw

DOMAIN = "store.test"
CONTENT = bytes(range(256)) * 20_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "own-ca")


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    issued = authority.issue("gateway", hosts=["127.0.0.1", f"{BUCKET}.{DOMAIN}"])
    try:
        with Versitygw(tmp_path_factory.mktemp("versitygw"), certificate=issued, domain=DOMAIN) as server:
            yield server
    except GoProgramUnusableError as error:
        pytest.skip(str(error))


def write_and_read(store: BucketStore) -> None:
    store.probe()
    store.create("orders/0/a", b"content")
    staged = store.stage("orders/0", "b")
    staged.file.write(CONTENT)
    staged.publish("orders/0/b")
    assert [info.name for info in store.list("orders/0")] == ["a", "b"]
    assert store.read("orders/0/b") == CONTENT


@pytest.mark.parametrize("check", [None, *ContentCheck])
def test_a_store_behind_an_authority_of_ones_own_is_used(
    server: Versitygw, authority: Authority, check: ContentCheck | None
) -> None:
    write_and_read(BucketStore(server.settings(ca_file=authority.file, content_check=check)))


def test_a_store_whose_authority_is_not_trusted_is_not_talked_to(server: Versitygw, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other-ca")
    for settings in (server.settings(), server.settings(ca_file=other.file)):
        with pytest.raises(StoreUnavailableError, match="certificate of the store is refused") as caught:
            BucketStore(settings).read("a")
        assert "`ca-file`" in caught.value.hint


def test_a_certificate_for_another_host_is_refused(server: Versitygw, authority: Authority) -> None:
    elsewhere = server.settings(endpoint=f"https://localhost:{server.port}", ca_file=authority.file)
    with pytest.raises(StoreUnavailableError, match="NotValidForName") as caught:
        BucketStore(elsewhere).read("a")
    assert "`endpoint`" in caught.value.hint


@pytest.mark.parametrize("content", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_that_holds_no_authority_is_refused_by_name(
    server: Versitygw, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=str(file)) as caught:
        BucketStore(server.settings(ca_file=file)).read("a")
    assert "PEM" in caught.value.hint


class Tunnel(StreamRequestHandler):
    """One CONNECT: notes the name that was asked for, and leads to the server whatever it is."""

    server: "Tunnels"

    def handle(self) -> None:
        self.server.asked.append(self.rfile.readline().split()[1].decode())
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.server.target_port)) as upstream:
            back = threading.Thread(target=pour, args=(upstream, self.connection), daemon=True)
            back.start()
            pour(self.connection, upstream)
            back.join()


class Tunnels(ThreadingTCPServer):
    """Stands in for the resolver: a proxy is asked for a name that no resolver knows."""

    daemon_threads = True

    def __init__(self, target_port: int) -> None:
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.target_port = target_port
        self.asked: list[str] = []


def pour(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def tunnels(server: Versitygw, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tunnels]:
    with Tunnels(server.port) as tunnels:
        thread = threading.Thread(target=tunnels.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{tunnels.server_address[1]}")
        yield tunnels
        tunnels.shutdown()


def test_a_bucket_is_named_in_the_host(server: Versitygw, authority: Authority, tunnels: Tunnels) -> None:
    """The certificate's name, the server's idea of the bucket, and the signature must all fit."""
    settings = server.settings(
        endpoint=f"https://{DOMAIN}:{server.port}", ca_file=authority.file, addressing=Addressing.VIRTUAL_HOSTED
    )
    write_and_read(BucketStore(settings))
    assert set(tunnels.asked) == {f"{BUCKET}.{DOMAIN}:{server.port}"}
    direct = BucketStore(server.settings(prefix=settings.prefix, ca_file=authority.file))
    assert direct.read("orders/0/b") == CONTENT
