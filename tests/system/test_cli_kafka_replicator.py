"""kafka-replicator's files brought back to Kafka, by `restore` and by a mirror of the file; what they lack is said."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import assert_same_records
from support.records import Record, consume, every_kind, simple_records
from support.replicator_archive import REGION, file_name, write_file

pytestmark = pytest.mark.kafka

FIRST = 7
"""The lowest offset that a file has: what was below it nobody knows."""


def stored(record: Record) -> Record:
    """What kafka-replicator's file holds of a record, with null for empty values."""
    headers = tuple((key, value or b"") for key, value in record.headers)
    return replace(record, key=record.key or b"", value=record.value or None, headers=headers)


@dataclass(frozen=True)
class Region:
    """Two partitions in kafka-replicator's layout; a transaction's marker lay between two files of the second."""

    folder: Path
    topic: str
    servers: str
    records: dict[int, dict[int, Record]]

    def config(self, more: str = "") -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f"""clusters:
  west: {{bootstrap-servers: "{self.servers}"}}
stores:
  old: {{type: filesystem, root: {self.folder / "data"}}}
  new: {{type: filesystem, root: {self.folder / "new"}}}
mirrors:
  - name: back-{self.topic}
    source:
      store: old
      layout: {{type: kafka-replicator, region: {REGION}, begins-at: first-segment, null-for-empty: [value]}}
      topics: [{self.topic}]
    destinations:
      - {{type: kafka, cluster: west, topic: "{{topic}}.kept", gap-fill: filler}}
      - {{type: kafka, cluster: west, topic: "{{topic}}.mapped", offsets: map}}
      - {{type: archive, store: new, format: parquet}}
    {more}
engine: {{lanes: 2, lease: 1s, memory: 512MiB, discovery: 500ms}}
""",
        )

    def restore(self, *options: str) -> Ended:
        given = ("--store", "old", "--topics", self.topic, "--to", "west", "--layout", "kafka-replicator")
        known = ("--region", REGION, "--yes", "--format", "json", "--name", f"again-{self.topic}")
        return mirrorlake("restore", "-c", self.config(), *given, *known, *options)

    def fill_hole(self) -> None:
        """The rest of partition 1, as of a later sync of the bucket."""
        write_file(self.folder / "data", self.records[1], 20, 29, topic=self.topic, partition=1)


@pytest.fixture
def region(topic_name: str, tmp_path: Path, destination_kafka: EmbeddedKafka) -> Region:
    now = int(time.time() * 1000)
    kinds = {FIRST + 2 * n: record for n, record in enumerate(every_kind(4, timestamp=now))}
    plain = dict(enumerate(simple_records(60, timestamp=now)))
    for folder in ("data", "new"):
        (tmp_path / folder).mkdir()
    last = max(kinds)
    for level, start, end in ((0, FIRST, 21), (1, FIRST, 35), (0, 29, 51), (0, 53, last)):
        write_file(tmp_path / "data", kinds, start, end, level=level, topic=topic_name)
    for start, end in ((0, 19), (30, 59)):
        write_file(tmp_path / "data", plain, start, end, topic=topic_name, partition=1)
    return Region(
        folder=tmp_path, topic=topic_name, servers=destination_kafka.bootstrap_servers, records={0: kinds, 1: plain}
    )


def in_kafka(region: Region, partition: int, name: str) -> dict[int, Record]:
    return consume(region.servers, f"{region.topic}.{name}", partition)


def test_restore_waits_for_what_lies_below_the_first_file_unless_it_is_told_to_begin_there(region: Region) -> None:
    region.fill_hole()
    write_file(region.folder / "data", region.records[0], 29, max(region.records[0]), topic=region.topic)

    waiting = region.restore("--rename", "{topic}.waiting", "--dry-run")
    assert waiting.code == 1
    assert f"offsets [0, {FIRST}) are missing" in waiting.out

    ended = region.restore("--rename", "{topic}.back", "--begins-at", "first-segment", "--gap-fill", "filler")
    assert ended.code == 0, ended.err + ended.out
    assert "do not tell null from empty" in ended.out
    expected = {offset: replace(stored(each), value=each.value or b"") for offset, each in region.records[0].items()}
    assert_same_records(expected, in_kafka(region, 0, "back"))
    assert_same_records(region.records[1], in_kafka(region, 1, "back"))


@pytest.mark.slow
def test_a_mirror_of_the_file_waits_for_a_file_that_has_not_come_and_copies_all_that_they_hold(region: Region) -> None:
    config = region.config()
    planned = mirrorlake("plan", "-c", config)
    assert "do not tell null from empty" in " ".join(planned.out.split())
    waiting = mirrorlake("run", "--once", "-c", config)
    assert waiting.code == 1
    assert "offsets [20, 30) are missing" in waiting.out + waiting.err
    assert_same_records({n: each for n, each in region.records[1].items() if n < 20}, in_kafka(region, 1, "kept"))

    region.fill_hole()
    write_file(region.folder / "data", region.records[0], 29, max(region.records[0]), topic=region.topic)
    for _ in range(2):  # the second run has nothing to do, and does nothing
        ended = mirrorlake("run", "--once", "-c", config)
        assert ended.code == 0, ended.err + ended.out
        expected = {offset: stored(each) for offset, each in region.records[0].items()}
        assert_same_records(expected, in_kafka(region, 0, "kept"))
        assert_same_records(region.records[1], in_kafka(region, 1, "kept"))
        for partition, held in ((0, expected), (1, region.records[1])):
            mapped = in_kafka(region, partition, "mapped")
            assert [mapped[offset] for offset in sorted(mapped)] == [held[offset] for offset in sorted(held)]
    verified = mirrorlake("verify", "-c", config, "--format", "json")
    assert verified.code == 0, verified.err + verified.out
    assert [row["result"] for row in verified.rows()] == ["equal"] * 6
    # Empty values are null on both sides, as the file says how the files are read.
    for other in (f"new:{region.topic}", f"west:{region.topic}.kept"):
        shared = mirrorlake("archive", "diff", "-c", config, f"old:{region.topic}", other, "--format", "json")
        assert [row["result"] for row in shared.rows()] == ["equal", "equal"], shared.out
    whole = mirrorlake("archive", "diff", "-c", config, "old", "new", "--format", "json")
    assert [(row["a"], row["result"]) for row in whole.rows()] == [(f"old:{region.topic}", "equal")] * 2, whole.out
    (region.folder / "data" / REGION / region.topic / "1" / "0" / file_name(20, 29)).unlink()
    lost = mirrorlake("archive", "diff", "-c", config, f"old:{region.topic}", f"new:{region.topic}", "--format", "json")
    assert (lost.code, [row["result"] for row in lost.rows()]) == (1, ["equal", "unknown"])
    assert [(each["start"], each["end"]) for each in lost.rows()[1]["unread"]] == [(20, 30)]


def test_a_store_that_mirrors_read_in_two_layouts_is_not_compared(region: Region) -> None:
    more = f"""
  - name: plain-{region.topic}
    source: {{store: old, topics: [{region.topic}]}}
    destinations: [{{type: archive, store: new, name: "{{topic}}.plain", format: parquet}}]"""
    found = mirrorlake("archive", "diff", "-c", region.config(more), "old", "new")
    assert (found.code, found.out) == (1, "")
    assert "archives of 2 layouts in store old" in " ".join(found.err.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--layout", "kafka-replicator"), "--region"),
        (("--region", "us-west-1"), "has no meaning without --layout"),
        (("--null-for-empty", "value"), "has no meaning without --layout"),
        (("--begins-at", "first-segment"), "has no meaning without --layout"),
        (("--layout", "kafka-replicator", "--region", "a/b"), "--region"),
        (("--layout", "kafka-replicator", "--region", "a", "--generation", "2"), "--generation"),
    ],
)
def test_options_of_a_layout_that_make_no_sense_are_refused(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    config = write_yaml(
        tmp_path / "mirror.yaml",
        "clusters: {west: {bootstrap-servers: 'localhost:1'}}\n"
        "stores: {old: {type: filesystem, root: /nowhere}}\n"
        "mirrors:\n"
        "  - {name: m, source: {cluster: west, topics: [a]}, destinations: [{type: archive, store: old}]}\n",
    )
    given = ("--store", "old", "--topics", "orders", "--to", "west", "--yes")
    ended = mirrorlake("restore", "-c", config, *given, *options)
    assert ended.code in (1, 2)
    assert said in ended.err
