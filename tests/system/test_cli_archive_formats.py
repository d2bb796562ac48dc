"""`archive ls` and `archive check` on a bucket that holds every format and snapshots, as `run --once` wrote them."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Row, write_yaml
from support.command import without_spark as mirrorlake
from support.compaction import keyed_records
from support.copies import create_topic
from support.object_servers import ACCESS_KEY, BUCKET, SECRET_KEY, ObjectServer
from support.topics import append

pytestmark = pytest.mark.kafka

KINDS = {
    "parquet": "format: parquet",
    "ndjson": "format: ndjson",
    "log": "format: log",
    "latest": "compaction: log",
}
CREDENTIALS = {"TEST_KEY_ID": ACCESS_KEY, "TEST_SECRET": SECRET_KEY}


def check(config: Path, level: str, *more: str) -> tuple[int, dict[str, Row]]:
    """Returns the exit code, and the rows by the kind their folders are named after."""
    ended = mirrorlake(
        "archive", "check", "-c", config, "--level", level, "--format", "json", *more, environ=CREDENTIALS
    )
    return ended.code, {row["name"].partition("-")[0]: row for row in ended.rows()}


def test_every_format_in_a_bucket_is_listed_and_checked(
    source_kafka: EmbeddedKafka, topic_name: str, versitygw: ObjectServer, tmp_path: Path
) -> None:
    servers, prefix = source_kafka.bootstrap_servers, topic_name
    create_topic(servers, topic_name, cleanup_policy="compact")
    append(servers, topic_name, 0, keyed_records(30, 4))
    destinations = "\n".join(
        f'      - {{type: archive, store: lake, name: "{name}-{{topic}}", {kind}}}' for name, kind in KINDS.items()
    )
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "{servers}"}}}}
stores:
  lake: {{type: s3, bucket: {BUCKET}, prefix: {prefix}, region: us-east-1, endpoint: "{versitygw.endpoint}",
    access-key-id: "${{TEST_KEY_ID}}", secret-access-key: "${{TEST_SECRET}}"}}
mirrors:
  - name: all
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations:
{destinations}
""",
    )
    done = mirrorlake("run", "--once", "-c", config, environ=CREDENTIALS)
    assert done.code == 0, done.err

    listed = mirrorlake("archive", "ls", "-c", config, "--format", "json", environ=CREDENTIALS)
    assert (listed.code, listed.said) == (0, "")
    found = {row["name"].partition("-")[0]: (row["format"], row["position"], row["records"]) for row in listed.rows()}
    assert found == {
        "parquet": ("parquet", 30, 30),
        "ndjson": ("ndjson", 30, 30),
        "log": ("log", 30, 30),
        "latest": ("parquet", 30, 4),
    }
    code, rows = check(config, "checksums")
    assert (code, {row["result"] for row in rows.values()}) == (0, {"sound"}), rows

    lake = versitygw.folder / "buckets" / BUCKET / prefix
    for name in KINDS:
        (file,) = (lake / f"{name}-{topic_name}" / "0").glob("0*")
        content = bytearray(file.read_bytes())
        content[10:200] = bytes(190)  # records, and nothing of a footer
        file.write_bytes(content)
    code, rows = check(config, "names")
    assert (code, {row["result"] for row in rows.values()}) == (0, {"sound"}), rows
    code, rows = check(config, "checksums", "--mirror", "all")
    assert (code, {name: row["result"] for name, row in rows.items()}) == (1, dict.fromkeys(KINDS, "broken")), rows
    for name, row in rows.items():
        (problem,) = row["problems"]
        assert f"{name}-{topic_name}/0/" in problem["problem"]
