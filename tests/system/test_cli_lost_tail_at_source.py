"""`run --once` where the source has lost its tail: no copy that is past its source's end is called done."""

import json
from pathlib import Path

import pytest

from conftest import NewKafka
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import log_end, source_end
from support.golden import segment_name
from support.records import simple_records
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COPIED, KEPT = 100, 50
WAYS = {
    "preserve": "{type: kafka, cluster: west, topic: preserved-by-{mirror}}",
    "map": "{type: kafka, cluster: west, topic: mapped-by-{mirror}, offsets: map}",
    "archive": "{type: archive, store: lake}",
    "snapshots": "{type: archive, store: views, compaction: log}",
}


@pytest.fixture
def east(new_kafka: NewKafka) -> EmbeddedKafka:
    return new_kafka()


@pytest.fixture
def config(east: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Path:
    for name in ("lake", "views"):
        (tmp_path / name).mkdir()
    mirrors = [
        f"  - {{name: {way}-{topic_name}, source: {{cluster: east, topics: [orders]}}, "
        f"destinations: [{to.replace('{mirror}', topic_name)}]}}"
        for way, to in WAYS.items()
    ]
    lines = [
        "clusters:",
        f'  east: {{bootstrap-servers: "{east.bootstrap_servers}"}}',
        f'  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}',
        "stores:",
        f"  lake: {{type: filesystem, root: {tmp_path}/lake}}",
        f"  views: {{type: filesystem, root: {tmp_path}/views}}",
        "engine: {lanes: 1, lease: 1s, memory: 512MiB}",
        "mirrors:",
        *mirrors,
        "",
    ]
    return write_yaml(tmp_path / "mirror.yaml", "\n".join(lines))


@pytest.fixture
def back(destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Path:
    """Brings the archive to the other cluster."""
    mirrors = [
        f"  - {{name: {way}-back-{topic_name}, source: {{store: lake, topics: [orders]}}, "
        f"destinations: [{WAYS[way].replace('{mirror}', f'back-{topic_name}')}]}}"
        for way in ("preserve", "map")
    ]
    lines = [
        f'clusters: {{west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}}}',
        f"stores: {{lake: {{type: filesystem, root: {tmp_path}/lake}}}}",
        "engine: {lanes: 1, lease: 1s, memory: 512MiB}",
        "mirrors:",
        *mirrors,
        "",
    ]
    return write_yaml(tmp_path / "back.yaml", "\n".join(lines))


def cut(server: EmbeddedKafka, topic: str, batches: int) -> None:
    """Leaves so many batches of a log, as a disk does that lost what was written last."""
    server.stop()
    folder = server.folder / "data" / f"{topic}-0"
    log = folder / "00000000000000000000.log"
    data, end = log.read_bytes(), 0
    for _ in range(batches):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    with log.open("r+b") as file:
        file.truncate(end)
    for each in folder.iterdir():
        if each.suffix in (".index", ".timeindex", ".snapshot"):
            each.unlink()
    (server.folder / "data/.kafka_cleanshutdown").unlink(missing_ok=True)
    server.start()


def once(config: Path) -> Ended:
    return mirrorlake("run", "--once", "-c", config)


def test_copies_past_the_end_of_their_source_are_parked_as_ahead_in_every_kind_of_destination(
    east: EmbeddedKafka, destination_kafka: EmbeddedKafka, config: Path, topic_name: str
) -> None:
    make_topic(east.bootstrap_servers, "orders", simple_records(COPIED), batch_records=10)
    assert once(config).code == 0
    cut(east, "orders", KEPT // 10)
    assert source_end(east.bootstrap_servers, "orders") == KEPT

    ended = once(config)

    assert ended.code == 3, ended.err
    for way in WAYS:
        (line,) = ended.troubles(f"{way}-{topic_name}")
        assert "reason=ahead" in line
        assert f"is at position {COPIED}, past the source's end {KEPT}" in line
    assert log_end(destination_kafka.bootstrap_servers, f"preserved-by-{topic_name}") == COPIED


@pytest.mark.parametrize("is_recorded", [True, False], ids=["it-is-recorded", "nothing-says-so"])
def test_copies_of_an_archive_that_has_lost_its_newest_segment_are_not_done(
    config: Path, back: Path, tmp_path: Path, topic_name: str, east: EmbeddedKafka, *, is_recorded: bool
) -> None:
    make_topic(east.bootstrap_servers, "orders", simple_records(KEPT))
    assert once(config).code == 0
    append(east.bootstrap_servers, "orders", 0, simple_records(COPIED - KEPT, start=KEPT))
    assert once(config).code == 0
    assert once(back).code == 0
    (tmp_path / "lake/orders/0" / segment_name(KEPT, COPIED - 1)).unlink()
    if not is_recorded:  # as where the writer was killed
        for record in (tmp_path / "lake/orders").glob("_topic*.json"):
            if json.loads(record.read_text())["reached"] == {"0": COPIED}:
                record.unlink()

    ended = once(back)

    if is_recorded:
        assert ended.code == 1, ended.err
        assert f"orders/0: offsets [{KEPT}, {COPIED}) are missing in the archive" in ended.err
        return
    assert ended.code == 3, ended.err
    for way in ("preserve", "map"):
        (line,) = ended.troubles(f"{way}-back-{topic_name}")
        assert "reason=ahead" in line
        assert f"is at position {COPIED}, past the source's end {KEPT}" in line


def test_a_copy_that_is_to_begin_past_the_end_of_its_source_is_parked_as_ahead(
    east: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str
) -> None:
    make_topic(east.bootstrap_servers, "orders", simple_records(10))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters:
  east: {{bootstrap-servers: "{east.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
engine: {{lanes: 1, lease: 1s, memory: 512MiB}}
mirrors:
  - name: {topic_name}
    source: {{cluster: east, topics: [orders], start: {{offsets: {{orders: {{0: 999}}}}}}}}
    destinations: [{{type: kafka, cluster: west, topic: late-{topic_name}, offsets: map}}]
""",
    )

    ended = once(config)

    assert ended.code == 3, ended.err
    (line,) = ended.troubles(topic_name)
    assert "reason=ahead" in line
    assert "is at position 999, past the source's end 10" in line
