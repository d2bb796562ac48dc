"""Restores and queries of Spark's beside two rival mergers and a writer: each answer has every record once.

The mergers go by different rules, so their ranges are at odds; one deletes inputs at once, the other a second later.
"""

import json
import random
import subprocess
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from mirrorlake.archive.claims import RangeClaim, encode_claim
from mirrorlake.archive.names import ClaimName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.config.loading import load_configuration
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import JavaUnusableError
from mirrorlake.java import find_java
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.spark import register
from mirrorlake.spark_source.sql import prepare, run_query
from mirrorlake.stores.settings import FilesystemSettings
from support.archived_source import archive, held_records, write_segment
from support.command import without_spark, write_yaml
from support.copies import Lake, assert_same_records, store_of
from support.held_source import HeldPartition
from support.mergers import Mergers
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import Record, build_batch, consume, simple_records
from support.segments import records_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
BATCH_RECORDS, BATCH_OFFSETS = 10, 13
"""Behind each batch lie offsets without a record."""
BATCHES, BATCHES_AT_FIRST = 700, 60
ROUNDS = 3
MERGERS = {
    "eager": "steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0, keep-inputs: 0s",
    "patient": "steps: [{min-age: 0s, max-bytes: 30KiB}], min-files: 3, min-bytes: 0, keep-inputs: 1s",
}

Found = dict[int, dict[int, tuple[bytes | None, bytes | None]]]
"""Key and value, by partition and offset."""


class Scene:
    """An archive in small segments that grows while it is entered, and is merged by two processes again and again."""

    def __init__(self, lake: Lake, topic: str, folder: Path, destination: str, *, form: str) -> None:
        self.lake, self.topic, self.folder, self.destination, self._form = lake, topic, folder, destination, form
        self._place = FilesystemSettings(root=lake) if isinstance(lake, Path) else lake
        self.records = [some_records(partition) for partition in range(PARTITIONS)]
        self._content = [held(each) for each in self.records]
        self._batches = [BATCHES_AT_FIRST] * PARTITIONS
        for partition, content in enumerate(self._content):
            ends = [number * BATCH_OFFSETS for number in range(1, BATCHES_AT_FIRST + 1)]
            archive(self._place, TopicPartition(topic, partition), content, ends, form=form)
        self.configs = {name: self._write_config(name, rules) for name, rules in MERGERS.items()}
        self._mergers = Mergers(*self.configs.values())
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._grow)
        self._chance = random.Random(11)

    def _write_config(self, name: str, rules: str) -> Path:
        return write_yaml(
            self.folder / f"{name}.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "127.0.0.1:1"}}
  west: {{bootstrap-servers: "{self.destination}"}}
stores: {{lake: {store_section(self.lake, self.folder)}}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: archive, store: lake, format: {self._form}, merge: {{{rules}}}}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
        )

    @property
    def config(self) -> Path:
        return self.configs["eager"]

    def ends(self) -> list[int]:
        """The archive's positions, by partition."""
        return [self.archived(each).read_chain().position for each in range(PARTITIONS)]

    def archived(self, partition: int) -> ArchivedPartition:
        store = store_of(self.lake)
        return ArchivedPartition(store, destination_name=self.topic, partition=partition, extension=self._form)

    def names(self) -> set[tuple[int, str]]:
        listed = ((each, store_of(self.lake).list(f"{self.topic}/{each}")) for each in range(PARTITIONS))
        return {(each, info.name) for each, objects in listed for info in objects if not info.name.startswith("_")}

    def _grow(self) -> None:
        store = store_of(self.lake)
        while not self._is_over.wait(self._chance.uniform(0.02, 0.1)):
            for partition in range(PARTITIONS):
                start, count = self._batches[partition], self._chance.randint(1, 2)
                if start + count > BATCHES:
                    return
                where = TopicPartition(self.topic, partition)
                offsets = (start * BATCH_OFFSETS, (start + count) * BATCH_OFFSETS)
                # With a claim, as every writer: a description without one behind the last segment is one that lost it.
                name = ClaimName(from_offset=offsets[0])
                claim = RangeClaim(to_offset=offsets[1] - 1, extension=self._form, raw_bytes=1, writer="test")
                store.create(f"{self.topic}/{partition}/{name}", encode_claim(claim, name))
                write_segment(store, where, self._content[partition], *offsets, form=self._form)
                store.delete(f"{self.topic}/{partition}/{name}")
                self._batches[partition] = start + count

    def __enter__(self) -> Self:
        self._mergers.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._mergers.__exit__(kind, error, trace)

    def merged(self) -> list[int]:
        """How many files each of the mergers has made."""
        return [sum(row["result"] == "merged" for row in rows) for rows in self._mergers.rows]

    def assert_every_record_once(self, found: Found, before: list[int], after: list[int]) -> None:
        """It is all there was at some time between, for each partition."""
        for partition, records in enumerate(self.records):
            end = max(found[partition], default=-1) + 1
            end = -(-end // BATCH_OFFSETS) * BATCH_OFFSETS  # segments end behind the offsets without a record
            assert before[partition] <= end <= after[partition], (partition, before, after, end)
            expected = {offset: (each.key, each.value) for offset, each in records.items() if offset < end}
            assert found[partition] == expected, f"partition {partition}: {len(found[partition])} of {len(expected)}"


def some_records(partition: int) -> dict[int, Record]:
    records = simple_records(BATCHES * BATCH_RECORDS, start=partition * 100_000, size=100)
    return {
        number // BATCH_RECORDS * BATCH_OFFSETS + number % BATCH_RECORDS: each for number, each in enumerate(records)
    }


def held(records: Mapping[int, Record]) -> HeldPartition:
    return held_records(
        (base, build_batch([records[base + n] for n in range(BATCH_RECORDS)]))
        for base in range(0, BATCHES * BATCH_OFFSETS, BATCH_OFFSETS)
    )


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    with build_session(SessionSettings(lanes=2, batch_slots=0, uses_sql=True)) as session:
        register(session.spark)
        yield session.spark


@pytest.fixture(params=["filesystem", "bucket", pytest.param("filesystem-ndjson", marks=pytest.mark.soak)])
def scene(request: pytest.FixtureRequest, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Scene:
    lake: Lake = tmp_path / "lake"
    if request.param == "bucket":
        server: ObjectServer = request.getfixturevalue("versitygw")
        lake = server.settings()
    else:
        (tmp_path / "lake").mkdir()
    form = "ndjson" if request.param == "filesystem-ndjson" else "parquet"
    return Scene(lake, topic_name, tmp_path, destination_kafka.bootstrap_servers, form=form)


def rows_found(rows: list[Any]) -> Found:
    found: Found = {partition: {} for partition in range(PARTITIONS)}
    for row in rows:
        assert row["offset"] not in found[row["partition"]], f"{row} is there twice"
        found[row["partition"]][row["offset"]] = tuple(  # type: ignore[assignment]
            None if each is None else bytes(each) for each in (row["key"], row["value"])
        )
    return found


def frame(scene: Scene, spark: Any, _round: int) -> Found:
    options = {"config": str(scene.config), "store": "lake", "topics": scene.topic}
    options["columns"] = "partition,offset,key,value"
    return rows_found(spark.read.format("mirrorlake").options(**options).load().collect())


def query(scene: Scene, spark: Any, _round: int) -> Found:
    config = load_configuration(scene.config)
    asked = prepare(config, f"select partition, offset, key, value from lake.`{scene.topic}`")
    return rows_found(run_query(spark, config, asked).collect())


def restore(scene: Scene, _spark: Any, number: int) -> Found:
    topic = f"{scene.topic}.{number}"
    given = ("--store", "lake", "--topics", scene.topic, "--to", "west", "--rename", topic, "--name", topic, "--yes")
    ended = without_spark("restore", "-c", scene.config, *given)
    assert ended.code == 0, ended.err
    copied = {each: consume(scene.destination, topic, each) for each in range(PARTITIONS)}
    return {each: {o: (record.key, record.value) for o, record in of.items()} for each, of in copied.items()}


def command(scene: Scene, _spark: Any, _round: int) -> Found:
    """``mirrorlake sql`` as people run it, with a session of its own."""
    text = f"select partition, offset, hex(key) as key, hex(value) as value from lake.`{scene.topic}`"
    done = subprocess.run(
        [sys.executable, "-m", "mirrorlake", "sql", "-c", str(scene.config), "--format", "json", text],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return rows_found([{**row, **{name: bytes.fromhex(row[name]) for name in ("key", "value")}} for row in rows])


Reader = Callable[[Scene, Any, int], Found]


def read_again_and_again(scene: Scene, spark: Any, reader: Reader, *, rounds: int) -> int:
    """Returns in how many rounds files of the archive went while it was read."""
    overtaken = 0
    for number in range(rounds):
        names, before = scene.names(), scene.ends()
        found = reader(scene, spark, number)
        scene.assert_every_record_once(found, before, scene.ends())
        overtaken += bool(names - scene.names())
    return overtaken


@pytest.mark.spark
def test_restores_and_queries_beside_two_rival_merges_and_a_writer_have_every_record_once(
    scene: Scene, spark: Any
) -> None:
    with scene, ThreadPoolExecutor(4) as readers:
        turns = {frame: ROUNDS, query: ROUNDS, restore: ROUNDS, command: 1}
        reading = {
            each: readers.submit(read_again_and_again, scene, spark, each, rounds=n) for each, n in turns.items()
        }
        overtaken = {each.__name__: future.result() for each, future in reading.items()}
    assert all(overtaken.values()), f"no merge was at work while it read: {overtaken}"
    assert all(scene.merged()), scene.merged()
    for partition, records in enumerate(scene.records):
        archived = scene.archived(partition)
        end = archived.read_chain().position
        check_archived_content(archived)
        read = [records_of(each) for each in read_archived_range(archived, OffsetRange(start_offset=0, end_offset=end))]
        assert sum(map(len, read)) == len(dict(ChainMap(*read)))
        assert_same_records({o: each for o, each in records.items() if o < end}, dict(ChainMap(*read)))


CHECKED = (
    ("archive", "ls"),
    ("archive", "check"),
    ("archive", "check", "--level", "checksums"),
    ("archive", "snapshot"),
)


def ask_again_and_again(scene: Scene, verb: Sequence[str]) -> int:
    """Returns in how many rounds files of the archive went while it was looked at."""
    overtaken = 0
    for _ in range(2 * ROUNDS):
        names, before = scene.names(), scene.ends()
        ended = without_spark(*verb, "-c", scene.configs["patient"], "--format", "json")
        assert ended.code == 0, ended.err + ended.out
        rows = {row["partition"]: row for row in ended.rows() if row["name"] == scene.topic}
        for partition in range(PARTITIONS):
            end = rows[partition]["end" if "snapshot" in verb else "position"]
            assert before[partition] <= end <= scene.ends()[partition], ended.out
        overtaken += bool(names - scene.names())
    return overtaken


def test_checks_and_snapshots_beside_two_rival_merges_and_a_writer_find_nothing_wrong(scene: Scene) -> None:
    with scene, ThreadPoolExecutor(len(CHECKED)) as asking:
        asked = {" ".join(verb): asking.submit(ask_again_and_again, scene, verb) for verb in CHECKED}
        overtaken = {verb: future.result() for verb, future in asked.items()}
    assert any(overtaken.values()), "no merge was at work meanwhile"
    assert all(scene.merged()), scene.merged()
