"""A configuration of mirror-v3 runs unmodified: its file names, triggers, metrics, environment and exit codes."""

import re
import shutil
import socket
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import read_archived_range
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.filesystem import FilesystemStore
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import archived_records, assert_same_records, create_topic, wait_until
from support.golden import segment_name, write_mirror_v3_segment
from support.marker_names import without_markers
from support.records import Record, consume, every_kind, simple_records
from support.segments import records_of
from support.service_process import ServiceProcess
from support.topics import append, make_topic, topics_of

SIX_SERIES = {
    "mirror_v3_destination_offset_verified",
    "mirror_v3_destination_offset_inflight_retry",
    "mirror_v3_destination_records_total",
    "mirror_v3_destination_last_flush_timestamp_seconds",
    "mirror_v3_destination_bytes_total",
    "mirror_v3_destination_flushes_total",
}
GOLDEN = Path(__file__).parents[1] / "golden" / "mirror_v3"
NO_METRICS = {"MIRROR_V3_METRICS_PORT": "0"}
LONG_MS = 3_600_000


def mirrors(source: EmbeddedKafka, *named: tuple[str, str, int, str]) -> str:
    """Name, topic, partition and override of each mirror, as mirror-v3 wants them."""
    return "mirrors:\n" + "".join(
        f"  - name: {name}\n    source:\n      bootstrap-servers: {source.bootstrap_servers}\n"
        f"    topic: {topic}\n    partition: {partition}\n"
        + (f"    destination-name-override: {override}\n" if override else "")
        for name, topic, partition, override in named
    )


def filesystem(root: Path, *, max_time_ms: int, max_bytes: int = 1 << 30, max_offsets: int = 1 << 30) -> str:
    return (
        f"destination:\n  type: filesystem\n  root: {root}\n  flush:\n    max-time-ms: {max_time_ms}\n"
        f"    max-bytes: {max_bytes}\n    max-offsets: {max_offsets}\n"
    )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def scrape(port: int) -> dict[tuple[str, str], float]:
    """The samples of ``/metrics`` by name and labels, as text."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    samples = {}
    for line in lines:
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.partition("{")
            samples[name, labels.rstrip("}")] = float(value)
    return samples


def verified(samples: dict[tuple[str, str], float], topic: str) -> list[float | None]:
    """What is safe of each of four partitions."""
    return [
        samples.get(("mirror_v3_destination_offset_verified", f'partition="{partition}",topic="{topic}"'))
        for partition in range(4)
    ]


def flush_triggers(log: str) -> dict[tuple[str, int, int], str]:
    """Why each file was cut, by mirror, first and last offset."""
    return {
        (m[2], int(m[1]), int(m[4])): m[5]
        for m in re.finditer(
            r"flushed batch .*?from=(\d+) .*?mirror=(\S+) partition=(\d+) path=\S+ to=(\d+) .*?trigger=(\S+)", log
        )
    }


@dataclass(frozen=True)
class Archived:
    """What is left of a service that archived four partitions and was stopped."""

    root: Path
    topic: str
    log: str
    exit_code: int
    first_metrics: dict[tuple[str, str], float]
    metrics: dict[tuple[str, str], float]
    golden: bytes


@pytest.fixture(scope="module")
def archived(source_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Archived:
    """Partition 0 has every kind of record, 1 continues an archive of mirror-v3, 2 is large, 3 is archived wholly."""
    folder = tmp_path_factory.mktemp("v3")
    root, topic = folder / "archive", f"v3-{folder.name}"
    kinds, small = every_kind(3), simple_records(25)
    large = [Record(1_700_000_000_000 + n, None, bytes([n]) * 900) for n in range(4)]
    make_topic(source_kafka.bootstrap_servers, topic, kinds, small, large, small[:5])
    golden = write_mirror_v3_segment(root / topic / "1", topic, 1, 0, small[:12])
    write_mirror_v3_segment(root / topic / "3", topic, 3, 0, small[:5])
    port = free_port()
    config = write_yaml(
        folder / "mirror-v3.yaml",
        filesystem(root, max_time_ms=1000, max_bytes=1500, max_offsets=10)
        + mirrors(
            source_kafka,
            ("kinds", topic, 0, "renamed"),
            ("continued", topic, 1, ""),
            ("large", topic, 2, ""),
            ("whole", topic, 3, ""),
        ),
    )
    environ = {"MIRROR_V3_METRICS_PORT": str(port)}
    with ServiceProcess("run", "-c", str(config), folder=folder, environ=environ, without_spark=True) as service:
        service.await_words("starting mirror ", times=4)
        first_metrics = scrape(port)
        wait_until(lambda: verified(scrape(port), topic) == [len(kinds), 25, 4, 5], f"all of {topic} to be archived")
        metrics = scrape(port)
        service.stop()
        exit_code = service.exit_code()
        log = service.said()
    return Archived(root, topic, log, exit_code, first_metrics, metrics, golden.read_bytes())


def test_a_service_that_is_asked_to_stop_ends_with_code_0(archived: Archived) -> None:
    assert archived.exit_code == 0, archived.log
    assert "received SIGTERM; requesting graceful shutdown" in archived.log
    assert archived.log.count("mirror task terminated gracefully") == 4


def test_files_have_the_names_mirror_v3_promises_below_topic_or_override_and_partition(archived: Archived) -> None:
    paths = [str(path) for path in archived.root.rglob("*") if path.is_file()]
    names = sorted(name.removeprefix(f"{archived.root}/") for name in without_markers(paths, str(archived.root)))

    topic = archived.topic
    assert names == sorted(
        [
            *(f"renamed/0/{segment_name(*ends)}" for ends in ((0, 9), (10, 19), (20, 29), (30, 35))),
            *(f"{topic}/1/{segment_name(*ends)}" for ends in ((0, 11), (12, 21), (22, 24))),
            *(f"{topic}/2/{segment_name(*ends)}" for ends in ((0, 1), (2, 3))),
            f"{topic}/3/{segment_name(0, 4)}",
        ]
    )


def test_each_file_was_cut_by_the_trigger_that_came_first(archived: Archived) -> None:
    assert flush_triggers(archived.log) == {
        ("kinds", 0, 9): "max-offsets",
        ("kinds", 10, 19): "max-offsets",
        ("kinds", 20, 29): "max-offsets",
        ("kinds", 30, 35): "max-time",
        ("continued", 12, 21): "max-offsets",
        ("continued", 22, 24): "max-time",
        ("large", 0, 1): "max-bytes",
        ("large", 2, 3): "max-bytes",
    }


def test_an_archive_of_mirror_v3_is_continued_and_its_files_stay_as_they_are(
    archived: Archived, source_kafka: EmbeddedKafka
) -> None:
    there = consume(source_kafka.bootstrap_servers, archived.topic, 1)

    assert_same_records(there, archived_records(archived.root, archived.topic, 1))
    assert (archived.root / archived.topic / "1" / segment_name(0, 11)).read_bytes() == archived.golden


def test_every_record_is_archived_with_its_offset_key_value_and_headers(
    archived: Archived, source_kafka: EmbeddedKafka
) -> None:
    there = consume(source_kafka.bootstrap_servers, archived.topic, 0)
    table = pq.read_table(archived.root / "renamed" / "0" / segment_name(0, 9))

    assert_same_records(there, archived_records(archived.root, "renamed", 0))
    assert (table["topic"].to_pylist(), table["partition"].to_pylist()) == ([archived.topic] * 10, [0] * 10)


def test_the_six_series_of_mirror_v3_have_its_labels_and_count_what_was_done(archived: Archived) -> None:
    topic, metrics = archived.topic, archived.metrics
    labels = f'partition="0",topic="{topic}"'
    files = sorted((archived.root / "renamed" / "0").iterdir())

    shown = {name for name, at in metrics if name.startswith("mirror_v3_") and at == labels}
    assert shown == SIX_SERIES
    assert {at for name, at in metrics if name.startswith("mirror_v3_")} == {
        f'partition="{partition}",topic="{topic}"' for partition in range(4)
    }
    assert metrics["mirror_v3_destination_offset_verified", labels] == 36
    assert metrics["mirror_v3_destination_offset_inflight_retry", labels] == 0
    assert metrics["mirror_v3_destination_records_total", labels] == 36
    assert metrics["mirror_v3_destination_flushes_total", labels] == 4
    assert metrics["mirror_v3_destination_bytes_total", labels] == sum(path.stat().st_size for path in files)
    flushed_at = metrics["mirror_v3_destination_last_flush_timestamp_seconds", labels]
    assert abs(flushed_at - files[-1].stat().st_mtime) < 30


def test_an_archive_that_has_nothing_to_do_is_verified_from_the_start(archived: Archived) -> None:
    labels = f'partition="3",topic="{archived.topic}"'

    assert archived.first_metrics["mirror_v3_destination_offset_verified", labels] == 5
    assert archived.first_metrics["mirror_v3_destination_offset_inflight_retry", labels] == 0


def test_our_own_series_stand_beside_them_with_the_names_of_mirror_and_destination(archived: Archived) -> None:
    labels = f'destination="filesystem",mirror="continued",partition="1",topic="{archived.topic}"'

    assert archived.metrics["mirrorlake_position_offset", labels] == 25
    assert archived.metrics["mirrorlake_source_end_offset", labels] == 25
    assert archived.metrics["mirrorlake_lag_records", labels] == 0
    assert archived.metrics["mirrorlake_records_total", labels] == 13, "what mirror-v3 archived is not ours"
    assert archived.metrics["mirrorlake_parked_partitions", ""] == 0
    assert {name for name, _ in archived.metrics} >= {
        "mirrorlake_lag_seconds",
        "mirrorlake_bytes_total",
        "mirrorlake_batches_total",
        "mirrorlake_lease_seconds_count",
        "mirrorlake_flush_seconds_count",
        "mirrorlake_build_info",
    }


def test_a_bounded_run_flushes_what_no_trigger_asks_for(
    archived: Archived, source_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    append(source_kafka.bootstrap_servers, archived.topic, 3, simple_records(3, start=5))
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        filesystem(archived.root, max_time_ms=LONG_MS) + mirrors(source_kafka, ("whole", archived.topic, 3, "")),
    )

    ended = mirrorlake("run", "--once", "-c", config, environ=NO_METRICS)

    assert (ended.code, ended.out) == (0, ""), ended.err
    assert flush_triggers(ended.err) == {("whole", 5, 7): "explicit"}
    assert "mirror task terminated gracefully mirror=whole" in ended.err
    there = consume(source_kafka.bootstrap_servers, archived.topic, 3)
    assert_same_records(there, archived_records(archived.root, archived.topic, 3))


@pytest.mark.parametrize(
    ("extension", "folders"),
    [("parquet", ("zstd-1", "zstd-3", "snappy", "lz4", "uncompressed", "a-team/zstd-1")), ("ndjson", ("lines",))],
)
def test_the_golden_archive_of_mirror_v3_is_continued_in_each_codec_and_format(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, extension: str, folders: tuple[str, ...]
) -> None:
    root = tmp_path / "archive"
    shutil.copytree(GOLDEN, root)
    shutil.copytree(GOLDEN / "zstd-1", root / "a-team" / "zstd-1")
    make_topic(source_kafka.bootstrap_servers, topic_name, every_kind(11))
    compression = "" if extension == "ndjson" else "  compression: lz4\n"
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        filesystem(root, max_time_ms=LONG_MS, max_offsets=3)
        + f"  format: {extension}\n{compression}"
        + mirrors(source_kafka, *((f"m-{folder.replace('/', '-')}", topic_name, 0, folder) for folder in folders)),
    )

    ended = mirrorlake("run", "--once", "-c", config, environ=NO_METRICS)

    assert (ended.code, ended.out) == (0, ""), ended.err
    there = {n: record for n, record in consume(source_kafka.bootstrap_servers, topic_name, 0).items() if n >= 6}
    assert len(there) > 3
    for folder in folders:
        archive = ArchivedPartition(FilesystemStore(root), destination_name=folder, partition=0, extension=extension)
        end = archive.read_chain().position
        found = {
            offset: record
            for columns in read_archived_range(archive, OffsetRange(start_offset=6, end_offset=end))
            for offset, record in records_of(columns).items()
        }
        assert_same_records(there, found)
        for old in sorted((GOLDEN / Path(folder).name / "0").iterdir()):
            assert (root / folder / "0" / old.name).read_bytes() == old.read_bytes()
    checked = mirrorlake("archive", "check", "-c", config, "--level", "checksums")
    assert checked.code == 0, checked.out + checked.err


def test_a_description_that_is_lost_does_not_make_a_file_one_of_mirror_v3(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    root = tmp_path / "archive"
    shutil.copytree(GOLDEN / "lines", root / "lines")
    make_topic(source_kafka.bootstrap_servers, topic_name, every_kind(11))
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        filesystem(root, max_time_ms=LONG_MS, max_offsets=1)
        + "  format: ndjson\n"
        + mirrors(source_kafka, ("lines", topic_name, 0, "lines")),
    )
    ended = mirrorlake("run", "--once", "-c", config, environ=NO_METRICS)
    assert (ended.code, ended.out) == (0, ""), ended.err
    descriptions = sorted((root / "lines" / "_meta" / "0").iterdir())
    assert len(descriptions) > 3

    for lost in (descriptions[0], descriptions[1], descriptions[-1]):
        kept = lost.read_bytes()
        lost.unlink()
        checked = mirrorlake("archive", "check", "-c", config, "--level", "checksums")
        assert checked.code == 1
        assert f"{lost.name.removesuffix('.json')} has no description" in checked.out + checked.err
        lost.write_bytes(kept)


def test_a_kafka_topic_that_does_not_exist_is_not_made_and_ends_the_run_with_code_3(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    copy = f"copy-{topic_name}"[-200:]
    make_topic(source_kafka.bootstrap_servers, topic_name, every_kind(5), simple_records(30))
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        f"destination:\n  type: kafka\n  bootstrap-servers: {destination_kafka.bootstrap_servers}\n"
        + mirrors(source_kafka, ("p0", topic_name, 0, copy), ("p1", topic_name, 1, copy)),
    )
    refused = mirrorlake("run", "-c", config, environ=NO_METRICS)

    assert (refused.code, refused.out) == (3, ""), refused.err
    assert "mirror exited with error" in refused.err
    assert f"destination topic {copy} does not exist on cluster {destination_kafka.bootstrap_servers}" in refused.err
    assert f"kafka-topics.sh --create --topic {copy} --partitions 2" in refused.err
    assert copy not in topics_of(destination_kafka.bootstrap_servers)

    create_topic(destination_kafka.bootstrap_servers, copy, 2)
    copied = mirrorlake("run", "--once", "-c", config, environ=NO_METRICS)

    assert (copied.code, copied.out) == (0, ""), copied.err
    for partition in (0, 1):
        there = consume(source_kafka.bootstrap_servers, topic_name, partition)
        assert_same_records(there, consume(destination_kafka.bootstrap_servers, copy, partition))


def test_a_metrics_port_that_is_taken_is_a_warning_in_this_form_as_in_mirror_v3(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    make_topic(source_kafka.bootstrap_servers, topic_name, simple_records(3))
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        filesystem(tmp_path / "root", max_time_ms=LONG_MS) + mirrors(source_kafka, ("a", topic_name, 0, "")),
    )
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = mirrorlake("run", "--once", "-c", config, environ={"MIRROR_V3_METRICS_PORT": port})

    assert (ended.code, ended.out) == (0, "")
    (line,) = [line for line in ended.err.splitlines() if "metrics exporter failed; continuing" in line]
    assert "[warning" in line
    assert f"cannot listen on 0.0.0.0:{port}: Address already in use" in line
    assert f"addr=0.0.0.0:{port}" in line
    assert len(archived_records(tmp_path / "root", topic_name, 0)) == 3


def test_a_start_and_each_heartbeat_have_the_lines_of_mirror_v3_with_their_fields(archived: Archived) -> None:
    assert re.search(r"starting mirror-v3 +config=\S+ destination=filesystem mirrors=4", archived.log)
    assert re.search(r"metrics exporter listening on /metrics +addr=0\.0\.0\.0:\d+", archived.log)
    for mirror in ("kinds", "continued", "large", "whole"):
        assert re.search(rf"loop start +mirror={mirror}\b", archived.log)
        assert re.search(rf"starting mirror .*mirror={mirror} .*start_offset=\d+", archived.log)
        assert re.search(rf"heartbeat +expected_offset=\d+ lag=\S+ mirror={mirror} progressed=0", archived.log)


def test_status_begins_its_table_as_mirror_v3_does_and_its_rows_have_the_fields_of_mirror_v3(
    archived: Archived, source_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    config = write_yaml(
        tmp_path / "mirror-v3.yaml",
        filesystem(archived.root, max_time_ms=LONG_MS)
        + mirrors(source_kafka, ("kinds", archived.topic, 0, "renamed"), ("large", archived.topic, 2, "")),
    )

    table = mirrorlake("status", "-c", config, environ=NO_METRICS)
    rows = mirrorlake("status", "-c", config, "--format", "json", environ=NO_METRICS)

    heading, *lines = table.out.splitlines()
    assert heading.split() == ["MIRROR", "SOURCE-HIGH", "DEST-NEXT", "LAG", "STATE"]
    assert table.err.startswith("note: what only a running service knows is unknown, such as partitions it parked: ")
    assert [line.split() for line in lines] == [
        ["kinds", "36", "36", "0", "caught-up"],
        ["large", "4", "4", "0", "caught-up"],
    ]
    assert [(row["name"], row["source_high"], row["dest_next"], "error" in row) for row in rows.rows()] == [
        ("kinds", 36, 36, False),
        ("large", 4, 4, False),
    ]


def test_an_environment_variable_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    config = write_yaml(tmp_path / "mirror-v3.yaml", filesystem(tmp_path, max_time_ms=1) + "mirrors: []\n")

    ended = mirrorlake("run", "-c", config, environ={"MIRROR_V3_METRICS_PORT": "9090a"})

    assert (ended.code, ended.out) == (1, "")
    assert "MIRROR_V3_METRICS_PORT: expected a whole number from 0 to 65535, found `9090a`" in ended.err


def test_a_file_without_mirrors_validates_but_does_not_run(tmp_path: Path) -> None:
    config = write_yaml(tmp_path / "mirror-v3.yaml", filesystem(tmp_path, max_time_ms=1) + "mirrors: []\n")

    validated, ran = mirrorlake("validate", "-c", config), mirrorlake("run", "-c", config, environ=NO_METRICS)

    assert (validated.code, validated.out) == (0, "OK: 0 mirror(s), destination type = filesystem\n")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"error: no mirrors configured\nhint: add a mirror to {config}\n"
