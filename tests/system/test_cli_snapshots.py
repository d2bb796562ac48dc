"""`compaction: log` as users run it: in mirror-v3's form and in ours, to a disk and a bucket, through every command."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.compaction import keyed_records
from support.copies import create_topic
from support.marker_names import without_markers
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import Record, consume
from support.snapshots import latest, names, view
from support.topics import append, delete_before

pytestmark = pytest.mark.kafka

NO_METRICS = {"MIRROR_V3_METRICS_PORT": "0"}


def mirror_v3_form(folder: Path, servers: str, topic: str, *, shared: str = "", own: str = "") -> Path:
    """A file of mirror-v3, with ``compaction`` at the destination or at the mirror."""
    return write_yaml(
        folder / "mirror-v3.yaml",
        f"destination:\n  type: filesystem\n  root: {folder / 'lake'}\n{shared}"
        "  flush: {max-time-ms: 3600000, max-bytes: 1073741824, max-offsets: 1000000}\n"
        f"mirrors:\n  - name: users\n    topic: {topic}\n    partition: 0\n{own}"
        f"    source: {{bootstrap-servers: '{servers}'}}\n",
    )


def run_once(config: Path) -> str:
    done = mirrorlake("run", "-c", config, "--once", environ=NO_METRICS)
    assert done.code == 0, done.err
    return done.err


@pytest.mark.parametrize("where", ["shared", "own"])
def test_a_file_of_mirror_v3_makes_snapshots(
    where: str, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name, cleanup_policy="compact")
    append(servers, topic_name, 0, keyed_records(30, 4))
    spaces = {"shared": "  ", "own": "    "}[where]
    config = mirror_v3_form(tmp_path, servers, topic_name, **{where: f"{spaces}compaction: log\n"})
    assert mirrorlake("validate", "-c", config).out.splitlines()[0] == "OK: 1 mirror(s), destination type = filesystem"
    run_once(config)
    append(servers, topic_name, 0, [Record(1_700_000_100_000, b"key-1", None)])
    run_once(config)
    assert names(lake, topic_name) == [f"{0:020}-{29:020}.parquet", f"{30:020}-{30:020}.parquet"]
    held = view(lake, topic_name)
    assert held == latest(consume(servers, topic_name, 0).items())
    assert [record.key for record in held.values()] == [b"key-0", b"key-2", b"key-3"]
    row = mirrorlake("status", "-c", config, "--format", "json").row("users")
    assert (row["dest_next"], row["lag"], row["state"]) == (31, 0, "caught-up")
    run_once(config)
    assert len(names(lake, topic_name)) == 2, "nothing new, so no snapshot"
    verified = mirrorlake("verify", "-c", config, "--level", "records", "--format", "json").row("users")
    assert (verified["result"], verified["records"]) == ("equal", 3)


def test_a_view_aligned_to_a_late_log_start_is_looked_at_like_any_archive(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name)
    append(servers, topic_name, 0, keyed_records(30, 4))
    delete_before(servers, topic_name, 20)
    config = mirror_v3_form(tmp_path, servers, topic_name, own="    compaction: log\n")
    lake.mkdir()
    planned = mirrorlake("plan", "-c", config, "--format", "json").row("users")
    assert "offsets 0…19 are gone at the source" in planned["note"]
    assert "the source is not compacted" in planned["warnings"][0]
    assert "source has deleted records, continuing at its log start" in run_once(config)
    append(servers, topic_name, 0, keyed_records(10, 4, start=30))
    delete_before(servers, topic_name, 35)
    assert mirrorlake("status", "-c", config, "--format", "json").row("users")["state"] != "parked"
    run_once(config)  # as mirror-v3 does: a view goes on at the log's start
    assert [record.key for record in view(lake, topic_name).values()] == [b"key-0", b"key-1", b"key-2", b"key-3"]
    (lake / topic_name / "0" / names(lake, topic_name)[0]).unlink()
    for look in ("-c", config), ("--root", lake):
        listed = mirrorlake("archive", "ls", *look, "--format", "json")
        (row,) = listed.rows()
        assert (row["segments"], row["start"], row["position"], row["records"]) == (1, 30, 40, 4)
        assert mirrorlake("archive", "check", *look, "--level", "checksums").code == 0
    path = lake / topic_name / "0" / names(lake, topic_name)[0]
    path.rename(path.with_name(f"{20:020}-{39:020}.parquet"))
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 1


def test_a_folder_never_changes_its_kind(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    append(servers, topic_name, 0, keyed_records(5, 2))
    snapshots = mirror_v3_form(tmp_path, servers, topic_name, own="    compaction: log\n")
    run_once(snapshots)
    append(servers, topic_name, 0, keyed_records(5, 2))
    archive = mirror_v3_form(tmp_path, servers, topic_name)
    done = mirrorlake("run", "-c", archive, "--once", environ=NO_METRICS)
    assert done.code == 3
    assert "belongs to snapshots of the latest record per key" in done.err
    assert len(names(tmp_path / "lake", topic_name)) == 1


def test_the_native_form_makes_snapshots_on_a_disk_and_in_a_bucket(
    source_kafka: EmbeddedKafka, versitygw: ObjectServer, topic_name: str, tmp_path: Path
) -> None:
    servers, disk, bucket = source_kafka.bootstrap_servers, tmp_path / "lake", versitygw.settings()
    disk.mkdir()
    create_topic(servers, topic_name, cleanup_policy="compact")
    append(servers, topic_name, 0, keyed_records(30, 4))
    destinations = ", ".join(
        f"{{type: archive, store: {store}, compaction: log, flush: {{max-time: 1h}}}}" for store in ("disk", "bucket")
    )
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"clusters: {{east: {{bootstrap-servers: '{servers}'}}}}\n"
        f"stores:\n  disk: {store_section(disk, tmp_path)}\n  bucket: {store_section(bucket, tmp_path)}\n"
        f"mirrors:\n  - name: users\n    source: {{cluster: east, topics: [{topic_name}]}}\n"
        f"    destinations: [{destinations}]\n",
    )
    assert (
        mirrorlake("validate", "-c", config).out.splitlines()[0] == "OK: 1 mirror(s), destination type = filesystem, s3"
    )
    run_once(config)
    append(servers, topic_name, 0, [Record(1_700_000_100_000, b"key-1", None)])
    run_once(config)
    expected = latest(consume(servers, topic_name, 0).items())
    assert [record.key for record in expected.values()] == [b"key-0", b"key-2", b"key-3"]
    assert view(disk, topic_name) == view(bucket, topic_name) == expected
    snapshots = [f"{0:020}-{29:020}.parquet", f"{30:020}-{30:020}.parquet"]
    assert names(disk, topic_name) == snapshots
    keys = without_markers(versitygw.keys(bucket.prefix), bucket.prefix)
    assert keys == [f"{bucket.prefix}/{topic_name}/0/{name}" for name in snapshots]
    status = mirrorlake("status", "-c", config, "--format", "json")
    verified = mirrorlake("verify", "-c", config, "--level", "records", "--format", "json")
    listed = mirrorlake("archive", "ls", "-c", config, "--format", "json")
    checked = mirrorlake("archive", "check", "-c", config, "--level", "checksums", "--format", "json")
    assert [done.code for done in (status, verified, listed, checked)] == [0, 0, 0, 0]
    assert [(row["dest_next"], row["state"]) for row in status.rows()] == [(31, "caught-up")] * 2
    assert [(row["result"], row["records"]) for row in verified.rows()] == [("equal", 3)] * 2
    # Both snapshots are counted: of four records, and of three.
    assert [(row["segments"], row["position"], row["records"]) for row in listed.rows()] == [(2, 31, 7)] * 2
