"""``mirrorlake run`` with its archive in a bucket: killed, raced, and with a store that fails in many ways."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault.test_service_kills import PARTITIONS, Scene, kill_again_and_again, race
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import archive_position, wait_until
from support.object_servers import ObjectServer, Versitygw
from support.service_process import ServiceProcess
from support.store_proxy import Fault, StoreProxy, StoreRequest
from support.toxiproxy import Toxiproxy, ToxiproxyUnusableError, toxiproxy_server

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, versitygw: ObjectServer, topic_name: str, tmp_path: Path) -> Scene:
    return Scene(source_kafka, None, topic_name, tmp_path, lake=versitygw.settings(), without_spark=True)


@pytest.fixture
def proxy(versitygw: ObjectServer) -> Iterator[StoreProxy]:
    with StoreProxy(versitygw.port) as proxy:
        yield proxy


@pytest.fixture
def spoilt_scene(
    source_kafka: EmbeddedKafka, versitygw: ObjectServer, proxy: StoreProxy, topic_name: str, tmp_path: Path
) -> Scene:
    """Its services reach the store through the proxy; what looks at the outcome does not."""
    scene = Scene(
        source_kafka, None, topic_name, tmp_path, lake=versitygw.settings(endpoint=proxy.endpoint), without_spark=True
    )
    scene.config = scene.write_config("mirror", max_records=500)
    scene.lake = versitygw.settings(prefix=scene.lake.prefix)  # type: ignore[union-attr]
    return scene


@pytest.mark.quick
def test_a_service_killed_again_and_again_loses_nothing_in_a_bucket(scene: Scene) -> None:
    kill_again_and_again(scene, lives=2, chance=random.Random(3))


def test_two_services_with_different_flushes_make_one_archive_in_a_bucket(scene: Scene) -> None:
    race(scene, seconds=4.0, with_kafka=False)


class Weather:
    """Fails one request in ``one_in``, in one of the given ways."""

    def __init__(self, *faults: Fault, one_in: int, seed: int) -> None:
        self._faults = faults
        self._one_in = one_in
        self._chance = random.Random(seed)
        self.failed = 0

    def __call__(self, request: StoreRequest) -> Fault | None:
        if self._chance.randrange(self._one_in):
            return None
        self.failed += 1
        return self._chance.choice(self._faults)


def await_everybody(scene: Scene, service: ServiceProcess) -> None:
    """Waits until every partition has grown: none is in its back-off any more."""

    def positions() -> list[int]:
        return [archive_position(scene.lake, scene.topic, partition) for partition in range(PARTITIONS)]

    before = positions()
    wait_until(
        lambda: all(new > old for new, old in zip(positions(), before, strict=True)), "all to go on", log=service.said
    )


def pass_through(scene: Scene, proxy: StoreProxy, service: ServiceProcess, weather: Weather, *, failures: int) -> None:
    """A service under load lives through so many failures; every partition goes on afterwards."""
    proxy.spoil = weather
    wait_until(lambda: weather.failed >= failures, "faults", log=service.said)
    proxy.spoil = lambda request: None
    await_everybody(scene, service)


def test_lost_answers_an_overloaded_store_and_expired_credentials_are_waited_for_and_nothing_is_lost_or_doubled(
    spoilt_scene: Scene, proxy: StoreProxy
) -> None:
    lost = Weather(Fault(cuts_after=True), Fault(cuts_before=True), one_in=4, seed=5)
    overload = Weather(Fault(status=500, code="InternalError"), Fault(status=503, code="SlowDown"), one_in=1, seed=6)
    expired = Weather(Fault(status=400, code="ExpiredToken"), one_in=1, seed=7)
    with spoilt_scene.run() as service:
        with spoilt_scene.load():
            spoilt_scene.await_progress(service)
            pass_through(spoilt_scene, proxy, service, lost, failures=40)
            pass_through(spoilt_scene, proxy, service, overload, failures=12)
            pass_through(spoilt_scene, proxy, service, expired, failures=6)
        spoilt_scene.finish(service)
    assert "SlowDown" in service.said() or "InternalError" in service.said()
    assert "the credentials have expired" in service.said()


def test_credentials_that_are_refused_park_the_partition_by_name(spoilt_scene: Scene, proxy: StoreProxy) -> None:
    with spoilt_scene.load(), spoilt_scene.run() as service:
        spoilt_scene.await_progress(service)
        proxy.spoil = lambda request: Fault(status=403, code="AccessDenied")
        service.await_partitions("partition parked", 2)
        assert "give these credentials the right" in service.said()
        proxy.spoil = lambda request: None
        service.stop()
        service.exit_code()
    spoilt_scene.complete()


def test_a_store_that_is_down_for_a_while_is_waited_for(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with Versitygw(folder) as gateway:
        scene = Scene(source_kafka, None, topic_name, tmp_path, lake=gateway.settings(), without_spark=True)
        with scene.run() as service:
            with scene.load():
                scene.await_progress(service)
                gateway.stop()
                time.sleep(8.0)
                assert service.is_running, service.said()
                gateway.start()
                await_everybody(scene, service)
            scene.finish(service)


def test_a_graceful_stop_flushes_what_was_in_its_back_off_once_the_store_is_well(
    spoilt_scene: Scene, proxy: StoreProxy
) -> None:
    with spoilt_scene.run() as service:
        with spoilt_scene.load():
            spoilt_scene.await_progress(service)
            proxy.spoil = lambda request: Fault(status=503, code="SlowDown")
            service.await_partitions("failures=4 ", PARTITIONS)  # the next try is seconds away
        proxy.spoil = lambda request: None
        spoilt_scene.finish(service)
        assert "could not archive everything" not in service.said()


def test_a_network_that_resets_falls_silent_and_cuts_answers_loses_and_doubles_nothing(
    source_kafka: EmbeddedKafka, versitygw: ObjectServer, topic_name: str, tmp_path: Path
) -> None:
    try:
        program = toxiproxy_server()
    except ToxiproxyUnusableError as error:
        pytest.skip(str(error))
    with Toxiproxy(tmp_path, program) as network:
        port = network.add("store", target_port=versitygw.port)
        lake = versitygw.settings(endpoint=f"http://127.0.0.1:{port}")
        scene = Scene(source_kafka, None, topic_name, tmp_path, lake=lake, without_spark=True)
        scene.lake = versitygw.settings(prefix=lake.prefix)
        with scene.load(), scene.run() as service:
            scene.await_progress(service)
            for kind, stream, attributes in (
                ("limit_data", "downstream", {"bytes": 400}),
                ("reset_peer", "upstream", {"timeout": 5}),
                ("timeout", "downstream", {"timeout": 0}),
                ("limit_data", "upstream", {"bytes": 3000}),
            ):
                network.spoil("store", kind, stream=stream, **attributes)
                time.sleep(2.0)
                network.heal("store")
                await_everybody(scene, service)
            service.stop()
            assert service.exit_code() == 0, service.said()
        assert "partition parked" not in service.said()
        scene.complete()
