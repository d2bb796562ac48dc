"""Somebody meddles with the newest file of an archive while the service runs, idle or under load."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import obstore
import pytest

from conftest import RunAsync
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_PARKED
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from support.command import write_yaml
from support.copies import archive_position, create_topic, source_end, wait_until
from support.load import Load
from support.mirrors import store_section, write_config
from support.object_servers import ObjectServer
from support.records import Record, consume, in_batches, produce, simple_records
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka


def newest(folder: Path) -> Path:
    return max(path for path in folder.iterdir() if parse_segment_name(path.name))


def delete(folder: Path) -> str:
    tail = newest(folder)
    tail.unlink()
    return tail.name


def alter(folder: Path) -> str:
    tail = newest(folder)
    whole = tail.read_bytes()
    tail.unlink()
    tail.write_bytes(whole[:-1])
    return tail.name


def add_foreign(folder: Path) -> str:
    """A file that goes on where the chain ends, by its name."""
    name = parse_segment_name(newest(folder).name)
    assert name is not None
    # One that a service under load cannot have written meanwhile.
    for end in itertools.count(name.end_offset):
        foreign = folder / str(SegmentName(from_offset=name.end_offset, to_offset=end + 999_999, extension="parquet"))
        foreign.write_bytes(b"not ours")
        return foreign.name
    raise AssertionError


HARMS = (delete, alter, add_foreign)
UNHARMED = len(HARMS)
"""Partition ``n`` suffers harm ``n``; the last one none."""


@contextmanager
def archiving(source: EmbeddedKafka, topic: str, folder: Path, run_async: RunAsync) -> Iterator[ServiceProcess]:
    """A service that archives partitions of 20 records each, and looks at their tails every second."""
    servers = source.bootstrap_servers
    create_topic(servers, topic, UNHARMED + 1)
    for partition in range(UNHARMED + 1):
        run_async(produce(servers, topic, partition, list(in_batches(simple_records(20), 10))))
    root = folder / "lake"
    config = write_config(
        folder / "mirror.yaml", source=servers, topic=topic, lake=root, max_time="1s", more_engine=", tail-check: 1s"
    )
    with ServiceProcess("run", "-c", str(config), folder=folder, without_spark=True) as service:
        wait_until(lambda: positions(root, topic) == [20] * (UNHARMED + 1), "20 records each", log=service.said)
        yield service


def positions(root: Path, topic: str) -> list[int]:
    return [archive_position(root, topic, partition) for partition in range(UNHARMED + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_newest_file_that_was_meddled_with_stops_its_partition_alone_and_is_named(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync, is_busy: bool
) -> None:
    root = tmp_path / "lake"
    servers = source_kafka.bootstrap_servers
    with archiving(source_kafka, topic_name, tmp_path, run_async) as service:
        with Load(servers, topic_name, partitions=UNHARMED, pause_seconds=0.05) if is_busy else nullcontext():
            if is_busy:
                wait_until(lambda: min(positions(root, topic_name)[:UNHARMED]) > 40, "the load", log=service.said)
            names = [harm(root / topic_name / str(partition)) for partition, harm in enumerate(HARMS)]
            service.await_words("partition parked", times=UNHARMED)
        parked = [line for line in service.said().splitlines() if "partition parked" in line]
        for partition, name in enumerate(names):
            (line,) = [line for line in parked if f"partition={partition} " in line]
            assert name in line
            assert "reason=chain-broken" in line
        more = list(in_batches(simple_records(5, start=20), 5))
        run_async(produce(servers, topic_name, UNHARMED, more))
        wait_until(lambda: archive_position(root, topic_name, UNHARMED) == 25, "the last partition", log=service.said)
        assert service.said().count("partition parked") == UNHARMED, service.said()
        service.stop()
        assert service.exit_code() == EXIT_PARKED, service.said()


def raw_bytes(record: Record) -> int:
    """What mirror-v3 counts of a record on a file system, and did not in a bucket: its headers, too."""
    fields = [record.key, record.value, *(part for key, value in record.headers for part in (key.encode(), value))]
    return sum(len(field) for field in fields if field is not None)


def footer_bytes(store: ObjectStore, key: str) -> int:
    with open_segment(store, key) as segment:
        assert segment.footer is not None
        return segment.footer.raw_bytes


FORMATS = ("parquet", "ndjson", "log", "snapshots", "bucket")


@pytest.mark.slow
def test_every_format_and_store_goes_on_under_load_and_stops_where_its_newest_file_is_gone(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, moto: ObjectServer
) -> None:
    servers, root, bucket = source_kafka.bootstrap_servers, tmp_path / "lake", moto.settings()
    root.mkdir()
    create_topic(servers, topic_name)
    flush = "flush: {max-time: 1s}"
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}}}\n'
        f"stores:\n  disk: {store_section(root, tmp_path)}\n  bucket: {store_section(bucket, tmp_path)}\n"
        f"mirrors:\n  - name: m\n    source: {{cluster: east, topics: [{topic_name}]}}\n    destinations:\n"
        + "".join(
            f"      - {{type: archive, store: disk, name: {name}, format: {name}, {flush}}}\n" for name in FORMATS[:3]
        )
        + f"      - {{type: archive, store: disk, name: snapshots, compaction: log, {flush}}}\n"
        f"      - {{type: archive, store: bucket, name: bucket, {flush}}}\n"
        "engine: {lanes: 2, lease: 2s, memory: 512MiB, tail-check: 1s}\n",
    )

    def segments(name: str) -> list[str]:
        if name == "bucket":
            keys = [key.rpartition("/")[2] for key in moto.keys(bucket.prefix)]
        else:
            folder = root / name / "0"
            keys = [path.name for path in folder.iterdir()] if folder.exists() else []
        return sorted(key for key in keys if parse_segment_name(key))

    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        with Load(servers, topic_name, pause_seconds=0.05):
            wait_until(lambda: all(len(segments(name)) >= 5 for name in FORMATS), "segments", log=service.said)
        assert "partition parked" not in service.said(), service.said()
        assert "trying again" not in service.said(), service.said()
        last = f"{source_end(servers, topic_name) - 1:020}"
        wait_until(lambda: {segments(name)[-1].partition(".")[0][21:] for name in FORMATS} == {last}, "equal ends")
        stores = {name: FilesystemStore(root) for name in FORMATS[:-1]} | {"bucket": open_store(bucket)}
        counted = {
            name: sum(footer_bytes(stores[name], f"{name}/0/{segment}") for segment in segments(name))
            for name in ("parquet", "ndjson", "bucket")
        }
        assert counted == dict.fromkeys(counted, sum(map(raw_bytes, consume(servers, topic_name, 0).values())))
        gone = {name: segments(name)[-1] for name in FORMATS}
        for name in FORMATS[:-1]:
            (root / name / "0" / gone[name]).unlink()
        obstore.delete(moto.client(), f"{bucket.prefix}/bucket/0/{gone['bucket']}")
        service.await_words("partition parked", times=len(FORMATS))
        parked = [line for line in service.said().splitlines() if "partition parked" in line]
        for name in FORMATS:
            (line,) = [line for line in parked if f"{name}/0" in line]
            assert gone[name] in line
            assert "reason=chain-broken" in line


def test_a_segment_that_was_deleted_under_load_stops_its_partition_however_many_have_followed_it(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, moto: ObjectServer
) -> None:
    """Segments follow one another within milliseconds: the newest is another one by the time anybody looks.

    Of snapshots the newest alone counts: one that others have followed may go, and nobody is told.
    """
    chained = [name for name in FORMATS if name != "snapshots"]
    servers, root, bucket = source_kafka.bootstrap_servers, tmp_path / "lake", moto.settings()
    root.mkdir()
    create_topic(servers, topic_name)
    flush = "flush: {max-records: 20, max-time: 1s}"
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{servers}"}}}}\n'
        f"stores:\n  disk: {store_section(root, tmp_path)}\n  bucket: {store_section(bucket, tmp_path)}\n"
        f"mirrors:\n  - name: m\n    source: {{cluster: east, topics: [{topic_name}]}}\n    destinations:\n"
        + "".join(
            f"      - {{type: archive, store: disk, name: {name}, format: {name}, {flush}}}\n" for name in FORMATS[:3]
        )
        + f"      - {{type: archive, store: disk, name: snapshots, compaction: log, {flush}}}\n"
        f"      - {{type: archive, store: bucket, name: bucket, {flush}}}\n"
        "engine: {lanes: 2, memory: 512MiB, tail-check: 2s}\n",
    )

    def keys(name: str) -> list[str]:
        if name == "bucket":
            return sorted(key for key in moto.keys(f"{bucket.prefix}/bucket/0"))
        return sorted(str(path.relative_to(root)) for path in (root / name / "0").glob("*"))

    def ranges(name: str) -> list[SegmentName]:
        return [found for key in keys(name) if (found := parse_segment_name(key.rpartition("/")[2]))]

    def delete_newest(name: str) -> SegmentName:
        gone = ranges(name)[-1]
        (key,) = (key for key in keys(name) if key.endswith(str(gone)))
        if name == "bucket":
            obstore.delete(moto.client(), key)
        else:
            (root / key).unlink()
        return gone

    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        with Load(servers, topic_name, pause_seconds=0.05):
            wait_until(lambda: all(len(ranges(name)) >= 3 for name in chained), "segments", log=service.said)
            gone = {name: delete_newest(name) for name in chained}
            service.await_words("partition parked", times=len(chained))
        parked = [line for line in service.said().splitlines() if "partition parked" in line]
    for name in chained:
        (line,) = [line for line in parked if f"{name}/0" in line]
        assert "reason=chain-broken" in line
        assert str(gone[name]) in line or f"expected a segment from {gone[name].from_offset}" in line, line


@pytest.mark.slow
def test_a_file_that_another_process_of_this_mirror_has_written_is_no_drift(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    root = tmp_path / "lake"
    other = tmp_path / "other"
    other.mkdir()
    with archiving(source_kafka, topic_name, tmp_path, run_async) as service:
        config = write_config(
            other / "mirror.yaml", source=source_kafka.bootstrap_servers, topic=topic_name, lake=root, max_time="1s"
        )
        with ServiceProcess("run", "-c", str(config), folder=other, without_spark=True) as rival:
            rival.await_words("starting mirror ", times=UNHARMED + 1)
            with Load(source_kafka.bootstrap_servers, topic_name, partitions=2, pause_seconds=0.05):
                service.await_words("flushed batch", times=6)
                rival.await_words("flushed batch", times=4)
            for each in (rival, service):
                each.stop()
                assert each.exit_code() == 0, each.said()
                assert "partition parked" not in each.said(), each.said()
