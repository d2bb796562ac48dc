"""A restore and a merge of an archive in a bucket behind toxiproxy: slow lines, and objects that are cut in two.

Whatever the network does, a run ends equal, or with an error that names what could not be had; the records are there
all the while, and the next run over a network that is well ends equal.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from support.archived_source import archive, held_records
from support.command import Ended, without_spark, write_yaml
from support.copies import archived_records, assert_same_records, log_end, store_of, wait_until
from support.mirrors import store_section
from support.object_servers import BUCKET, ObjectServer
from support.records import Record, build_batch, consume
from support.topics import topics_of
from support.toxiproxy import Toxiproxy, ToxiproxyUnusableError, toxiproxy_server

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BATCH_RECORDS, BATCH_OFFSETS = 20, 23
SEGMENT_BATCHES, SEGMENTS = 5, 4
RECORD_BYTES = 2000
"""A segment is 200 KB that nothing compresses."""
CUT_BYTES = 10_000
"""A connection ends behind so many, and is made anew some times by the library: not often enough for a segment."""
RESTORED, FAILED, PARKED = 0, 1, 3


@pytest.fixture(scope="module")
def network(versitygw: ObjectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Toxiproxy, int]]:
    """The proxy, and the port behind which it has the bucket as ``store``."""
    try:
        program = toxiproxy_server()
    except ToxiproxyUnusableError as error:
        pytest.skip(str(error))
    with Toxiproxy(tmp_path_factory.mktemp("toxiproxy"), program) as proxy:
        yield proxy, proxy.add("store", target_port=versitygw.port)


@dataclass(frozen=True)
class Toxic:
    """One thing that is wrong with the network, in toxiproxy's words."""

    kind: str
    stream: str = "downstream"
    attributes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.stream} " + " ".join(f"{name}={value}" for name, value in self.attributes)


SLOW = (
    Toxic("latency", attributes=(("latency", 20), ("jitter", 15))),
    Toxic("bandwidth", attributes=(("rate", 1000),)),
    Toxic("bandwidth", "upstream", (("rate", 2000),)),
)
ANSWERS_CUT = Toxic("limit_data", attributes=(("bytes", CUT_BYTES),))
REQUESTS_CUT = Toxic("limit_data", "upstream", (("bytes", CUT_BYTES),))
TOXICS = (
    *SLOW,
    ANSWERS_CUT,
    REQUESTS_CUT,
    Toxic("limit_data", attributes=(("bytes", 300),)),
    Toxic("limit_data", "upstream", (("bytes", 300),)),
    Toxic("reset_peer", attributes=(("timeout", 50),)),
    Toxic("reset_peer", "upstream", (("timeout", 50),)),
    Toxic("timeout", attributes=(("timeout", 0),)),
    Toxic("timeout", "upstream", (("timeout", 0),)),
    Toxic("slicer", attributes=(("average_size", 2000), ("size_variation", 1000), ("delay", 500))),
    Toxic("latency", "upstream", (("latency", 300), ("jitter", 250))),
    Toxic("bandwidth", attributes=(("rate", 100),)),
    Toxic("bandwidth", "upstream", (("rate", 100),)),
)


class Scene:
    """An archive of one partition: commands see it through the network, and who looks at what is there without it."""

    def __init__(
        self, server: ObjectServer, network: tuple[Toxiproxy, int], destination: str, topic: str, folder: Path
    ) -> None:
        self._proxy, port = network
        self.topic, self.destination = topic, destination
        self.lake = server.settings()
        seen_at = replace(self.lake, endpoint=f"http://127.0.0.1:{port}")
        self.config = write_yaml(
            folder / "mirror.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "127.0.0.1:1"}}
  west: {{bootstrap-servers: "{destination}"}}
stores:
  lake: {store_section(seen_at, folder)}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations:
      - type: archive
        store: lake
        merge: {{steps: [{{min-age: 0s, max-bytes: 64MiB}}], min-files: 2, min-bytes: 0}}
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
        )
        self.records = some_records()
        ends = [number * SEGMENT_BATCHES * BATCH_OFFSETS for number in range(1, SEGMENTS + 1)]
        batches = [
            (base, build_batch([self.records[base + n] for n in range(BATCH_RECORDS)]))
            for base in range(0, ends[-1], BATCH_OFFSETS)
        ]
        archive(self.lake, TopicPartition(topic, 0), held_records(batches), ends, form="parquet")

    def spoil(self, *toxics: Toxic) -> None:
        for each in toxics:
            self._proxy.spoil("store", each.kind, stream=each.stream, **dict(each.attributes))

    def heal(self) -> None:
        self._proxy.heal("store")

    def interrupt(self, seconds: float) -> None:
        """Ends every connection, and takes none for a while."""
        self._proxy.cut("store")
        time.sleep(seconds)
        self._proxy.join("store")

    def restore(self, mode: str = "preserve") -> Ended:
        name = f"{self.topic}.{mode}"
        given = ("--store", "lake", "--topics", self.topic, "--to", "west", "--rename", name, "--name", name)
        return without_spark("restore", "-c", self.config, *given, "--offsets", mode, "--yes", "--format", "json")

    def merge(self) -> Ended:
        return without_spark("archive", "merge", "-c", self.config, "--format", "json")

    def assert_restored(self, mode: str = "preserve") -> None:
        found = consume(self.destination, f"{self.topic}.{mode}", 0)
        if mode == "preserve":
            assert_same_records(self.records, found)
        else:
            assert [*found.values()] == [*self.records.values()]

    def assert_none_wrong(self, mode: str = "preserve") -> None:
        """What is restored so far is right, and in order; it may be nothing."""
        if (topic := f"{self.topic}.{mode}") not in topics_of(self.destination):
            return
        found = consume(self.destination, topic, 0)
        if mode == "preserve":
            assert_same_records({offset: self.records[offset] for offset in sorted(self.records)[: len(found)]}, found)
        else:
            assert [*found.values()] == [*self.records.values()][: len(found)]

    def assert_archived(self) -> None:
        """Every record is in the archive, once."""
        assert_same_records(self.records, archived_records(self.lake, self.topic))

    def assert_merged(self) -> None:
        self.assert_archived()
        assert len([*store_of(self.lake).list(f"{self.topic}/0")]) == 2


def some_records() -> dict[int, Record]:
    """By offset; behind each batch lie offsets without a record."""
    chance = random.Random(7)
    return {
        base + n: Record(1_700_000_000_000 + base + n, b"key-%d" % n, chance.randbytes(RECORD_BYTES))
        for base in range(0, SEGMENTS * SEGMENT_BATCHES * BATCH_OFFSETS, BATCH_OFFSETS)
        for n in range(BATCH_RECORDS)
    }


def assert_stopped_clearly(ended: Ended) -> None:
    """It is no success, and what it says names what it could not have, and where that is."""
    assert ended.code in (FAILED, PARKED), ended
    assert f"s3://{BUCKET}/" in ended.err + ended.out, ended.err + ended.out


@pytest.fixture
def scene(
    versitygw: ObjectServer,
    network: tuple[Toxiproxy, int],
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> Iterator[Scene]:
    yield Scene(versitygw, network, destination_kafka.bootstrap_servers, topic_name, tmp_path)
    network[0].heal("store")


def test_a_restore_and_a_merge_over_a_network_that_cuts_objects_in_two_stop_clearly_and_end_equal_once_it_is_only_slow(
    scene: Scene,
) -> None:
    scene.spoil(ANSWERS_CUT)
    assert_stopped_clearly(scene.restore())
    scene.assert_none_wrong()

    scene.heal()
    scene.spoil(*SLOW)
    with ThreadPoolExecutor(1) as pool:
        restoring = pool.submit(scene.restore)
        wait_until(lambda: restoring.done() or log_end(scene.destination, f"{scene.topic}.preserve"), "some records")
        scene.interrupt(0.5)
        slow = restoring.result()
    assert slow.code == RESTORED, slow.err
    scene.assert_restored()

    scene.spoil(REQUESTS_CUT)
    cut = scene.merge()
    assert_stopped_clearly(cut)
    assert [row["result"] for row in cut.rows()] == ["failed"]
    scene.assert_archived()

    scene.heal()
    scene.spoil(*SLOW)
    slow = scene.merge()
    assert slow.code == 0, slow.out + slow.err
    scene.assert_merged()


class Weather:
    """Changes what is wrong with the network all the time, until left; then it is well."""

    def __init__(self, scene: Scene, chance: random.Random) -> None:
        self._scene, self._chance = scene, chance
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._change)
        self.seen: list[str] = []

    def _change(self) -> None:
        while not self._is_over.is_set():
            toxic = self._chance.choice(TOXICS)
            self.seen.append(str(toxic))
            self._scene.spoil(toxic)
            self._is_over.wait(self._chance.uniform(0.1, 4.0))
            self._scene.heal()
            self._is_over.wait(self._chance.uniform(0.0, 1.0))

    def __enter__(self) -> "Weather":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["preserve", "map"])
@pytest.mark.parametrize("toxic", TOXICS, ids=str)
def test_whatever_is_wrong_with_the_network_for_good_a_restore_ends_equal_or_clearly_and_the_next_one_ends_equal(
    scene: Scene, toxic: Toxic, mode: str
) -> None:
    scene.spoil(toxic)
    ended = scene.restore(mode)
    if ended.code != RESTORED:
        assert_stopped_clearly(ended)
        scene.assert_none_wrong(mode)
        scene.heal()
        ended = scene.restore(mode)
    assert ended.code == RESTORED, ended.err
    scene.assert_restored(mode)


@pytest.mark.soak
@pytest.mark.parametrize("toxic", TOXICS, ids=str)
def test_whatever_is_wrong_with_the_network_for_good_a_merge_ends_equal_or_clearly_and_the_next_one_ends_equal(
    scene: Scene, toxic: Toxic
) -> None:
    scene.spoil(toxic)
    ended = scene.merge()
    if ended.code != 0:
        assert_stopped_clearly(ended)
        scene.assert_archived()
        scene.heal()
        ended = scene.merge()
    assert ended.code == 0, ended.out + ended.err
    scene.assert_merged()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_under_a_network_that_changes_all_the_time_nothing_is_lost_doubled_or_displaced(
    scene: Scene, seed: int
) -> None:
    chance = random.Random(seed)
    with Weather(scene, chance) as weather:
        began = time.monotonic()
        while time.monotonic() - began < 40.0:
            mode = chance.choice(["preserve", "map"])
            if scene.restore(mode).code == RESTORED:
                scene.assert_restored(mode)
            scene.assert_none_wrong(mode)
            if chance.random() < 0.5:
                scene.merge()
                scene.assert_archived()
    print(f"seed {seed}: {weather.seen}")
    for mode in ("preserve", "map"):
        assert scene.restore(mode).code == RESTORED
        scene.assert_restored(mode)
    assert scene.merge().code == 0
    scene.assert_merged()
    assert json.loads(scene.merge().out)[0]["result"] == "nothing"
