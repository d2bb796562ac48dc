"""Whatever is wrong, the command says where, what, and what to do; and all that is right goes on meanwhile."""

import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import archive_position, assert_equal_in_archive, assert_equal_in_kafka, log_end
from support.golden import segment_name
from support.places import dead_port, http_server, silent_server, small_disk, unwritable_folder
from support.records import consume, simple_records
from support.topics import append, make_topic, topics_of

DAMAGED = ("stray", "overlap", "hole", "misnamed", "format", "truncated")
RECORDS = 35


@dataclass(frozen=True)
class Place:
    """One configuration with many mirrors, nearly all of them wrong in a way of their own."""

    config: Path
    archives_config: Path
    folder: Path
    lake: Path
    source: str
    destination: str
    ports: dict[str, int]
    unwritable: Path
    disk: Path | None

    def topic(self, name: str) -> str:
        return f"{name}-{self.folder.name}"


@dataclass(frozen=True)
class Outcome:
    """What the commands said, before and after the archives were damaged."""

    place: Place
    plan: Ended
    run: Ended
    status: Ended
    damaged_status: Ended
    damaged_run: Ended
    checksums: Ended


@pytest.fixture(scope="module")
def place(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("bad")
    lake = folder / "lake"
    lake.mkdir()
    (folder / "file").write_text("in the way")
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "small", 64))
        unwritable = unwritable_folder(folder / "unwritable")
        ports = {
            "dead": dead_port(),
            "web": stack.enter_context(http_server()),
            "mute": stack.enter_context(silent_server()),
        }
        place = Place(
            config=folder / "mirror.yaml",
            archives_config=folder / "archives.yaml",
            folder=folder,
            lake=lake,
            source=source_kafka.bootstrap_servers,
            destination=destination_kafka.bootstrap_servers,
            ports=ports,
            unwritable=unwritable,
            disk=disk,
        )
        _make_topics(place)
        sound, troubles = _configuration(place)
        write_yaml(place.config, sound + troubles)
        write_yaml(place.archives_config, sound)
        yield place


def _make_topics(place: Place) -> None:
    small = simple_records(RECORDS)
    for name in ("fine", "archived", "elsewhere", *DAMAGED):
        make_topic(place.source, place.topic(name), small)
    make_topic(place.source, place.topic("fewer"), small, small)
    make_topic(place.destination, place.topic("fewer"), [])
    make_topic(place.source, place.topic("more"), small)
    make_topic(place.destination, place.topic("more"), [], [], [])
    make_topic(place.source, place.topic("foreign"), small)
    make_topic(place.destination, place.topic("foreign"), [*small[:3], *simple_records(7, start=100)])
    make_topic(
        place.source, place.topic("large"), [*small[:5], *simple_records(1, start=5, size=3000)], batch_records=1
    )
    make_topic(place.destination, place.topic("large"), [], max_message_bytes="1000")
    big = [record for n in range(20) for record in simple_records(1, start=n, size=60_000)]
    make_topic(place.source, place.topic("full"), [*small[:20], *big], batch_records=1)


def _configuration(place: Place) -> tuple[str, str]:
    """The clusters, the stores and the mirrors that are right; and the mirrors that are not."""

    def kafka(name: str, topic: str, cluster: str = "east", more: str = "") -> str:
        source = f"{{cluster: {cluster}, topics: [{topic}]}}"
        return f"  - {{name: {name}, source: {source}, destinations: [{{type: kafka, cluster: west{more}}}]}}"

    def archive(name: str, topic: str, store: str = "lake") -> str:
        destination = f"{{type: archive, store: {store}, compression: uncompressed, flush: {{max-records: 10}}}}"
        return f"  - {{name: {name}, source: {{cluster: east, topics: [{topic}]}}, destinations: [{destination}]}}"

    stores = {
        "lake": place.lake,
        "unwritable": place.unwritable,
        "absent": place.folder / "absent",
        "file": place.folder / "file",
        **({"small": place.disk} if place.disk else {}),
    }
    quick = "properties: {socket.connection.setup.timeout.ms: 1000, request.timeout.ms: 1000}"
    elsewhere = place.topic("elsewhere")
    sound = "\n".join(
        [
            "clusters:",
            f'  east: {{bootstrap-servers: "{place.source}"}}',
            f'  west: {{bootstrap-servers: "{place.destination}"}}',
            *(f'  {c}: {{bootstrap-servers: "127.0.0.1:{port}", {quick}}}' for c, port in place.ports.items()),
            "stores:",
            *(f"  {name}: {{type: filesystem, root: {root}}}" for name, root in stores.items()),
            "mirrors:",
            kafka("fine", place.topic("fine")),
            archive("archived", place.topic("archived")),
            *(archive(name, place.topic(name)) for name in DAMAGED),
            "",
        ]
    )
    troubles = "\n".join(
        [
            *(kafka(cluster, f"at-{cluster}", cluster) for cluster in place.ports),
            kafka("notopic", place.topic("notopic")),
            kafka("nopartition", f"{elsewhere}], partitions: [7", more=", topic: 'to-{topic}'"),
            kafka("nocreate", elsewhere, more=", topic: 'not-{topic}', create-topics: false"),
            kafka("fewer", place.topic("fewer"), more=", create-topics: false"),
            *(kafka(name, place.topic(name)) for name in ("more", "foreign", "large")),
            *(archive(name, place.topic("elsewhere"), name) for name in ("unwritable", "absent", "file")),
            *([archive("full", place.topic("full"), "small")] if place.disk else []),
            "",
        ]
    )
    return sound, troubles


@pytest.fixture(scope="module")
def outcome(place: Place) -> Outcome:
    as_json = ("-c", place.config, "--format", "json")
    plan = mirrorlake("plan", *as_json)
    run = mirrorlake("run", "--once", "-c", place.config)
    said = ("starting mirrorlake", "starting Spark", "Spark has started", "starting mirror ")
    places = [run.err.find(each) for each in said]
    assert -1 not in places, run.err
    assert places == sorted(places), run.err  # each step is named before its seconds pass
    status = mirrorlake("status", *as_json)
    _damage(place)
    for name in ("fine", "archived", *DAMAGED):
        append(place.source, place.topic(name), 0, simple_records(5, start=RECORDS))
    as_json = ("-c", place.archives_config, "--format", "json")
    damaged_status = mirrorlake("status", *as_json)
    damaged_run = mirrorlake("run", "--once", "-c", place.archives_config)
    checksums = mirrorlake("verify", "--level", "checksums", *as_json)
    return Outcome(place, plan, run, status, damaged_status, damaged_run, checksums)


def _damage(place: Place) -> None:
    folders = {name: place.lake / place.topic(name) / "0" for name in DAMAGED}
    (folders["stray"] / "README").write_text("not ours")
    (folders["overlap"] / segment_name(10, 19)).rename(folders["overlap"] / segment_name(5, 19))
    (folders["hole"] / segment_name(10, 19)).unlink()
    (folders["misnamed"] / segment_name(30, 34)).rename(folders["misnamed"] / "30-34.parquet")
    (folders["format"] / segment_name(30, 34)).rename(folders["format"] / f"{segment_name(30, 34)[:-8]}.ndjson")
    cut = folders["truncated"] / segment_name(20, 29)
    cut.write_bytes(cut.read_bytes()[:-200])


# --- clusters and topics ----------------------------------------------------------------------------------

TOPIC_TROUBLE = {
    "dead": "no server of cluster 'dead' answered: 127.0.0.1:{dead} could not be reached: 127.0.0.1:{dead}: Connection "
    "refused (check host and port, and that the broker runs and can be reached from here)",
    "web": "no server of cluster 'web' can be used: 127.0.0.1:{web} does not speak the Kafka protocol",
    "mute": "no server of cluster 'mute' answered: 127.0.0.1:{mute} accepted the connection and stayed silent",
    "notopic": "source topic notopic-{tag} does not exist on cluster east ({source}) (check the name",
    "nopartition": "source topic elsewhere-{tag} has no partition 7, it has 1 (correct the partition)",
    "nocreate": "destination topic not-elsewhere-{tag} does not exist on cluster west (create it like the source: "
    "kafka-topics.sh --create --topic not-elsewhere-{tag} --partitions 1",
    "fewer": "source topic fewer-{tag} has 2 partition(s), destination topic fewer-{tag} on cluster west has 1 (add "
    "partitions to fewer-{tag}: kafka-topics.sh --alter --topic fewer-{tag} --partitions 2)",
    "more": "source topic more-{tag} has 1 partition(s), destination topic more-{tag} on cluster west has 3 (mirror to "
    "another topic, or delete more-{tag} to have it made like the source)",
}


@pytest.mark.parametrize("mirror", TOPIC_TROUBLE)
def test_status_and_plan_say_what_is_wrong_with_a_cluster_or_topic_and_what_to_do(
    mirror: str, outcome: Outcome
) -> None:
    place = outcome.place
    expected = TOPIC_TROUBLE[mirror].format(**place.ports, tag=place.folder.name, source=place.source)

    for ended in (outcome.plan, outcome.status):
        assert ended.code == 1
        errors = [row["error"] for row in ended.rows() if row["name"] == mirror]
        assert errors
        assert all(error.startswith(expected) for error in errors), errors


def test_a_cluster_that_does_not_answer_is_unreachable_and_one_that_says_no_refuses(outcome: Outcome) -> None:
    actions = {
        row["name"]: (row["action"], "reason" in row) for row in outcome.plan.rows() if row["name"] in TOPIC_TROUBLE
    }

    silent = ("dead", "mute")
    assert actions == {
        mirror: ("unreachable", False) if mirror in silent else ("refused", True) for mirror in TOPIC_TROUBLE
    }


@pytest.mark.parametrize("mirror", TOPIC_TROUBLE)
def test_a_run_says_the_same_and_tells_what_may_pass_from_what_will_not(mirror: str, outcome: Outcome) -> None:
    place = outcome.place
    expected = TOPIC_TROUBLE[mirror].format(**place.ports, tag=place.folder.name, source=place.source).split(" (")[0]
    passing = mirror in ("dead", "mute")

    lines = [line.replace("\\'", "'") for line in outcome.run.troubles(mirror)]
    assert all(expected in line and " hint=" in line for line in lines), lines
    assert lines
    assert all(("[warning] target not ready, trying again" in line) is passing for line in lines)
    assert all(("[error] partition parked" in line) is not passing for line in lines)


def test_a_bounded_run_with_a_broker_that_does_not_answer_fails_after_all_the_rest_is_done(outcome: Outcome) -> None:
    place = outcome.place

    assert (outcome.run.code, outcome.run.out) == (1, "")
    assert len(outcome.run.troubles("dead")) >= 2, "asked again before it gave up"
    assert assert_equal_in_kafka(place.source, place.destination, place.topic("fine")) == RECORDS + 5
    assert assert_equal_in_archive(place.source, place.lake, place.topic("archived")) == RECORDS + 5


def test_topics_that_are_refused_are_neither_made_nor_written(outcome: Outcome) -> None:
    place = outcome.place
    there = topics_of(place.destination)

    assert not {f"to-{place.topic('elsewhere')}", f"not-{place.topic('elsewhere')}", place.topic("notopic")} & there
    assert [log_end(place.destination, place.topic(name)) for name in ("fewer", "more")] == [0, 0]


def test_a_destination_with_foreign_records_is_left_as_it_is_and_the_first_foreign_offset_is_named(
    outcome: Outcome,
) -> None:
    place = outcome.place
    topic = place.topic("foreign")

    (line,) = outcome.run.troubles("foreign")
    assert "[error] partition parked" in line
    assert (
        f"destination {topic}-0 is at position 10, but its record at offset 3 is not that of source {topic}-0" in line
    )
    assert "delete and re-create the destination topic to copy it afresh" in line
    held = consume(place.destination, topic, 0)
    assert [record.value for record in held.values()] == [
        record.value for record in [*simple_records(3), *simple_records(7, start=100)]
    ]


def test_a_record_larger_than_the_destination_takes_stops_its_partition_there_and_says_the_size(
    outcome: Outcome,
) -> None:
    place = outcome.place
    topic = place.topic("large")

    (line,) = outcome.run.troubles("large")
    assert "[error] partition parked" in line
    assert f"source {topic}-0: the record at source offset 5 makes a batch of 3072 bytes" in line
    assert f"destination topic {topic} takes 1000 bytes" in line
    assert f"raise max.message.bytes of {topic} to at least 3072" in line
    assert "position=5" in line
    assert len(consume(place.destination, topic, 0)) == 5


# --- archives ---------------------------------------------------------------------------------------------


def test_a_store_that_is_missing_or_no_folder_is_refused_by_status_plan_and_run_alike(outcome: Outcome) -> None:
    folder = outcome.place.folder
    expected = {
        "absent": f"the archive's root {folder}/absent does not exist (create it, or mount the file system",
        "file": f"{folder}/file is a file, and a folder is needed there (name another folder, or move it away",
    }
    for mirror, error in expected.items():
        for ended in (outcome.plan, outcome.status):
            assert ended.row(mirror)["error"].startswith(error)
        (line,) = outcome.run.troubles(mirror)
        assert "[error] partition parked" in line
    assert not (folder / "absent").exists()
    assert (folder / "file").read_text() == "in the way"


def test_a_store_that_cannot_be_written_parks_and_names_the_folder(outcome: Outcome) -> None:
    (line,) = outcome.run.troubles("unwritable")

    assert "[error] partition parked" in line
    assert " kind=StoreUnusableError " in line
    assert str(outcome.place.unwritable) in line
    assert " hint=" in line


def test_a_full_store_is_tried_again_until_a_bounded_run_gives_up_and_keeps_what_was_published(
    outcome: Outcome,
) -> None:
    disk, topic = outcome.place.disk, outcome.place.topic("full")
    if disk is None:
        pytest.skip("a small file system cannot be mounted here: neither root nor sudo without password may")

    tries = outcome.run.troubles("full")
    # A segment that is on its way when the next one fills the disk may fail too: then it comes first in the next lease.
    failures = [int(found[1]) for line in tries if (found := re.search(r" failures=(\d+) ", line))]
    assert failures in ([1, 2, 3, 4, 5, 6], [1, 1, 2, 3, 4, 5, 6])
    assert all("[warning] partition failed, trying again" in line for line in tries)
    assert all("No space left on device (ENOSPC)" in line and "hint='free some space'" in line for line in tries)
    assert all(f"{disk}/{topic}/_staged/_0." in line for line in tries)
    assert sorted(path.name for path in (disk / topic / "0").iterdir()) == [segment_name(0, 9), segment_name(10, 19)]
    assert archive_position(disk, topic) == 20


CHAIN_TROUBLE = {
    "stray": "'README' is not a name mirrorlake writes",
    "overlap": f"{segment_name(5, 19)} overlaps {segment_name(0, 9)}: expected a segment from 10",
    "hole": f"{segment_name(20, 29)} leaves a hole after {segment_name(0, 9)}: expected a segment from 10",
    "misnamed": "'30-34.parquet' is not a name mirrorlake writes",
    "format": f"{segment_name(30, 34)[:-8]}.ndjson is ndjson, and this mirror writes parquet",
}


@pytest.mark.parametrize("mirror", CHAIN_TROUBLE)
def test_an_archive_whose_files_do_not_follow_one_another_is_not_written_to(mirror: str, outcome: Outcome) -> None:
    place = outcome.place
    expected = f"{place.topic(mirror)}/0: {CHAIN_TROUBLE[mirror]}"

    row = outcome.damaged_status.row(mirror)
    assert expected in row["error"]
    assert row["error"].endswith(")"), "there is a remedy"
    assert (row["dest_next"], row["state"]) == (None, "parked")
    (line,) = outcome.damaged_run.troubles(mirror)
    assert "[error] partition parked" in line
    assert expected in line.replace("\\'", "'")
    names = {path.name for path in (place.lake / place.topic(mirror) / "0").iterdir()}
    assert segment_name(35, 39) not in names
    assert segment_name(0, 9) in names


def test_a_file_cut_short_is_found_by_its_content_and_named(outcome: Outcome) -> None:
    row = outcome.checksums.row("truncated")

    assert outcome.checksums.code == 1
    assert row["result"] == "differs"
    cut = f"{outcome.place.topic('truncated')}/0/{segment_name(20, 29)}"
    assert row["error"].startswith(f"{cut} cannot be read as Parquet")
    assert "put it back from a copy, or archive the range again" in row["error"]
    assert outcome.checksums.row("archived")["result"] == "equal"


# --- the configuration ------------------------------------------------------------------------------------

TO_WEST = "destinations: [{type: kafka, cluster: west}]"
CONFIGURATIONS = {
    "a folder that leads out of the store": (
        "{name: a, source: {cluster: east, topics: [x]}, destinations: [{type: archive, store: lake, name: ../up}]}",
        ["8: mirrors[0].destinations[0].name: `../up` cannot be a destination's name (it must be one folder name"],
    ),
    "a folder in a folder": (
        "{name: a, source: {cluster: east, topics: [x]}, destinations: [{type: archive, store: lake, name: a/b}]}",
        ["8: mirrors[0].destinations[0].name: `a/b` cannot be a destination's name (it must be one folder name"],
    ),
    "a mirror's name that is a path": (
        f"{{name: a/../b, source: {{cluster: east, topics: [x]}}, {TO_WEST}}}",
        ["8: mirrors[0].name: `a/../b` cannot be a name ("],
    ),
    "one name twice": (
        f"{{name: a, source: {{cluster: east, topics: [x]}}, {TO_WEST}}}\n"
        f"{{name: a, source: {{cluster: east, topics: [y]}}, {TO_WEST}}}",
        ["9: mirrors[1].name: the name `a` is taken, on line 8 (names are unique)"],
    ),
    "two mirrors on one topic": (
        f"{{name: a, source: {{cluster: east, topics: [x]}}, {TO_WEST}}}\n"
        f"{{name: b, source: {{cluster: east, topics: [x]}}, {TO_WEST}}}",
        ["9: mirrors[1].destinations[0]: mirror b (topic x) writes topic x of cluster west, as does mirror a (topic"],
    ),
    "a misspelt field": (
        f"{{name: a, source: {{cluster: east, topcs: [x]}}, {TO_WEST}}}",
        [
            "8: mirrors[0].source.topics: is required",
            "8: mirrors[0].source.topcs: is not a known field (did you mean `topics`?)",
        ],
    ),
    "wrong types": (
        f"{{name: a, source: {{cluster: east, topics: x, partitions: -1}}, {TO_WEST}}}",
        [
            "8: mirrors[0].source.topics: expected a list, found `x` (put it in [ ], several separated by commas)",
            "8: mirrors[0].source.partitions: expected all or a list of partitions, found the number -1",
        ],
    ),
    "a variable that is not set": (
        f"{{name: '${{MIRRORLAKE_TEST_UNSET}}', source: {{cluster: east, topics: [x]}}, {TO_WEST}}}",
        ["8: mirrors[0].name: the environment variable MIRRORLAKE_TEST_UNSET is not set (set it, or correct the name)"],
    ),
    "no YAML": ("{name: a", ["9: not YAML: while parsing a flow mapping"]),
    "no cluster of that name": (
        f"{{name: a, source: {{cluster: est, topics: [x]}}, {TO_WEST}}}",
        ["8: mirrors[0].source.cluster: "],
    ),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_every_mistake_in_a_configuration_is_named_with_its_line_and_field(kind: str, tmp_path: Path) -> None:
    mirrors, expected = CONFIGURATIONS[kind]
    listed = "".join(f"  - {mirror}\n" for mirror in mirrors.splitlines())
    config = write_yaml(
        tmp_path / "mirror.yaml",
        textwrap.dedent("""\
            clusters:
              east: {bootstrap-servers: "east:9092"}
              west: {bootstrap-servers: "west:9092"}
            stores:
              lake: {type: filesystem, root: /lake}

            mirrors:
        """)
        + listed,
    )

    ended = mirrorlake("validate", "-c", config)

    lines = ended.err.splitlines()
    assert (ended.code, ended.out, len(lines)) == (1, "", len(expected)), ended.err
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(f"{config}:{start}"), line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, ": cannot be read: No such file or directory"),
        (b"\xff\xfe\x00", ":1: not UTF-8 (save the file as UTF-8)"),
        (b"", ": holds no configuration (`mirrorlake config schema` lists all settings)"),
        (b"clusters: {}\nmirrors: []\n", ":2: mirrors: no mirrors configured (name at least one)"),
    ],
    ids=["missing", "not text", "empty", "without mirrors"],
)
def test_a_file_that_is_no_configuration_is_refused_before_anything_starts(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    config = tmp_path / "mirror.yaml"
    if content is not None:
        config.write_bytes(content)

    ended = mirrorlake("run", "-c", config)

    assert (ended.code, ended.out) == (1, "")
    assert f"error: {config}{said}" in ended.err
