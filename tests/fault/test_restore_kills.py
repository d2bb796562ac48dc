"""``mirrorlake restore`` killed again and again while its archive grows: what it brings back comes out equal."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.opening import open_store
from support.archived_source import held_records, mark, settings_at, write_segment
from support.command import write_yaml
from support.copies import assert_same_records, log_end, wait_until
from support.records import Record, build_batch, consume, simple_records
from support.service_process import ServiceProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MODES = ("preserve", "map")
LIVES = 3
BATCH_RECORDS = 10
BATCH_OFFSETS = 13
"""Behind each batch lie offsets without a record."""
BATCHES = 600
BATCHES_AT_FIRST = 150
FORMS = ("log", "parquet", "ndjson")


def expected_records(batches: int) -> dict[int, Record]:
    records = simple_records(batches * BATCH_RECORDS, size=200)
    return {
        number // BATCH_RECORDS * BATCH_OFFSETS + number % BATCH_RECORDS: each for number, each in enumerate(records)
    }


class GrowingArchive:
    """An archive of one partition to which a segment of any format is added several times a second, until left."""

    def __init__(self, root: Path, where: TopicPartition, chance: random.Random) -> None:
        root.mkdir()
        records = simple_records(BATCHES * BATCH_RECORDS, size=200)
        self._content = held_records(
            (number * BATCH_OFFSETS, build_batch(records[number * BATCH_RECORDS : (number + 1) * BATCH_RECORDS]))
            for number in range(BATCHES)
        )
        self._store = open_store(settings_at(root))
        self._where, self._chance = where, chance
        self.batches = 0
        while self.batches < BATCHES_AT_FIRST:
            self._grow()
        mark(self._store, where, self.batches * BATCH_OFFSETS, form="log")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._grow_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _grow_on(self) -> None:
        while not self._is_over.wait(self._chance.uniform(0.05, 0.5)) and self.batches < BATCHES - 5:
            self._grow()

    def _grow(self) -> None:
        start, count = self.batches, self._chance.randint(1, 5)
        write_segment(
            self._store,
            self._where,
            self._content,
            start * BATCH_OFFSETS,
            (start + count) * BATCH_OFFSETS,
            form=self._chance.choice(FORMS),
        )
        self.batches = start + count


def restore(config: Path, where: TopicPartition, mode: str) -> ServiceProcess:
    given = ("--store", "lake", "--topics", where.topic, "--to", "west", "--rename", f"{where.topic}.{mode}", "--yes")
    more = ("--offsets", mode, "--name", f"{where.topic}-{mode}")
    return ServiceProcess("restore", "-c", str(config), *given, *more, folder=config.parent, without_spark=True)


def test_a_restore_killed_again_and_again_while_the_archive_grows_brings_every_record_back_once(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    """Both modes side by side: each waits for some seconds until it takes the one that was killed for dead."""
    servers, chance = destination_kafka.bootstrap_servers, random.Random(5)
    where = TopicPartition(topic_name, 0)
    config = write_yaml(
        tmp_path / "restore.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{servers}"}}
stores:
  lake: {{type: filesystem, root: {tmp_path / "lake"}}}
  other: {{type: filesystem, root: {tmp_path}}}
mirrors:
  - name: other-{topic_name}
    source: {{store: lake, topics: [other]}}
    destinations: [{{type: archive, store: other}}]
engine: {{lanes: 1, lease: 1s, memory: 512MiB}}
""",
    )
    ends = dict.fromkeys(MODES, 0)
    killed_at_work = dict.fromkeys(MODES, 0)
    with GrowingArchive(tmp_path / "lake", where, chance) as growing:

        def live(mode: str, seconds: float) -> None:
            with restore(config, where, mode) as life:
                await_growth(servers, where, mode, ends, life)
                time.sleep(seconds)
                killed_at_work[mode] += life.is_running
                life.kill()
            ends[mode] = end_of(servers, where, mode)

        # Each is watched by a thread of its own: while one waits for its mirror the other may copy and end.
        with ThreadPoolExecutor(len(MODES)) as watchers:
            for _ in range(LIVES):
                list(watchers.map(live, MODES, [chance.uniform(0.0, 0.6) for _ in MODES]))
    assert all(killed_at_work.values()), f"none of them was at work when it was killed: {killed_at_work}"
    expected = expected_records(growing.batches)
    for life in [restore(config, where, mode) for mode in MODES]:
        with life:
            assert life.exit_code() == 0, life.said()
    assert_same_records(expected, consume(servers, f"{where.topic}.preserve", 0))
    assert log_end(servers, f"{where.topic}.preserve") == growing.batches * BATCH_OFFSETS
    assert [*consume(servers, f"{where.topic}.map", 0).values()] == [*expected.values()]


def end_of(servers: str, where: TopicPartition, mode: str) -> int:
    return log_end(servers, f"{where.topic}.{mode}")


def await_growth(servers: str, where: TopicPartition, mode: str, ends: dict[str, int], life: ServiceProcess) -> None:
    """Waits until the copy is longer than it was when the life before was killed."""
    wait_until(
        lambda: not life.is_running or end_of(servers, where, mode) > ends[mode], f"progress of {mode}", log=life.said
    )
    assert end_of(servers, where, mode) > ends[mode], life.said()
