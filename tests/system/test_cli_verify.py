"""`verify` finds every difference made by hand and names its offset; copies that are equal are said to be."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, Row, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import wait_until
from support.golden import segment_name, write_mirror_v3_segment
from support.records import Record, consume, every_kind, simple_records
from support.topics import append, make_topic
from support.transactions import append_in_transaction

FIELDS = [
    *("name", "topic", "partition", "destination", "start", "end", "records", "erased", "cleaned", "repeated"),
    *("dead_lettered", "dead_lettered_copied"),
    *("lag", "result", "first_difference", "difference"),
]
RECORDS = simple_records(30)
COPIES = ("same", "value", "key", "header", "timestamp", "missing", "surplus", "longer", "behind")
ARCHIVES = ("history", "kinds", "unsealed", "sealed", "dropped", "moved", "absent")


@dataclass(frozen=True)
class Verified:
    """What each level of `verify`, and `status`, said after differences were made by hand."""

    names: Ended
    checksums: Ended
    records: Ended
    status: Ended
    lake: Path
    tag: str

    def at_each_level(self, name: str) -> list[tuple[str, int | None, str | None]]:
        rows = (self.names.row(name), self.checksums.row(name), self.records.row(name))
        return [(row["result"], row["first_difference"], row["difference"]) for row in rows]


@pytest.fixture(scope="module")
def verified(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Verified:
    folder = tmp_path_factory.mktemp("verify")
    tag, lake = folder.name, folder / "lake"
    lake.mkdir()
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    write_history(source, f"history-{tag}")
    write_copies(source, destination, tag)
    make_topic(source, f"kinds-{tag}", every_kind(7))
    for name in ("unsealed", "sealed", "dropped", "moved", "absent"):
        make_topic(source, f"{name}-{tag}", RECORDS)
    await_compaction(source, f"history-{tag}")
    archives = write_yaml(folder / "archives.yaml", configuration(source, destination, lake, tag, (), ARCHIVES))
    filled = mirrorlake("run", "--once", "-c", archives)
    assert (filled.code, filled.out) == (0, ""), filled.err
    damage_archives(lake, tag)
    everything = write_yaml(folder / "all.yaml", configuration(source, destination, lake, tag, COPIES, ARCHIVES))
    as_json = ("-c", everything, "--format", "json")
    return Verified(
        names=mirrorlake("verify", "--level", "names", *as_json),
        checksums=mirrorlake("verify", "--level", "checksums", *as_json),
        records=mirrorlake("verify", *as_json),
        status=mirrorlake("status", *as_json),
        lake=lake,
        tag=tag,
    )


def write_history(source: str, topic: str) -> None:
    """Records of few keys, compacted, with a committed and an aborted transaction among them."""
    make_topic(source, topic, [], cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.001")
    append(source, topic, 0, [keyed(n, seconds=0) for n in range(40)])
    append_in_transaction(source, topic, [keyed(n, seconds=10) for n in range(40, 44)])
    append_in_transaction(source, topic, [keyed(n, seconds=20) for n in range(44, 48)], committed=False)
    append(source, topic, 0, [keyed(n, seconds=30) for n in range(48, 60)])


def keyed(number: int, *, seconds: int) -> Record:
    """One of five keys, now and then a tombstone."""
    value = None if number % 7 == 0 else b"value-%d" % number
    return Record(1_700_000_000_000 + seconds * 1000 + number, b"key-%d" % (number % 5), value)


def await_compaction(source: str, topic: str) -> None:
    wait_until(lambda: min(consume(source, topic, 0)) > 10, f"{topic} to be compacted")


def write_copies(source: str, destination: str, tag: str) -> None:
    """Writes topics at both sides by hand, equal but for one thing each."""

    def altered(offset: int, **changes: object) -> list[Record]:
        return [*RECORDS[:offset], replace(RECORDS[offset], **changes), *RECORDS[offset + 1 :]]  # type: ignore[arg-type]

    copies = {
        "same": RECORDS,
        "value": altered(17, value=b"another"),
        "key": altered(4, key=None),
        "header": altered(29, headers=(("h", None),)),
        "timestamp": altered(0, timestamp=1),
        "longer": [*RECORDS, *simple_records(2, start=30)],
        "behind": RECORDS[:20],
    }
    for name, held in copies.items():
        make_topic(source, f"{name}-{tag}", RECORDS)
        make_topic(destination, f"{name}-{tag}", held)
    # A transaction's marker takes an offset without a record, at 12 on one side or the other.
    for name, marked, plain in (("missing", destination, source), ("surplus", source, destination)):
        make_topic(plain, f"{name}-{tag}", RECORDS)
        make_topic(marked, f"{name}-{tag}", RECORDS[:11])
        append_in_transaction(marked, f"{name}-{tag}", RECORDS[11:12])
        append(marked, f"{name}-{tag}", 0, RECORDS[13:])


def configuration(
    source: str, destination: str, lake: Path, tag: str, copies: tuple[str, ...], archives: tuple[str, ...]
) -> str:
    to_lake = "{type: archive, store: lake, flush: {max-records: 10}}"
    mirrors = [*((name, "{type: kafka, cluster: west}") for name in copies), *((name, to_lake) for name in archives)]
    return "\n".join(
        [
            f'clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}',
            f"stores: {{lake: {{type: filesystem, root: {lake}}}}}",
            "mirrors:",
            *(
                f"  - {{name: {name}, source: {{cluster: east, topics: [{name}-{tag}]}}, destinations: [{to}]}}"
                for name, to in mirrors
            ),
            "",
        ]
    )


def damage_archives(lake: Path, tag: str) -> None:
    def file(name: str) -> Path:
        return lake / f"{name}-{tag}" / "0" / segment_name(10, 19)

    # As mirror-v3 would have written it: there is no checksum that could tell.
    changed = [*RECORDS[10:14], replace(RECORDS[14], value=b"changed"), *RECORDS[15:20]]
    file("unsealed").unlink()
    write_mirror_v3_segment(file("unsealed").parent, f"unsealed-{tag}", 0, 10, changed)
    rewrite(file("sealed"), lambda row: {**row, "value": b"changed"} if row["offset"] == 16 else row)
    rewrite(file("dropped"), lambda row: None if row["offset"] == 13 else row)
    rewrite(file("moved"), lambda row: {**row, "timestamp_ms": 0} if row["offset"] == 19 else row)
    last = lake / f"absent-{tag}" / "0" / segment_name(20, 29)
    last.unlink()


def rewrite(path: Path, change: Callable[[Row], Row | None]) -> None:
    """Writes a segment anew under its name, footer and all, with the rows a function changes or drops."""
    with pq.ParquetFile(path) as file:
        table, metadata = file.read(), file.metadata.metadata
    rows = [row for row in map(change, table.to_pylist()) if row is not None]
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=table.schema))
        writer.add_key_value_metadata({b"mirrorlake": metadata[b"mirrorlake"]})


def test_every_level_ends_with_code_1_and_gives_the_documented_fields(verified: Verified) -> None:
    for ended in (verified.names, verified.checksums, verified.records):
        assert (ended.code, ended.err) == (1, "")
        assert [row["name"] for row in ended.rows()] == [*COPIES, *ARCHIVES]
        for row in ended.rows():
            assert list(row) in (FIELDS, [*FIELDS, "error"])


@pytest.mark.parametrize("name", ["same", "history", "kinds"])
def test_equal_copies_are_equal_at_every_level(name: str, verified: Verified) -> None:
    assert verified.at_each_level(name) == [("equal", None, None)] * 3


def test_a_compacted_topic_with_transactions_is_compared_with_its_archive_record_by_record(verified: Verified) -> None:
    row = verified.records.row("history")

    # 40 plain, 4 committed and a marker, 4 aborted and a marker, 12 plain.
    assert (row["start"], row["end"], row["lag"]) == (0, 62, 0)
    assert 12 <= row["records"] < 40


@pytest.mark.parametrize(
    ("name", "offset", "how"),
    [
        ("value", 17, "different"),
        ("key", 4, "different"),
        ("header", 29, "different"),
        ("timestamp", 0, "different"),
        ("missing", 12, "missing"),
        ("surplus", 12, "extra"),
        ("unsealed", 14, "different"),
        ("sealed", 16, "different"),
        ("dropped", 13, "missing"),
        ("moved", 19, "different"),
    ],
)
def test_a_record_that_differs_is_found_by_comparing_records_at_its_very_offset(
    name: str, offset: int, how: str, verified: Verified
) -> None:
    assert verified.at_each_level(name)[0] == ("equal", None, None), "the names say nothing of the records"
    assert verified.at_each_level(name)[2] == ("differs", offset, how)
    assert "error" not in verified.records.row(name)


def test_a_copy_that_goes_on_where_its_source_ends_is_found_at_every_level(verified: Verified) -> None:
    assert verified.at_each_level("longer") == [("differs", 30, "extra")] * 3
    for ended in (verified.names, verified.checksums, verified.records, verified.status):
        assert "is at position 32, past the end 30 of source" in ended.row("longer")["error"]
    assert (verified.status.row("longer")["lag"], verified.status.row("longer")["state"]) == (-2, "parked")


def test_a_copy_that_is_behind_is_equal_as_far_as_it_goes_and_its_lag_is_said(verified: Verified) -> None:
    row = verified.records.row("behind")

    assert verified.at_each_level("behind") == [("equal", None, None)] * 3
    assert (row["start"], row["end"], row["records"], row["lag"]) == (0, 20, 20, 10)


def test_an_archive_that_has_lost_its_newest_file_is_not_equal_as_far_as_it_goes(verified: Verified) -> None:
    assert verified.at_each_level("absent") == [("failed", None, None)] * 3
    for ended in (verified.names, verified.checksums, verified.records):
        error = ended.row("absent")["error"]
        assert f"absent-{verified.tag}/0: it ends at offset 20, and absent-{verified.tag}/_topic" in error
        assert "says that it had reached offset 30" in error
    assert verified.status.row("absent")["lag"] == 10, "the next run archives it again"


@pytest.mark.parametrize("name", ["sealed", "dropped", "moved"])
def test_a_file_that_is_not_what_its_checksum_says_is_found_without_its_source_and_named(
    name: str, verified: Verified
) -> None:
    row = verified.checksums.row(name)

    assert row["result"] == "differs"
    assert row["error"].startswith(f"{name}-{verified.tag}/0/{segment_name(10, 19)} holds ")
    assert "its footer says 10 with" in row["error"]
    assert "put it back from a copy, or archive the range again" in row["error"]


def test_the_table_shows_the_same_in_one_line_each(verified: Verified, tmp_path: Path) -> None:
    config = verified.lake.parent / "all.yaml"

    lines = mirrorlake("verify", "--level", "names", "-c", config).out.splitlines()

    assert lines[0].split()[-3:] == ["RESULT", "FIRST-DIFFERENCE", "DIFFERENCE"]
    assert next(line for line in lines if line.startswith("longer")).split()[-3:] == ["differs", "30", "extra"]
    assert [line.split()[1] for line in lines if line.startswith("error ")] == ["longer", "absent"]
