"""What the command line promises to people and scripts: codes, streams, formats, and that looking changes nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake import __version__
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import mirrorlake as started
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import make_topic, topics_of

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = str(EXAMPLES / "kafka-to-kafka-and-parquet.yaml")
VERBS = [
    "",
    "validate",
    "plan",
    "run",
    "status",
    "verify",
    "demo",
    "config",
    "config schema",
    "config import",
    "groups",
    "groups plan",
    "groups sync",
    "archive",
    "archive ls",
    "archive check",
    "archive diff",
    "offsets",
    "offsets list",
    "offsets export",
    "offsets import",
    "offsets reset",
    "topics",
    "topics plan",
    "topics diff",
    "topics apply",
]
STATUS_FIELDS = [
    *("name", "topic", "partition", "destination", "source_low", "source_high", "dest_next", "lag", "lag_seconds"),
    *("state", "service"),
]
LONG_NAME = "t" * 249
HEAVY = ("pyspark", "numba", "pyarrow", "numpy", "pandas", "kafka", "pydantic", "yaml", "mirrorlake.service")


@dataclass(frozen=True)
class Setup:
    """A topic with 25 and 0 records, a mirror of it to Kafka and to files, and one of a topic that is not there."""

    config: Path
    topic: str
    lake: Path


@pytest.fixture(scope="module")
def setup(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Setup:
    folder = tmp_path_factory.mktemp("contract")
    lake = folder / "lake"
    lake.mkdir()
    topic = f"contract-{folder.name}"
    make_topic(source_kafka.bootstrap_servers, topic, simple_records(25), [])
    config = write_yaml(
        folder / "mirror.yaml",
        f"""
clusters:
  east: {{bootstrap-servers: "{source_kafka.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
stores:
  lake: {{type: filesystem, root: {lake}}}
mirrors:
  - name: both
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "copy-of-{{topic}}"}}, {{type: archive, store: lake}}]
  - name: absent
    source: {{cluster: east, topics: [{LONG_NAME}]}}
    destinations: [{{type: kafka, cluster: west}}]
""",
    )
    return Setup(config=config, topic=topic, lake=lake)


@pytest.mark.parametrize("verb", VERBS, ids=[verb or "mirrorlake" for verb in VERBS])
def test_the_help_of_every_verb_shows_an_example_and_no_type_beside_flags(verb: str) -> None:
    ended = mirrorlake(*verb.split(), "--help")

    assert (ended.code, ended.err) == (0, "")
    assert "Example: mirrorlake" in ended.out
    assert "<bool>" not in ended.out


def test_help_and_version_are_also_had_by_one_letter() -> None:
    for verb in ("", "status", "archive", "archive ls"):
        assert mirrorlake(*verb.split(), "-h") == mirrorlake(*verb.split(), "--help")
    assert mirrorlake("-V").out == f"mirrorlake {__version__}\n"


def test_the_configuration_is_the_one_named_else_that_of_the_environment_else_the_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configuration(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        return write_yaml(
            folder / "mirror.yaml",
            'clusters: {east: {bootstrap-servers: "nowhere:1"}}\nmirrors:\n  - {name: '
            f"{name}, source: {{cluster: east, topics: [a]}}, "
            "destinations: [{type: kafka, cluster: east, topic: b}]}\n",
        )

    here, named, given = map(configuration, ("here", "named", "given"))
    monkeypatch.chdir(here.parent)

    def understood(*arguments: str | Path, environ: dict[str, str] | None = None) -> str:
        ended = mirrorlake("validate", *arguments, "--format", "json", environ=environ)
        return str(json.loads(ended.out)["mirrors"][0]["name"])

    assert understood() == "here"
    assert understood(environ={"MIRRORLAKE_CONFIG": str(named)}) == "named"
    assert understood("-c", given, environ={"MIRRORLAKE_CONFIG": str(named)}) == "given"


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--log-format", "json", "-v"], []], ids=["asked for", "not"])
def test_how_logs_look_and_how_much_is_said_may_be_asked_for_before_and_behind_the_verb(options: list[str]) -> None:
    script = """
import os, sys
from mirrorlake.cli import main
import mirrorlake.cli.status
mirrorlake.cli.status.status = lambda path, as_json: 0
try:
    main.main()
finally:
    print(os.environ.get("MIRRORLAKE_LOG_FORMAT"), os.environ.get("MIRRORLAKE_LOG_LEVEL"))
"""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MIRRORLAKE_")}
    for arguments in ([*options, "status", "-c", "x"], ["status", "-c", "x", *options]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, env=environ
        )
        assert done.stdout.split() == (["json", "debug"] if options else ["None", "None"])


def test_help_loads_nothing_heavy() -> None:
    script = f"""
import sys
from mirrorlake.cli.main import main
sys.argv = ["mirrorlake", "--help"]
try:
    main()
finally:
    print(*sorted(set({HEAVY!r}) & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stderr.split() == []


def test_the_version_is_said() -> None:
    ended = started("--version")

    assert (ended.code, ended.out, ended.err) == (0, f"mirrorlake {__version__}\n", "")


def test_the_schema_is_json_schema_alone_on_stdout() -> None:
    ended = mirrorlake("config", "schema")

    schema = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    named = set(re.findall(r'"\$ref": "#/\$defs/([^"]+)"', ended.out))
    assert named
    assert named <= schema["$defs"].keys()


def test_validate_says_what_it_found_in_one_line_and_what_each_mirror_means_in_one_more(tmp_path: Path) -> None:
    mirrors = "".join(
        f"  - {{name: m{n}, source: {{cluster: east, topics: [t{n}]}}, destinations: [{{type: {kind}}}]}}\n"
        for n, kind in enumerate(("kafka, cluster: west", "archive, store: lake", "kafka, cluster: west"))
    )
    config = write_yaml(
        tmp_path / "mirror.yaml",
        'clusters: {east: {bootstrap-servers: "nowhere:1"}, west: {bootstrap-servers: "nowhere:2"}}\n'
        f"stores: {{lake: {{type: filesystem, root: {tmp_path}/absent}}}}\nmirrors:\n{mirrors}",
    )

    ended = mirrorlake("validate", "-c", config)

    # The hosts do not exist and the folder is not there: validating touches neither.
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "OK: 3 mirror(s), destination type = kafka, filesystem",
        "  m0: t0 of cluster east → topic {topic} on west",
        "  m1: t1 of cluster east → archive {topic} on lake",
        "  m2: t2 of cluster east → topic {topic} on west",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["mirror.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "Missing option '--config'"),
        (["mirror"], "No such command 'mirror'"),
        (["status", "-c", "x.yaml", "--format", "xml"], "'--format': expected table or json, found 'xml'"),
        (["verify", "-c", "x.yaml", "--level", "deep"], "'--level': expected names or checksums or records"),
        (["plan", "-c", "x.yaml", "--log-format", "yaml"], "'--log-format': expected text or json, found 'yaml'"),
        (["plan", "--dry"], "No such option: --dry"),
        (["groups", "sync", "-c", EXAMPLE], "nobody can be asked here: give --yes, or use `groups plan`"),
        (["topics", "apply", "-c", EXAMPLE], "nobody can be asked here: give --yes, or use `topics plan`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_code_2_and_says_so_on_stderr(arguments: list[str], said: str) -> None:
    ended = mirrorlake(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["restore", "-c", EXAMPLE, "--store", "lak", "--topics", "orders", "--to", "west"],
            "restore: --store: there is no store `lak` (did you mean `lake`?)",
        ),
        (["groups", "sync", "-c", "x.yaml"], "x.yaml: cannot be read: No such file or directory"),
        (["offsets", "reset", "-c", "x.yaml", "--mirror", "m"], "x.yaml: cannot be read: No such file or directory"),
        (["failover", "run", "-c", "x.yaml"], "x.yaml: cannot be read: No such file or directory"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_where_nobody_can_be_asked_a_wrong_configuration_is_named_first(arguments: list[str], said: str) -> None:
    ended = mirrorlake(*arguments)

    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert "--yes" not in ended.err


def test_status_as_json_has_exactly_the_documented_fields_and_an_error_where_a_row_failed(setup: Setup) -> None:
    ended = mirrorlake("status", "-c", setup.config, "--format", "json")

    assert ended.code == 1, "one row failed"
    for row in ended.rows():
        failed = row["name"] == "absent"
        assert list(row) == [*STATUS_FIELDS, *(["reason", "error"] if failed else [])]
    assert ended.row("both", 0, "west") == {
        "name": "both",
        "topic": setup.topic,
        "partition": 0,
        "destination": "west",
        "source_low": 0,
        "source_high": 25,
        "dest_next": 0,
        "lag": 25,
        "lag_seconds": None,
        "state": "behind",
        "service": "unknown",
    }
    assert (ended.row("both", 1, "lake")["lag"], ended.row("both", 1, "lake")["state"]) == (0, "caught-up")
    absent = ended.row("absent", None)
    assert (absent["lag"], absent["state"]) == (None, "parked")
    assert f"source topic {LONG_NAME} does not exist on cluster east" in absent["error"]


def test_a_table_that_is_piped_has_one_line_per_row_and_cuts_nothing(setup: Setup) -> None:
    for verb in ("status", "plan"):
        ended = mirrorlake(verb, "-c", setup.config)

        lines = ended.out.splitlines()
        if verb == "status":
            unknown = "what only a running service knows is unknown, such as partitions it parked"
            assert lines.pop() == f"note {unknown}: `service.metrics` is off"
        assert (ended.code, ended.err, len(lines)) == (1, "", 1 + 5 + 1), ended.out
        assert lines[0].split()[:4] == ["NAME", "TOPIC", "PARTITION", "DESTINATION"]
        assert lines[1].split()[:4] == ["both", setup.topic, "0", "west"]
        assert lines[5].split()[:4] == ["absent", LONG_NAME, "–", "west"]
        assert lines[6].startswith(f"error absent {LONG_NAME} → west: source topic {LONG_NAME} does not exist")
        assert "\x1b" not in ended.out, "no colours where nobody looks"


def test_plan_says_which_topics_would_be_made_and_which_offsets_copied(setup: Setup) -> None:
    ended = mirrorlake("plan", "-c", setup.config, "--format", "json")

    west, lake = ended.row("both", 0, "west"), ended.row("both", 0, "lake")
    assert (west["action"], west["start"], west["end"], west["offsets"]) == ("create and copy", 0, 25, 25)
    # What the source's brokers keep for ever, the copy keeps for ever too.
    assert west["note"] == "topic with 2 partition(s), retention.ms=-1"
    assert west["to"] == f"west/copy-of-{setup.topic}"
    assert (lake["action"], lake["offsets"], lake["to"]) == ("copy", 25, f"{setup.lake}/{setup.topic}")
    assert ended.row("absent", None)["action"] == "refused"


@pytest.mark.slow
def test_looking_makes_no_topic_and_no_file(
    setup: Setup, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    servers = (source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers)
    before = [topics_of(each) for each in servers]

    for verb in (
        ["validate"],
        ["status"],
        ["plan"],
        ["verify", "--level", "names"],
        ["verify", "--level", "checksums"],
    ):
        mirrorlake(*verb, "-c", setup.config)

    assert [topics_of(each) for each in servers] == before
    assert list(setup.lake.iterdir()) == []


SCHEMA_COMMAND = [sys.executable, "-m", "mirrorlake", "config", "schema"]


def test_a_metrics_port_that_is_taken_stops_the_start_and_says_how_to_choose_another(setup: Setup) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = mirrorlake("run", "-c", setup.config, environ={"MIRRORLAKE_METRICS": address})

    assert (ended.code, ended.out) == (1, "")
    assert f"error: the metrics endpoint cannot listen on {address}: Address already in use" in ended.err
    assert "hint: set service.metrics (mirror-v3 form: MIRROR_V3_METRICS_PORT) to a free port" in ended.err


def test_output_that_nobody_reads_is_no_traceback() -> None:
    with subprocess.Popen(SCHEMA_COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as unread:
        assert unread.stdout is not None
        unread.stdout.close()
        assert unread.stderr is not None
        assert unread.stderr.read() == ""

    assert unread.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_output_that_finds_no_room_is_an_error_and_no_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        unwritten = subprocess.run(SCHEMA_COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (unwritten.returncode, unwritten.stderr) == (1, "error: No space left on device\n")


@pytest.mark.slow
def test_an_interrupt_ends_a_command_that_waits_for_a_silent_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60.0)
        config = write_yaml(
            tmp_path / "mirror.yaml",
            f'clusters: {{mute: {{bootstrap-servers: "127.0.0.1:{silent.getsockname()[1]}"}}}}\nmirrors:\n'
            "  - {name: m, source: {cluster: mute, topics: [a]}, destinations: "
            "[{type: kafka, cluster: mute, topic: b}]}\n",
        )
        with ServiceProcess("status", "-c", str(config), folder=tmp_path) as process:
            with silent.accept()[0]:  # it has connected, and now waits for an answer
                process.signal(signal.SIGINT)
                assert process.exit_code() == 130
            assert process.said() == ""
