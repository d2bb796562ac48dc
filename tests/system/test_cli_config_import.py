"""``config import`` as users run it, and what it writes planned on real clusters."""

import json
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.records import simple_records
from support.topics import make_topic

SECRET = "hunter2"
MM2 = f"""clusters = east, west
east.bootstrap.servers = east:9092
west.bootstrap.servers = west:9092
west.ssl.key.password = {SECRET}
east->west.enabled = true
tasks.max = 4
"""


def test_the_configuration_is_on_stdout_and_the_counts_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(MM2)

    ended = mirrorlake("config", "import", "--from", "mm2", tmp_path / "mm2.properties")

    assert (ended.code, ended.err) == (0, "5 setting(s) translated, 2 remark(s)\n")
    assert "line 6, tasks.max: use `engine.lanes`, for all mirrors together" in ended.out
    assert SECRET not in ended.out + ended.err


def test_a_file_is_written_whole_and_replaced_only_by_force_and_never_the_one_read(tmp_path: Path) -> None:
    read, made = tmp_path / "mm2.properties", tmp_path / "mirror.yaml"
    read.write_text(MM2)
    made.write_text("mine")
    verb = ("config", "import", "--from", "mm2", read, "--output")

    refused = mirrorlake(*verb, made)
    assert (refused.code, refused.err) == (2, f"{made}: exists already (`--force` replaces it)\n")
    assert made.read_text() == "mine"
    assert mirrorlake(*verb, made, "--force").code == 0
    assert "east-to-west" in made.read_text()
    assert mirrorlake(*verb, read, "--force").code == 2
    assert read.read_text() == MM2
    assert mirrorlake(*verb, tmp_path / "absent" / "x").code == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mirror.yaml", "mm2.properties"]


def test_positions_that_a_program_does_not_keep_where_they_are_read_are_not_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "viooh.edn"
    file.write_text('{:groups [{:mirrors [{:source {:topic {:topic-name "a"}}}]}]}')

    ended = mirrorlake("config", "import", "--from", "viooh", file, "--take-offsets")

    assert (ended.code, ended.out) == (1, "")
    assert "keeps no positions there: write them under `start` of each source" in ended.err


@pytest.mark.parametrize("program", ["mm2", "mirus", "viooh"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfea", b"a = \\u1", b"a = b"])
def test_what_cannot_be_read_ends_with_the_file_and_the_reason(
    program: str, content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "in"
    if content is not None:
        file.write_bytes(content)

    ended = mirrorlake("config", "import", "--from", program, file)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"{file}: ")


def test_what_must_be_mended_is_written_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "w.properties").write_text("bootstrap.servers = west:1\ngroup.id = g\n")

    ended = mirrorlake("config", "import", "--from", "mirus", tmp_path / "w.properties")

    assert ended.code == 1
    assert "to be mended: mirrors[0].source.topics: names no topic" in ended.err
    assert ended.out.startswith("# Imported from mirus: w.properties\n")


@pytest.mark.parametrize("program", ["mm2", "mirus", "viooh"])
def test_what_is_written_is_planned_on_real_clusters(
    program: str, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    topic = f"imported-{program}-{tmp_path.name}"
    make_topic(east, topic, simple_records(7))
    if program == "mm2":
        lines = [
            *("clusters = east, west", f"east.bootstrap.servers = {east}", f"west.bootstrap.servers = {west}"),
            *("east->west.enabled = true", f"east->west.topics = {topic}", "replication.factor = 1"),
        ]
        text, copy = "\n".join(lines), f"east.{topic}"
    elif program == "viooh":
        sides = [
            f'{side} {{:kafka {{:bootstrap.servers "{servers}"}} :topic {{:topic-name "{name}"}}}}'
            for side, servers, name in ((":source", east, topic), (":destination", west, f"{topic}.copy"))
        ]
        rules = ":topics-mirroring {:replication-factor {:type :fix :value 1}}"
        mirror = f"{{{' '.join(sides)} :serdes [:string :string]}}"
        text, copy = f"{{:groups [{{:mirrors [{mirror}]}}] {rules}}}", f"{topic}.copy"
    else:
        settings = {"name": "m", "topics.whitelist": topic, "enable.destination.topic.checking": "false"}
        servers = {"consumer.bootstrap.servers": east, "destination.consumer.bootstrap.servers": west}
        text, copy = json.dumps(settings | servers | {"destination.topic.name.suffix": ".copy"}), f"{topic}.copy"
    (tmp_path / "in").write_text(text)
    made = tmp_path / "mirror.yaml"

    assert mirrorlake("config", "import", "--from", program, tmp_path / "in", "-o", made).code == 0
    planned = mirrorlake("plan", "-c", made)

    assert planned.code == 0, planned.err
    assert topic in planned.out
    assert copy in planned.out
