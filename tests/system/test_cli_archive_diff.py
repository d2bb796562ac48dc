"""`archive diff` as users run it: folders, stores and clusters by their names, tables, JSON and exit codes."""

import json
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archives import mark_archive, write_archive, write_segment
from support.command import Ended, write_yaml
from support.command import mirrorlake as with_spark
from support.command import without_spark as mirrorlake
from support.records import every_kind
from support.topics import append, make_topic

KEYS = [
    *("a", "b", "partition", "start", "end", "records_a", "records_b", "result", "first_difference", "difference"),
    *("differences", "complete", "explained", "unread"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two archives of one topic, cut in other ways and in other formats; and what only one of them has."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    write_archive(tmp_path / "one", "orders", 0, 10, 30, 50)
    write_archive(tmp_path / "one", "orders", 1, 5)
    write_archive(tmp_path / "two", "orders", 0, 25, 50)
    write_segment(tmp_path / "two", "orders", 1, 0, 5, extension="ndjson")
    mark_archive(tmp_path / "one", {"orders": {0: 50, 1: 5}})
    mark_archive(tmp_path / "two", {"orders": {0: 50, 1: 5}})
    return tmp_path


def configuration(folder: Path, servers: str = "127.0.0.1:1", destinations: str = "") -> Path:
    """Without brokers nobody listens: nothing but the stores may be asked."""
    return write_yaml(
        folder / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "{servers}"}}}}
stores:
  one: {{type: filesystem, root: {folder / "one"}}}
  two: {{type: filesystem, root: {folder / "two"}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: ["/orders.*/"]}}
    destinations: [{{type: archive, store: one{destinations}}}]
""",
    )


def diff(folder: Path, *arguments: str | Path, config: Path | None = None) -> Ended:
    return mirrorlake("archive", "diff", "-c", config or configuration(folder), *arguments, "--format", "json")


@pytest.mark.parametrize(
    ("a", "b", "labels"),
    [
        ("one:orders", "two:orders", ("one:orders", "two:orders")),
        ("one:orders", "two", ("one:orders", "two:orders")),
        ("one", "two", ("one:orders", "two:orders")),
        ("one", "{folder}/two", ("one:orders", "{folder}/two:orders")),
    ],
)
def test_places_are_named_as_stores_folders_and_paths(folder: Path, a: str, b: str, labels: tuple[str, str]) -> None:
    found = diff(folder, a, b.format(folder=folder))
    assert found.code == 0, found.err
    assert [list(row) for row in found.rows()] == [KEYS, KEYS]
    assert [(row["partition"], row["result"], row["records_a"]) for row in found.rows()] == [
        (0, "equal", 45),
        (1, "equal", 5),
    ]
    assert [found.rows()[0][side] for side in "ab"] == [label.format(folder=folder) for label in labels]


def test_what_differs_and_what_is_not_known_is_shown_with_exit_code_1(folder: Path) -> None:
    write_segment(folder / "one", "orders", 1, 5, 12)
    (folder / "two" / "orders" / "0" / f"{0:020}-{24:020}.parquet").unlink()
    found = diff(folder, "one", "two")
    assert found.code == 1
    unknown, differs = found.rows()
    assert (unknown["result"], unknown["unread"][0]["side"]) == ("unknown", "b")
    assert [(each["start"], each["end"]) for each in unknown["unread"]] == [(0, 25)]
    assert (differs["result"], differs["first_difference"], differs["difference"]) == ("differs", 5, "only-a")
    table = mirrorlake("archive", "diff", "-c", configuration(folder), "one", "two")
    assert table.code == 1
    assert "only one:orders has records behind the end of two:orders, offsets 5 to 11" in table.out
    assert "two:orders could not be read at offsets [0, 25)" in table.out
    only = diff(folder, "one", "two", "--partition", "0", "--from-offset", "25", "--to-offset", "49")
    assert (only.code, [row["result"] for row in only.rows()]) == (0, ["equal"])


def test_a_topic_that_only_one_archive_has_is_not_passed_over(folder: Path) -> None:
    write_archive(folder / "one", "payments", 0, 10)
    found = diff(folder, "one", "two")
    assert found.code == 1
    assert [(row["a"], row["result"]) for row in found.rows()][-1] == ("one:payments", "unknown")
    assert "has no topic payments" in found.rows()[-1]["error"]
    assert diff(folder, "one", "two", "--topic", "orders").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nowhere:orders", "two"), 1, "no store and no cluster nowhere"),
        (("/nowhere/at/all", "two"), 1, "/nowhere/at/all does not exist"),
        (("east", "east"), 1, "nothing says which topics"),
        (("one:orders", "two", "--topic", "payments"), 1, "is not the topic that was named"),
        (("one", "two", "--from-offset", "5"), 2, "--partition"),
        (("one", "two", "--partition", "0", "--from-offset", "5", "--to-offset", "4"), 2, "--to-offset"),
        (("one", "two", "--partition", "0", "--from-offset", str(1 << 63)), 2, "--from-offset"),
        (("one",), 2, "'B'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(
    folder: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    found = mirrorlake("archive", "diff", "-c", configuration(folder), *arguments)
    assert (found.code, found.out) == (code, "")
    assert text in found.err


@pytest.mark.kafka
def test_a_run_leaves_an_archive_and_a_copy_that_are_equal_to_the_source(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    make_topic(source, topic_name, every_kind(1), every_kind(2))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}
stores: {{one: {{type: filesystem, root: {tmp_path / "one"}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: archive, store: one, format: log}}, {{type: kafka, cluster: west, offsets: preserve}}]
""",
    )
    filled = mirrorlake("run", "--once", "-c", config)
    assert filled.code == 0, filled.err
    for a, b in (("one", "east"), ("one", "west"), (f"west:{topic_name}", "east")):
        found = diff(tmp_path, a, b, config=config)
        assert (found.code, [row["result"] for row in found.rows()]) == (0, ["equal", "equal"]), found.out
    append(source, topic_name, 1, every_kind(3)[:2])
    behind = diff(tmp_path, "one", "east", config=config)
    assert behind.code == 1
    assert [row["difference"] for row in behind.rows()] == [None, "only-b"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
def test_spark_tasks_read_both_sides_and_find_the_record_that_differs(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    """The tasks go to workers of a real session, and what they find comes back from there."""
    source = source_kafka.bootstrap_servers
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    make_topic(source, topic_name, every_kind(1), every_kind(2))
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}}}
stores:
  one: {{type: filesystem, root: {tmp_path / "one"}}}
  two: {{type: filesystem, root: {tmp_path / "two"}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: archive, store: one, format: parquet}}, {{type: archive, store: two, format: ndjson}}]
""",
    )
    filled = mirrorlake("run", "--once", "-c", config)
    assert filled.code == 0, filled.err
    (other,) = (tmp_path / "two" / topic_name / "1").glob("*.ndjson")
    lines = other.read_bytes().splitlines(keepends=True)
    other.write_bytes(b"".join(lines[:-2]) + lines[-1])
    for each in (tmp_path / "two" / topic_name / "_meta" / "1").iterdir():
        each.unlink()
    lost = json.loads(lines[-2])["offset"]

    for a, b, results in (("one", "east", ["equal", "equal"]), ("one", "two", ["equal", "differs"])):
        found = with_spark("archive", "diff", "-c", config, a, b, "--format", "json")
        assert [row["result"] for row in found.rows()] == results, found.err + found.out
    assert found.rows()[1]["differences"] == [
        {"start": lost, "end": lost + 1, "records": 1, "how": "only-a", "why": None}
    ]
