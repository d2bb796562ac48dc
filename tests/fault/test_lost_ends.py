"""`on-truncation: skip` of a service that dies or stops, and whose archive has lost its newest segments meanwhile."""

import json
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import wait_until
from support.lossy_archive import LossyArchive
from support.service_process import ServiceProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(params=["parquet", "ndjson", "log", "parquet in a bucket"])
def archive(
    request: pytest.FixtureRequest, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> LossyArchive:
    form, _, place = request.param.partition(" ")
    bucket = request.getfixturevalue("versitygw") if place else None
    return LossyArchive(source_kafka.bootstrap_servers, topic_name, tmp_path, form=form, bucket=bucket)


def archive_by(service: ServiceProcess, archive: LossyArchive, count: int) -> None:
    """Makes a segment of so many records."""
    first = archive.count
    archive.add(count)
    wait_until(lambda: archive.segments()[-1:] == [(first, archive.count - 1)], "a segment", log=service.said)


def recorded_end(archive: LossyArchive) -> int:
    paths = archive.records_of_topic
    newest = max(paths, key=lambda path: path.stat().st_mtime_ns, default=None)
    reached = json.loads(newest.read_text())["reached"] if newest is not None else {}
    return int(reached.get("0", 0))


def assert_refused(archive: LossyArchive) -> None:
    before = archive.segments()
    ended = archive.run()
    assert ended.code == 3, ended.err
    assert "reason=chain-broken" in ended.err
    assert "had reached offset 20" in ended.err
    assert archive.segments() == before, "nothing was published"


def test_a_service_passes_over_nothing_that_it_has_seen_archived_nor_does_the_next_one(archive: LossyArchive) -> None:
    archive.archive(10)
    with archive.service(tail_check="1h") as service:
        archive_by(service, archive, 10)
        archive.lose(10, 19)
        archive.truncate(20)
        archive.add(5)
        service.await_words("partition parked")
        assert "reason=chain-broken" in service.said()
        service.stop()
        assert service.exit_code() is not None
    assert archive.segments() == [(0, 9)]
    assert_refused(archive)


def test_what_a_killed_service_archived_is_known_once_another_run_has_begun(archive: LossyArchive) -> None:
    archive.archive(10)
    with archive.service(tail_check="1h") as service:
        archive_by(service, archive, 10)
        service.kill()
    assert archive.run().code == 0
    archive.lose(10, 19)
    archive.truncate(20)
    archive.add(5)
    assert_refused(archive)


def test_what_a_service_has_missed_is_known_after_it_is_killed(archive: LossyArchive) -> None:
    archive.archive(10)
    with archive.service(tail_check="1s") as service:
        archive_by(service, archive, 10)
        archive.lose(10, 19)
        service.await_words("partition parked")
        wait_until(lambda: recorded_end(archive) == 20, "how far it had come", log=service.said)
        service.kill()
    archive.truncate(20)
    archive.add(5)
    assert_refused(archive)
