"""The commands of a package that has a `type` of destination more, as `docs/contributing.md` adds it: Spark and all."""

import json
import subprocess
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import SECONDS_MAX, Ended, write_yaml
from support.copies import create_topic
from support.new_type import Extended, extended
from support.records import simple_records
from support.tally.sink import read_tally
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extended(tmp_path_factory.mktemp("extended"))


def command(toy: Extended, *arguments: str | Path) -> Ended:
    done = subprocess.run(
        [*toy.python, "-m", "mirrorlake", *map(str, arguments)],
        env={**toy.environ, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def test_every_command_knows_a_type_that_one_row_names(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    toy: Extended,
) -> None:
    servers, tallies = source_kafka.bootstrap_servers, tmp_path / "tallies"
    tallies.mkdir()
    file = tallies / f"{topic_name}-0.json"
    create_topic(servers, topic_name)
    # 3 records and a marker, 4 that were aborted and a marker, 5 records: [0, 14).
    append_in_transaction(servers, topic_name, simple_records(3), partition=0, committed=True)
    append_in_transaction(servers, topic_name, simple_records(4), partition=0, committed=False)
    append(servers, topic_name, 0, simple_records(5), batch_records=2)
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters:
  east: {{bootstrap-servers: "{servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
stores: {{lake: {{type: filesystem, root: "{tmp_path}/lake"}}}}
mirrors:
- name: {topic_name}
  source: {{cluster: east, topics: [{topic_name}]}}
  destinations:
  - {{type: kafka, cluster: west}}
  - {{type: tally, folder: "{tallies}"}}
  - {{type: archive, store: lake}}
service: {{metrics: off}}
""",
    )
    (tmp_path / "lake").mkdir()

    understood = command(toy, "validate", "-c", config)
    assert understood.code == 0, understood.err
    assert "topic {topic} on west; tally {topic} on tallies; archive {topic} on lake" in understood.out

    planned = command(toy, "plan", "-c", config, "--format", "json")
    assert planned.code == 0, planned.err
    row = planned.row(topic_name, destination="tallies")
    assert (row["action"], row["to"]) == ("copy", str(file))

    for end, count in ((14, 8), (19, 13)):
        ran = command(toy, "run", "--once", "-c", config)
        assert ran.code == 0, ran.err
        assert read_tally(file) == (end, count)
        shown = command(toy, "status", "-c", config, "--format", "json")
        assert {each["destination"]: (each["dest_next"], each["state"]) for each in shown.rows()} == {
            "west": (end, "caught-up"),
            "tallies": (end, "caught-up"),
            "lake": (end, "caught-up"),
        }
        if end == 14:
            append(servers, topic_name, 0, simple_records(5), batch_records=2)
    assert json.loads(file.read_text()) == {"position": 19, "records": 13}
    assert [path.name for path in tallies.iterdir()] == [file.name], "no marker of an archive lies beside it"

    lists = command(toy, "offsets", "list", "-c", config)
    assert (lists.code, lists.out.count("tallies")) == (0, 1), lists.err
    compared = command(toy, "verify", "-c", config, "--format", "json")
    assert compared.code == 1, compared.err
    assert {each["destination"]: each["result"] for each in compared.rows()} == {
        "west": "equal",
        "tallies": "failed",
        "lake": "equal",
    }
    assert "tallies holds a count, and no record to compare" in compared.row(topic_name, destination="tallies")["error"]

    file.write_text("{")
    damaged = command(toy, "status", "-c", config, "--format", "json")
    assert damaged.code == 1, damaged.err
    assert {each["destination"]: each["state"] for each in damaged.rows()} == {
        "west": "caught-up",
        "tallies": "parked",
        "lake": "caught-up",
    }
    assert f"{file} holds no tally" in damaged.row(topic_name, destination="tallies")["error"]
