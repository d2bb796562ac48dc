"""A bucket behind a network that resets, falls silent and cuts answers short: toxiproxy before versitygw.

Unlike the faults of ``test_bucket_faults.py`` these are of the byte stream, by a hand other than ours.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mirrorlake.errors import StoreUnavailableError
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.object_store import ObjectExistsError
from support.object_servers import ObjectServer
from support.toxiproxy import Toxiproxy, ToxiproxyUnusableError, toxiproxy_server

SEGMENT = bytes(range(256)) * 40_000
HEALED_AFTER_SECONDS = 0.7
ATTEMPTS_MAX = 50


@pytest.fixture(scope="module")
def network(versitygw: ObjectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Toxiproxy, int]]:
    """The proxy, and the port behind which it has the store as ``store``."""
    try:
        program = toxiproxy_server()
    except ToxiproxyUnusableError as error:
        pytest.skip(str(error))
    with Toxiproxy(tmp_path_factory.mktemp("toxiproxy"), program) as proxy:
        yield proxy, proxy.add("store", target_port=versitygw.port)


class Scene:
    """A place in the bucket, reached through the network and directly."""

    def __init__(self, server: ObjectServer, proxy: Toxiproxy, port: int) -> None:
        self.proxy = proxy
        settings = server.settings(endpoint=f"http://127.0.0.1:{port}")
        self.store = BucketStore(settings)
        self.behind = BucketStore(server.settings(prefix=settings.prefix))

    def put(self) -> None:
        """Publishes the segment in one attempt."""
        staged = self.store.stage("orders/0", "staged")
        staged.file.write(SEGMENT)
        staged.publish("orders/0/segment")

    def put_in_the_end(self) -> None:
        """Does what a mirror does: what is not known is tried again, and "exists" is settled by content."""
        for _ in range(ATTEMPTS_MAX):
            try:
                self.put()
            except StoreUnavailableError:
                time.sleep(0.1)
            except ObjectExistsError:
                return
            else:
                return
        raise AssertionError("the network is back, and the store is not to be had")

    def held(self) -> dict[str, bytes]:
        return {info.name: self.behind.read(info.key) for info in self.behind.list("orders/0")}

    @contextmanager
    def spoilt_for_a_while(self, kind: str, *, stream: str, **attributes: int) -> Iterator[None]:
        self.proxy.spoil("store", kind, stream=stream, **attributes)
        healing = threading.Timer(HEALED_AFTER_SECONDS, lambda: self.proxy.heal("store"))
        healing.start()
        try:
            yield
        finally:
            healing.join()


@pytest.fixture
def scene(versitygw: ObjectServer, network: tuple[Toxiproxy, int]) -> Iterator[Scene]:
    proxy, port = network
    yield Scene(versitygw, proxy, port)
    proxy.heal("store")


@pytest.mark.parametrize(
    ("kind", "stream", "attributes"),
    [
        ("limit_data", "downstream", {"bytes": 1}),  # the store does it, and its answer is cut
        ("limit_data", "upstream", {"bytes": 1_000_000}),  # the connection breaks inside the segment
        ("limit_data", "upstream", {"bytes": 100}),  # … and inside the request's head
        ("reset_peer", "downstream", {"timeout": 0}),
        ("reset_peer", "upstream", {"timeout": 0}),
        ("timeout", "upstream", {"timeout": 0}),  # nothing arrives, until the connection is gone
        ("timeout", "downstream", {"timeout": 0}),  # all arrives, and no answer comes
    ],
)
def test_what_is_put_while_the_network_fails_is_there_once_and_whole(
    scene: Scene, kind: str, stream: str, attributes: dict[str, int]
) -> None:
    with scene.spoilt_for_a_while(kind, stream=stream, **attributes):
        scene.put_in_the_end()
    assert scene.held() == {"segment": SEGMENT}
    scene.store.create("orders/0/_claim", b"content")
    assert scene.held() == {"segment": SEGMENT, "_claim": b"content"}


def test_a_network_that_stays_away_is_an_error_that_passes_and_leaves_no_half_of_a_segment(scene: Scene) -> None:
    scene.proxy.cut("store")
    try:
        with pytest.raises(StoreUnavailableError):
            scene.put()
    finally:
        scene.proxy.join("store")
    assert scene.held() == {}
    scene.put()
    assert scene.held() == {"segment": SEGMENT}


def test_a_slow_network_only_takes_longer(scene: Scene) -> None:
    scene.proxy.spoil("store", "latency", latency=100, jitter=50)
    scene.proxy.spoil("store", "slicer", average_size=16_000, size_variation=8_000, delay=1_000)
    scene.put()
    assert scene.store.read("orders/0/segment") == SEGMENT
