"""An archive of small segments is merged by copying row groups, and restored: every record at its own offset, equal."""

import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.envelope import METADATA_KEY
from mirrorlake.archive.formats.parquet_schema import ARROW_METADATA
from mirrorlake.archive.seal import OPEN_SEAL, sealed
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import Lake, assert_equal_in_archive, assert_equal_in_kafka, create_topic, store_of
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import Record, every_kind, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

SEGMENT_BYTES = 5_000_000
"""Of records: more than a row group needs in order to be copied."""
CODECS = {"zstd-1": "zstd", "snappy": "snappy", "uncompressed": "none"}


@dataclass(frozen=True)
class Scene:
    """A topic, its archive, and a mirror that brings it back to another cluster under its own name."""

    source: str
    destination: str
    topic: str
    folder: Path
    lake: Lake
    compression: str

    def configuration(self, *, records_max: int = 1_000_000) -> Path:
        return write_yaml(
            self.folder / f"mirror-{records_max}.yaml",
            f"""clusters:
  east: {{bootstrap-servers: "{self.source}"}}
  west: {{bootstrap-servers: "{self.destination}"}}
stores: {{lake: {store_section(self.lake, self.folder)}}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations:
      - type: archive
        store: lake
        compression: {self.compression}
        flush: {{max-bytes: {SEGMENT_BYTES}B, max-records: {records_max}}}
        merge: {{steps: [{{min-age: 0s, max-bytes: 256MiB}}], min-files: 2, min-bytes: 0}}
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
        )

    def back(self) -> Path:
        return write_yaml(
            self.folder / "back.yaml",
            f"""clusters:
  west: {{bootstrap-servers: "{self.destination}"}}
stores: {{lake: {store_section(self.lake, self.folder)}}}
mirrors:
  - name: {self.topic}-back
    source: {{store: lake, topics: [{self.topic}]}}
    destinations: [{{type: kafka, cluster: west}}]
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
        )

    def do(self, *arguments: str | Path) -> Ended:
        ended = mirrorlake(*arguments)
        assert ended.code == 0, ended.err + ended.out
        return ended

    def archive(self, *, records_max: int = 1_000_000) -> None:
        self.do("run", "--once", "-c", self.configuration(records_max=records_max))

    def merge(self) -> list[dict[str, object]]:
        return self.do("archive", "merge", "-c", self.configuration(), "--format", "json").rows()

    def names(self) -> list[str]:
        names = (info.name for info in store_of(self.lake).list(f"{self.topic}/0"))
        return [name for name in names if name.endswith(".parquet")]

    def said_by(self, name: str) -> dict[str, object]:
        """A segment's footer."""
        with store_of(self.lake).open(f"{self.topic}/0/{name}") as file:
            said = json.loads(pq.ParquetFile(file).metadata.metadata[METADATA_KEY])
        assert isinstance(said, dict)
        return said

    def make_old(self, name: str, *, is_sealed: bool) -> None:
        """Puts a segment as versions before wrote it in its place: no checksums of blocks, and one seal or none."""
        store, key = store_of(self.lake), f"{self.topic}/0/{name}"
        with store.open(key) as file:
            table = pq.ParquetFile(file).read()
        left_out = {"compression", "pages"} if is_sealed else {"compression", "pages", "sealed_by", "seal"}
        said = {field: value for field, value in self.said_by(name).items() if field not in left_out}
        if is_sealed:
            said["seal"] = OPEN_SEAL
        written = io.BytesIO()
        codec = CODECS[self.compression]
        writer = pq.ParquetWriter(written, table.schema, compression=codec, store_schema=False)
        writer.write_table(table, row_group_size=len(table))
        writer.add_key_value_metadata({**ARROW_METADATA, METADATA_KEY: json.dumps(said).encode()})
        writer.close()
        staged = store.stage(f"{self.topic}/0", "old")
        staged.file.write(sealed(written.getvalue()) if is_sealed else written.getvalue())
        store.delete(key)
        staged.publish(key)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "bucket":
        server: ObjectServer = request.getfixturevalue("versitygw")
        return server.settings()
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def large_records(count: int, seed: int) -> list[Record]:
    """Of 20 kB each, one half of which compresses."""
    chance = random.Random(seed)
    return [
        Record(each.timestamp, each.key, chance.randbytes(10_000) + b"text " * 2000) for each in simple_records(count)
    ]


def fill(scene: Scene) -> None:
    """Large segments, small ones of every kind of record and a transaction, and large ones again."""
    create_topic(scene.source, scene.topic)
    append(scene.source, scene.topic, 0, large_records(780, 1))
    scene.archive()
    append(scene.source, scene.topic, 0, every_kind(3))
    append_in_transaction(scene.source, scene.topic, simple_records(5, start=900), committed=False)
    append_in_transaction(scene.source, scene.topic, simple_records(40, start=1000))
    scene.archive(records_max=20)
    append(scene.source, scene.topic, 0, large_records(520, 2))
    scene.archive()
    append(scene.source, scene.topic, 0, simple_records(3))
    scene.archive()


@pytest.mark.parametrize(
    ("lake", "compression", "is_mixed"),
    [
        *(("filesystem", compression, is_mixed) for compression in CODECS for is_mixed in (False, True)),
        ("bucket", "zstd-1", True),
        ("bucket", "snappy", False),
    ],
    indirect=["lake"],
)
def test_a_topic_that_was_archived_in_small_segments_and_joined_is_restored_equal(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    lake: Lake,
    compression: str,
    is_mixed: bool,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    scene = Scene(source, destination, topic_name, tmp_path, lake, compression)
    fill(scene)
    before = scene.names()
    assert len(before) > 8, before
    if is_mixed:
        # Of the first large ones the second has no seal, the last one of them a seal that says of no compression.
        scene.make_old(before[1], is_sealed=False)
        scene.make_old(before[2], is_sealed=True)
        assert assert_equal_in_archive(source, lake, topic_name) > 1300

    rows = scene.merge()
    assert {row["result"] for row in rows} == {"merged"}, rows
    (merged, newest) = scene.names()
    assert newest == before[-1]
    said = scene.said_by(merged)
    assert len(said["parts"]) >= 4, "row groups of the large segments were copied"  # type: ignore[arg-type]
    assert said["compression"] == compression

    given = ("--store", "lake", "--topics", topic_name, "--to", "west", "--name", f"{topic_name}-back", "--yes")
    scene.do("restore", "-c", scene.configuration(), *given)
    assert assert_equal_in_kafka(source, destination, topic_name) > 1300
    assert assert_equal_in_archive(source, lake, topic_name) > 1300
    for config in (scene.configuration(), scene.back()):
        verified = scene.do("verify", "-c", config, "--format", "json").rows()
        assert [row["result"] for row in verified] == ["equal"], verified
    checked = scene.do("archive", "check", "-c", scene.configuration(), "--level", "checksums", "--format", "json")
    assert {row["result"] for row in checked.rows()} == {"sound"}, checked.out
