"""Archives in buckets as users meet them: run once, status, verify, plan, refusals, and mirror-v3's own form."""

from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import archived_records, assert_same_records, create_topic
from support.marker_names import without_markers
from support.mirrors import write_config
from support.object_servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectServer
from support.records import consume, in_batches, produce, simple_records

pytestmark = pytest.mark.kafka

SERVERS = ["versitygw", "moto"]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ObjectServer:
    found: ObjectServer = request.getfixturevalue(request.param)
    return found


def fill(source: EmbeddedKafka, topic: str, run_async: RunAsync, count: int = 120) -> None:
    create_topic(source.bootstrap_servers, topic)
    records = in_batches(simple_records(count, timestamp=1_700_000_000_000), 10)
    run_async(produce(source.bootstrap_servers, topic, 0, list(records)))


def test_run_once_status_and_verify(
    source_kafka: EmbeddedKafka, server: ObjectServer, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    fill(source_kafka, topic_name, run_async)
    lake = server.settings()
    config = write_config(
        tmp_path / "mirror.yaml", source=source_kafka.bootstrap_servers, topic=topic_name, lake=lake, max_records=50
    )
    assert mirrorlake("validate", "-c", config).code == 0
    plan = mirrorlake("plan", "-c", config)
    assert plan.code == 0, plan.err
    assert f"s3://{BUCKET}/{lake.prefix}"[:40] in plan.out.replace("\n", "")
    ran = mirrorlake("run", "--once", "-c", config)
    assert ran.code == 0, ran.err
    status = mirrorlake("status", "-c", config, "--format", "json")
    assert status.row(topic_name)["dest_next"] == 120
    verified = mirrorlake("verify", "-c", config)
    assert verified.code == 0, verified.out + verified.err
    source = consume(source_kafka.bootstrap_servers, topic_name, 0)
    assert_same_records(source, archived_records(lake, topic_name))
    folder = f"{lake.prefix}/{topic_name}/0"
    assert without_markers(server.keys(lake.prefix), lake.prefix) == [
        f"{folder}/{first:020}-{last:020}.parquet" for first, last in ((0, 49), (50, 99), (100, 119))
    ]
    for said in (plan, ran, status, verified):
        assert SECRET_KEY not in said.out + said.err


def test_the_mirror_v3_form_takes_its_credentials_from_the_environment(
    source_kafka: EmbeddedKafka, server: ObjectServer, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    fill(source_kafka, topic_name, run_async)
    lake = server.settings()
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"destination:\n  type: s3\n  endpoint: {server.endpoint}\n  region: {REGION}\n  bucket: {BUCKET}\n"
        f"  prefix: {lake.prefix}/\n  flush: {{max-time-ms: 1000, max-bytes: 1000000, max-offsets: 100}}\n"
        f"mirrors:\n  - name: v3\n    source: {{bootstrap-servers: '{source_kafka.bootstrap_servers}'}}\n"
        f"    topic: {topic_name}\n    partition: 0\n",
    )
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "MIRROR_V3_METRICS_PORT": "0"}
    ran = mirrorlake("run", "--once", "-c", config, environ=keys)
    assert ran.code == 0, ran.err
    folder = f"{lake.prefix}/{topic_name}/0"
    assert without_markers(server.keys(lake.prefix), lake.prefix) == [
        f"{folder}/{first:020}-{last:020}.parquet" for first, last in ((0, 99), (100, 119))
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (f"bucket: {BUCKET}", "bucket: nowhere", "NoSuchBucket"),
        ("{file:", "{file: /nowhere", "cannot be read"),
        ("region:", "profile: nobody, region:", "has no meaning beside"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_named_and_the_run_fails(
    source_kafka: EmbeddedKafka,
    versitygw: ObjectServer,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
    old: str,
    new: str,
    expected: str,
) -> None:
    fill(source_kafka, topic_name, run_async, count=5)
    config = write_config(
        tmp_path / "mirror.yaml", source=source_kafka.bootstrap_servers, topic=topic_name, lake=versitygw.settings()
    )
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))
    ran = mirrorlake("run", "--once", "-c", config)
    assert ran.code != 0
    assert expected in ran.err
