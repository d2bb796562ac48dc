"""Archives in each format by the command line: run, verify, and a check that finds a changed file."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, mirrorlake, without_spark, write_yaml
from support.records import every_kind, simple_records
from support.topics import append, make_topic
from support.transactions import append_in_transaction

FORMATS = ("parquet", "ndjson", "log")


@dataclass(frozen=True)
class Site:
    """One topic, archived in every format."""

    config: Path
    lake: Path
    topic: str

    def files(self, format_name: str) -> list[Path]:
        return sorted((self.lake / format_name / "0").iterdir())

    def ask(self, *arguments: str) -> Ended:
        return without_spark(*arguments, "-c", self.config, "--format", "json")


@pytest.fixture(scope="module")
def site(source_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("formats")
    topic, lake, servers = f"orders-{folder.name}", folder / "lake", source_kafka.bootstrap_servers
    lake.mkdir()
    make_topic(servers, topic, [*every_kind(3), *simple_records(40)])
    append_in_transaction(servers, topic, simple_records(3))
    append_in_transaction(servers, topic, simple_records(3), committed=False)
    append(servers, topic, 0, simple_records(30))
    mirrors = [
        f"  - {{name: {name}, source: {{cluster: east, topics: [{topic}]}}, destinations: "
        f"[{{type: archive, store: lake, name: {name}, format: {name}, flush: {{max-records: 50}}}}]}}"
        for name in FORMATS
    ]
    config = write_yaml(
        folder / "mirror.yaml",
        "\n".join(
            [
                f'clusters: {{east: {{bootstrap-servers: "{servers}"}}}}',
                f"stores: {{lake: {{type: filesystem, root: {lake}}}}}",
                "mirrors:",
                *mirrors,
            ]
        ),
    )
    done = mirrorlake("run", "--once", "-c", config)
    assert (done.code, done.out) == (0, ""), done.err
    return Site(config=config, lake=lake, topic=topic)


def values_at(path: Path) -> int:
    """Where the middle of the values lies in a Parquet file."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    (values,) = [c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "value"]
    return int(values.data_page_offset + values.total_compressed_size // 2)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_run_writes_segments_of_the_format_that_cover_the_topic(site: Site, format_name: str) -> None:
    files = site.files(format_name)
    assert len(files) > 1
    assert {path.suffix for path in files} == {f".{format_name}"}
    described = [path.name for path in (site.lake / format_name).glob("_meta/0/*")]
    assert sorted(described) == ([] if format_name == "parquet" else [f"{path.name}.json" for path in files])


@pytest.mark.parametrize("level", ["checksums", "records"])
def test_every_format_is_verified(site: Site, level: str) -> None:
    done = site.ask("verify", "--level", level)
    assert done.code == 0, done.err
    assert {row["name"]: row["result"] for row in done.rows()} == dict.fromkeys(FORMATS, "equal")
    # 36 of every kind, 40, 3, and 30; the aborted ones are nobody's.
    if level == "records":
        assert {row["records"] for row in done.rows()} == {36 + 40 + 3 + 30}


def test_a_changed_file_of_each_format_is_named(site: Site) -> None:
    good = {name: site.files(name)[0].read_bytes() for name in FORMATS}
    try:
        for name in FORMATS:
            # In the middle of a small Parquet file are statistics, of which nothing is told.
            at = values_at(site.files(name)[0]) if name == "parquet" else len(good[name]) // 2
            changed = good[name][:at] + bytes([good[name][at] ^ 1]) + good[name][at + 1 :]
            site.files(name)[0].write_bytes(changed)
        done = site.ask("archive", "check", "--level", "checksums")
        assert done.code == 1
        for name in FORMATS:
            (problems,) = [row["problems"] for row in done.rows() if row["name"] == name]
            assert site.files(name)[0].name in str(problems)
    finally:
        for name in FORMATS:
            site.files(name)[0].write_bytes(good[name])
    assert site.ask("archive", "check", "--level", "checksums").code == 0
