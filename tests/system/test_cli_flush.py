"""When a running service cuts a segment though little waits: at a time of day, and before the source deletes."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import (
    archive_position,
    archived_records,
    assert_equal_in_archive,
    assert_same_records,
    create_topic,
    wait_until,
)
from support.golden import segment_name
from support.mirrors import write_config
from support.records import consume, in_batches, produce, simple_records
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka


class Archived:
    """A topic of one partition that is archived, and what its service said."""

    def __init__(self, source: EmbeddedKafka, topic: str, folder: Path, run_async: RunAsync) -> None:
        self.source, self.topic, self.folder, self.root = source.bootstrap_servers, topic, folder, folder / "lake"
        self.written = 0
        self._run_async = run_async

    def write(self, count: int, *, at: datetime) -> None:
        records = simple_records(count, start=self.written, timestamp=int(at.timestamp() * 1000))
        self._run_async(produce(self.source, self.topic, 0, list(in_batches(records, 50))))
        self.written += count

    def config(self, daily_at_utc: str | None = None) -> Path:
        return write_config(
            self.folder / "mirror.yaml",
            source=self.source,
            topic=self.topic,
            lake=self.root,
            max_time="1h",
            daily_at_utc=daily_at_utc,
        )

    def run(self, config: Path) -> ServiceProcess:
        return ServiceProcess("run", "-c", str(config), folder=self.folder, without_spark=True)

    @property
    def position(self) -> int:
        return archive_position(self.root, self.topic)


@pytest.fixture
def archived(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync) -> Archived:
    return Archived(source_kafka, topic_name, tmp_path, run_async)


@pytest.mark.slow
def test_what_was_there_at_the_daily_time_becomes_a_segment_also_where_nobody_ran_then(archived: Archived) -> None:
    create_topic(archived.source, archived.topic)
    now = datetime.now(UTC).replace(microsecond=0)
    archived.write(30, at=now - timedelta(minutes=50))
    archived.write(7, at=now - timedelta(minutes=10))
    missed = archived.config(daily_at_utc=(now - timedelta(minutes=30)).strftime("%H:%M:%S"))
    with archived.run(missed) as service:
        wait_until(lambda: archived.position == 30, "what was there half an hour ago", log=service.said)
        service.kill()
    daily = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=30)  # long enough for a start
    with archived.run(archived.config(daily_at_utc=daily.strftime("%H:%M:%S"))) as service:
        service.await_words("lag=7")
        archived.write(5, at=now)
        wait_until(lambda: archived.position == 42, "the daily time", log=service.said)
        assert datetime.now(UTC) >= daily, "before its time"
        service.await_words("trigger=daily")
        assert service.said().count("trigger=daily") == 1
        archived.write(3, at=now)
        time.sleep(2.0)
        assert archived.position == 42
        service.stop()
        assert service.exit_code() == 0, service.said()
        assert service.said().count("trigger=explicit") == 1
    assert assert_equal_in_archive(archived.source, archived.root, archived.topic) == 45


def test_the_mirror_v3_form_makes_a_snapshot_at_the_daily_time(archived: Archived) -> None:
    create_topic(archived.source, archived.topic)
    now = datetime.now(UTC).replace(microsecond=0)
    archived.write(30, at=now - timedelta(minutes=50))
    archived.write(7, at=now - timedelta(minutes=10))
    at_utc = (now - timedelta(minutes=30)).strftime("%H:%M")
    config = write_yaml(
        archived.folder / "mirror-v3.yaml",
        f"destination:\n  type: filesystem\n  root: {archived.root}\n  compaction: log\n"
        "  flush: {max-time-ms: 999999999, max-bytes: 999999999, max-offsets: 999999999, "
        f"daily: {{at-utc: '{at_utc}'}}}}\n"
        f"mirrors:\n  - {{name: m, source: {{bootstrap-servers: '{archived.source}'}}, topic: {archived.topic}, "
        "partition: 0}\n",
    )
    environ = {"MIRROR_V3_METRICS_PORT": "0"}
    with ServiceProcess(
        "run", "-c", str(config), folder=archived.folder, environ=environ, without_spark=True
    ) as service:
        folder = archived.root / archived.topic / "0"
        wait_until(lambda: (folder / segment_name(0, 29)).exists(), "the snapshot", log=service.said)
        service.await_words("trigger=daily")  # said when its lease has ended
        service.stop()
        assert service.exit_code() == 0, service.said()
    assert sorted(path.name for path in folder.iterdir()) == [segment_name(0, 29), segment_name(30, 36)]


@pytest.mark.slow
def test_what_the_source_deletes_was_archived_before(
    new_kafka: NewKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    source = new_kafka(log_retention_check_interval_ms=1000)
    archived = Archived(source, topic_name, tmp_path, run_async)
    create_topic(archived.source, archived.topic, retention_ms="30000")
    config = archived.config()
    with archived.run(config) as service:
        service.await_words("heartbeat")
        archived.write(1, at=datetime.now(UTC))
        written = datetime.now(UTC)
        archived.write(39, at=written)
        there = consume(archived.source, archived.topic, 0)
        planned = mirrorlake("plan", "-c", config)
        told = "the source deletes records older than 30 s, and `flush` lets a record wait for 1 h"
        assert told in planned.out, planned
        wait_until(lambda: archived.position == 40, "half of the retention", log=service.said)
        service.await_words("trigger=retention")
        wait_until(lambda: not consume(archived.source, archived.topic, 0), "the deletion", log=service.said)
        assert datetime.now(UTC) >= written + timedelta(seconds=30)
        service.stop()
        assert service.exit_code() == 0, service.said()
    assert_same_records(there, archived_records(archived.root, archived.topic))
    assert len(there) == 40
