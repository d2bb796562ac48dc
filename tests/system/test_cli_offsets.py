"""`offsets list`, `export`, `import` and `reset`, as processes at real brokers."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.groups.translation import Placed, translate_mapped
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic, log_end, wait_until
from support.map_copies import offset_map_of, progress_of
from support.records import consume, simple_records
from support.service_process import ServiceProcess
from support.topics import append, delete_before, make_topic, topics_of

pytestmark = pytest.mark.slow

RECORDS = 40
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "kafka-to-kafka.yaml")


@dataclass(frozen=True)
class Site:
    """A topic of two partitions with 40 and 10 records, mirrored with mapped offsets, with equal ones, and to files."""

    folder: Path
    east: str
    west: str
    name: str

    @property
    def config(self) -> Path:
        return self.folder / "mirror.yaml"

    @property
    def topic(self) -> str:
        return f"orders-{self.name}"

    @property
    def copy(self) -> str:
        return f"mapped-{self.topic}"

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def configure(self, *, start: str = "earliest") -> None:
        write_yaml(
            self.config,
            f"""clusters:
  east: {{bootstrap-servers: "{self.east}"}}
  west: {{bootstrap-servers: "{self.west}"}}
stores:
  lake: {{type: filesystem, root: {self.folder / "lake"}}}
mirrors:
  - name: m-{self.name}
    source: {{cluster: east, topics: [{self.topic}], start: {start}}}
    destinations: [{{type: kafka, cluster: west, topic: "mapped-{{topic}}", offsets: map}}]
  - name: e-{self.name}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations:
    - {{type: kafka, cluster: west, topic: "equal-{{topic}}"}}
    - {{type: archive, store: lake}}
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
""",
        )

    @property
    def mirror(self) -> str:
        return f"m-{self.name}"

    def offsets(self, verb: str, *options: str | Path) -> Ended:
        return mirrorlake("offsets", verb, "-c", self.config, *options)

    def run(self) -> Ended:
        return mirrorlake("run", "--once", "-c", self.config)

    def exported(self, *options: str) -> list[str]:
        ended = self.offsets("export", *options)
        assert (ended.code, ended.err) == (0, ""), ended.err
        return ended.out.splitlines()

    def imported(self, text: str, *options: str) -> Ended:
        file = self.folder / "positions"
        file.write_text(text, encoding="utf-8")
        return self.offsets("import", "--file", file, *options)

    def position(self, partition: int = 0) -> int | None:
        found = progress_of(
            self.west, TopicPartition(self.topic, partition), topic=self.copy, mirror=self.mirror, shards=2
        )
        return None if found is None else found.position

    def arrived(self, partition: int = 0) -> Counter[bytes | None]:
        """How often each value is at the destination."""
        return Counter(record.value for record in consume(self.west, self.copy, partition).values())

    def values(self, first: int, end: int) -> Counter[bytes | None]:
        held = consume(self.east, self.topic, 0)
        return Counter(held[offset].value for offset in range(first, end))


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path: Path, topic_name: str) -> Site:
    (tmp_path / "lake").mkdir()
    found = Site(tmp_path, source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)
    make_topic(found.east, found.topic, simple_records(RECORDS), simple_records(10, start=1000))
    found.configure()
    return found


def lines(*rows: tuple[object, ...]) -> str:
    return "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)


def assert_no_group_misses_a_record(site: Site) -> None:
    """From where the map leads a group, whatever it stood at, every later record that was copied is still to be read.

    The records are told by their values, which are all different at the source.
    """
    mapping = offset_map_of(site.west, site.source, topic=site.copy, mirror=site.mirror, shards=2)
    copied = {offset: record.value for offset, record in consume(site.west, site.copy, 0).items()}
    held = OffsetRange(start_offset=0, end_offset=log_end(site.west, site.copy, 0))
    values = {offset: record.value for offset, record in consume(site.east, site.topic, 0).items()}
    there = set(copied.values())
    for offset, value in values.items():
        exact = mapping.destination_of(offset)
        assert exact is None or copied[exact] == value, f"{offset} is said to lie at {exact}"
        place = translate_mapped(offset, mapping, held)
        if isinstance(place, Placed):
            still_read = {each for at, each in copied.items() if at >= place.offset}
            missed = [at for at, each in values.items() if at >= offset and each in there and each not in still_read]
            assert not missed, f"a group at {offset} is placed at {place}, and misses {missed}"


def assert_named(site: Site, offset: int) -> None:
    """The map has a place for a source offset, and its record lies there."""
    mapping = offset_map_of(site.west, site.source, topic=site.copy, mirror=site.mirror, shards=2)
    place = mapping.destination_of(offset)
    assert place is not None, f"{offset} has no place"
    assert consume(site.west, site.copy, 0)[place].value == consume(site.east, site.topic, 0)[offset].value


def test_positions_are_listed_moved_back_and_copied_from_there(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    m, e = site.mirror, f"e-{site.name}"
    assert site.exported("--mirror", m) == [f"{m},{site.topic},0,", f"{m},{site.topic},1,"]
    assert site.run().code == 0
    assert sorted(site.exported()) == sorted(
        [
            f"{m},{site.topic},0,40",
            f"{m},{site.topic},1,10",
            f"{e}/west,{site.topic},0,40",
            f"{e}/west,{site.topic},1,10",
            f"{e}/lake,{site.topic},0,40",
            f"{e}/lake,{site.topic},1,10",
        ]
    )
    assert [json.loads(line) for line in site.exported("--format", "json", "--mirror", m)] == [
        {"connectorId": m, "topic": site.topic, "partition": 0, "offset": 40},
        {"connectorId": m, "topic": site.topic, "partition": 1, "offset": 10},
    ]
    file = site.folder / "kept.csv"
    assert site.offsets("export", "--file", file).out == ""
    assert site.imported(file.read_text(encoding="utf-8"), "--yes").code == 0, "nothing differs, so nothing is moved"

    moved = site.imported(lines((m, site.topic, 0, 15)), "--yes")

    assert moved.code == 0, moved.err
    assert "offsets 15…39 are copied behind the newest record, once more where they were" in moved.out
    assert (site.position(0), site.position(1)) == (15, 10)
    assert_no_group_misses_a_record(site)
    append(site.east, site.topic, 0, simple_records(5, start=5000))
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 45) + site.values(15, 40)
    assert site.arrived(1) == Counter(record.value for record in consume(site.east, site.topic, 1).values())
    assert_no_group_misses_a_record(site)
    assert site.exported("--mirror", m) == [f"{m},{site.topic},0,45", f"{m},{site.topic},1,10"]


def test_a_position_moved_forward_skips_records_and_says_so(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    m = site.mirror
    assert site.run().code == 0
    append(site.east, site.topic, 0, simple_records(20, start=5000))

    moved = site.imported(lines((m, site.topic, 0, 50)), "--yes")

    assert moved.code == 0, moved.err
    assert "offsets 40…49 are skipped" in moved.out
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 40) + site.values(50, 60)
    assert_no_group_misses_a_record(site)
    verified = mirrorlake("verify", "-c", site.config, "--format", "json")
    assert verified.code == 1
    assert verified.row(m)["result"] == "differs"
    # Back over what was skipped: it arrives, and so does once more what was copied behind it.
    assert site.imported(lines((m, site.topic, 0, 45)), "--yes").code == 0
    assert_no_group_misses_a_record(site)
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 40) + site.values(50, 60) + site.values(45, 60)
    assert_no_group_misses_a_record(site)
    for offset in range(45, 50):
        assert_named(site, offset)
    # All of it, and then the map has a place for each.
    assert site.imported(lines((m, site.topic, 0, 40)), "--yes").code == 0
    append(site.east, site.topic, 0, simple_records(5, start=6000))
    assert site.run().code == 0
    assert_no_group_misses_a_record(site)
    for offset in range(65):
        assert_named(site, offset)
    row = mirrorlake("verify", "-c", site.config, "--format", "json").row(m)
    assert (row["result"], row["records"], row["repeated"]) == ("equal", 65, 25)


def test_back_and_forward_again_before_anything_is_copied_leads_no_group_past_a_record(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    m = site.mirror
    assert site.run().code == 0
    for offset in (10, 25):
        assert site.imported(lines((m, site.topic, 0, offset)), "--yes").code == 0
        assert_no_group_misses_a_record(site)
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 40) + site.values(25, 40)
    assert_no_group_misses_a_record(site)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), 20),
        (("--to-earliest",), 0),
        (("--to-latest",), 40),
        (("--to-offset", "7"), 7),
        (("--to-datetime", "2100-01-01T00:00:00.000Z"), 40),
        (("--to-datetime", "2000-01-01T00:00:00.000Z"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_reset_forgets_the_position_or_moves_it_to_a_goal(
    site: Site, options: tuple[str, ...], expected: int
) -> None:
    create_topic(site.west, site.copy, 2)
    given = ("--mirror", site.mirror, "--topic", site.topic, "--partition", "0")
    begun = site.offsets("reset", *given, "--to-offset", "30", "--yes")
    assert (begun.code, site.position()) == (0, 30), begun.err
    site.configure(start=f"{{offsets: {{{site.topic}: {{0: 20}}}}}}")

    dry = site.offsets("reset", *given, *options, "--dry-run", "--format", "json")
    assert [row["after"] for row in dry.rows()] == [expected]
    assert site.position() == 30

    done = site.offsets("reset", *given, *options, "--yes", "--format", "json")

    assert (done.code, [row["action"] for row in done.rows()]) == (0, ["moved"]), done.err
    assert site.position() == expected
    assert site.position(1) is None
    assert site.run().code == 0
    assert site.arrived() == site.values(expected, 40)


@pytest.mark.quick
def test_an_import_of_none_begins_where_start_says(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    assert site.run().code == 0
    site.configure(start=f"{{offsets: {{{site.topic}: {{0: 33}}}}}}")
    row = {"connectorId": site.mirror, "topic": site.topic, "partition": 0, "offset": None}

    moved = site.imported(json.dumps(row) + "\n", "--format", "json", "--yes")

    assert (moved.code, [each["after"] for each in moved.rows()]) == (0, [33]), moved.err
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 40) + site.values(33, 40)


def test_every_fault_of_a_file_is_named_with_its_line_and_nothing_is_written(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    m, e, t = site.mirror, f"e-{site.name}", site.topic
    assert site.run().code == 0
    faults = [
        ((m, t, 0, 5), ""),
        (("nobody", t, 0, 5), "there is no mirror nobody that is enabled"),
        ((m, "nothing", 0, 5), f"{m} does not copy topic nothing"),
        ((m, t, 2, 5), f"topic {t} has no partition 2 that {m} copies"),
        ((m, t, 0, 6), "says again what line 1 is about"),
        ((m, t, 1, 11), f"offset 11 of {t}-1 is outside of the source, which has 0…10"),
        ((e, t, 0, 5), f"mirror {e} has several destinations: write {e}/lake or {e}/west"),
        ((f"{e}/west", t, 0, 5), "as offsets are equal there: it is not moved"),
        ((f"{e}/lake", t, 0, None), "is the end of its newest archive file: it is not moved"),
        ((f"{e}/lake", t, 1, 10), ""),
        ((m, t, 1, -1), "offset -1 is negative"),
        ((m, t, "x", 1), "partition 'x' is no whole number"),
        ((m, t, 1), "expected name,topic,partition,offset, found 3 field(s)"),
    ]
    text = lines(*(row for row, _ in faults))

    for options in (("--yes",), ("--dry-run",)):
        ended = site.imported(text, *options)

        assert (ended.code, ended.out) == (1, "")
        said = ended.err.splitlines()
        file = site.folder / "positions"
        for number, (_, fault) in enumerate(faults, 1):
            found = [line for line in said if line.startswith(f"error: {file}, line {number}: ")]
            assert len(found) == bool(fault), (number, ended.err)
            assert all(fault in line for line in found), (fault, found)
        assert said[-1] == "hint: 11 fault(s); nothing was changed"
        assert (site.position(0), site.position(1)) == (40, 10)


def test_a_file_without_a_line_and_one_that_is_not_there_are_refused(site: Site) -> None:
    for text in ("", "\n \n"):
        ended = site.imported(text, "--yes")
        assert (ended.code, ended.out) == (1, "")
        assert "error: the file has no line that says a position" in ended.err
    for options in (("--yes",), ("--dry-run",), ()):
        ended = site.offsets("import", "--file", site.folder / "absent", *options)
        assert (ended.code, ended.err) == (1, f"error: {site.folder}/absent: No such file or directory\n"), options


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(site: Site) -> None:
    for file, why in (("absent/positions", "No such file or directory"), ("lake", "Is a directory")):
        ended = site.offsets("export", "--file", site.folder / file)
        assert (ended.code, ended.out, ended.err) == (1, "", f"error: {site.folder / file}: {why}\n")
    assert sorted(each.name for each in site.folder.iterdir() if each.name.endswith(".part")) == []


def test_a_reset_of_what_is_not_moved_says_so_once_for_a_topic(site: Site) -> None:
    assert site.run().code == 0
    ended = site.offsets("reset", "--mirror", f"e-{site.name}", "--yes")
    assert (ended.code, ended.out) == (1, "")
    assert [line.count("is not moved") for line in ended.err.splitlines()] == [1, 1, 0]


def test_where_a_source_has_deleted_what_comes_next_a_reset_lets_the_copy_continue(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    assert site.imported(lines((site.mirror, site.topic, 0, 12)), "--yes").code == 0
    delete_before(site.east, site.topic, 20)
    assert site.run().code == 3
    assert site.offsets("reset", "--mirror", site.mirror, "--partition", "0", "--to-earliest", "--yes").code == 0
    assert (site.position(0), site.position(1)) == (20, 10)
    site.run()
    assert site.arrived() == site.values(20, 40)


def test_a_destination_topic_that_is_not_there_yet_gets_no_position(site: Site) -> None:
    ended = site.imported(lines((site.mirror, site.topic, 0, 5)), "--yes")
    assert ended.code == 1
    assert f"destination topic {site.copy} is not there yet" in ended.err


def test_what_the_log_has_deleted_cannot_be_gone_back_to(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    assert site.run().code == 0
    delete_before(site.east, site.topic, 12)
    ended = site.imported(lines((site.mirror, site.topic, 0, 11)), "--yes")
    assert (ended.code, site.position()) == (1, 40)
    assert "is outside of the source, which has 12…40" in ended.err
    assert site.imported(lines((site.mirror, site.topic, 0, 12)), "--yes").code == 0
    assert site.position() == 12


def test_a_dry_run_shows_what_would_be_moved_and_writes_nothing(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    before = topics_of(site.west)
    dry = site.imported(lines((site.mirror, site.topic, 0, 5)), "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "begin" in dry.out
    assert topics_of(site.west) == before


def test_what_could_not_be_read_is_an_error_and_no_empty_offset(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    assert site.run().code == 0
    site.config.write_text(site.config.read_text().replace(site.west, "127.0.0.1:1"))
    for options in (("list", "--format", "csv"), ("export",), ("export", "--format", "json")):
        ended = site.offsets(*options, "--mirror", site.mirror)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(f"error: {site.mirror} {site.topic}")
    table = site.offsets("list")
    assert table.code == 1
    assert f"error {site.mirror} {site.topic}" in table.out
    assert "127.0.0.1:1" in table.out
    moved = site.imported(lines((site.mirror, site.topic, 0, 5)), "--yes")
    assert moved.code == 1


def test_a_position_is_not_moved_while_the_mirror_runs_and_is_after_it_was_killed(site: Site) -> None:
    create_topic(site.west, site.copy, 2)
    text = lines((site.mirror, site.topic, 0, 15))
    with ServiceProcess("run", "-c", str(site.config), folder=site.folder, without_spark=True) as service:
        wait_until(lambda: site.position() == RECORDS, "the copy", log=service.said)

        refused = site.imported(text, "--yes")

        assert (refused.code, site.position()) == (1, RECORDS)
        assert f"error: mirror {site.mirror} runs" in refused.err
        append(site.east, site.topic, 0, simple_records(5, start=5000))
        wait_until(lambda: site.position() == RECORDS + 5, "the copy after the refusal", log=service.said)
        assert "taken over by another process" not in service.said()
        service.kill()

    moved = site.imported(text, "--yes")

    assert moved.code == 0, moved.err
    assert site.position() == 15
    assert_no_group_misses_a_record(site)
    with ServiceProcess("run", "-c", str(site.config), folder=site.folder, without_spark=True) as service:
        wait_until(lambda: site.position() == RECORDS + 5, "the copy from there", log=service.said)
        service.kill()
    assert site.run().code == 0
    assert site.arrived() == site.values(0, 45) + site.values(15, 45)
    assert_no_group_misses_a_record(site)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import",), "Missing option '--file'"),
        (("import", "-c", EXAMPLE, "--file", EXAMPLE), "nobody can be asked here: give --yes, or --dry-run"),
        (("import", "--file", "-"), "stdin is the file: give --yes, or --dry-run"),
        (("import", "--file", "x", "--format", "table"), "expected csv or json"),
        (("reset", "--dry-run"), "Missing option '--mirror'"),
        (("reset", "-c", EXAMPLE, "--mirror", "m"), "nobody can be asked here"),
        (("reset", "--mirror", "m", "--to-earliest", "--to-latest", "--yes"), "give one of --to-earliest"),
        (("reset", "--mirror", "m", "--to-offset", "-1", "--yes"), "--to-offset"),
        (("reset", "--mirror", "m", "--to-datetime", "soon", "--yes"), "--to-datetime"),
    ],
)
def test_a_command_that_is_not_understood_ends_with_code_2(arguments: tuple[str, ...], said: str) -> None:
    ended = mirrorlake("offsets", *arguments)
    assert ended.code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())


def test_a_mirror_or_destination_that_is_not_there_is_refused_and_asks_for_nothing(site: Site) -> None:
    for options in (("--mirror", "nobody"), ("--destination", "nowhere")):
        ended = site.offsets("list", *options)
        assert (ended.code, ended.out) == (1, "")
        assert "hint: there are " in ended.err
    for asked in (("--topic", "nothing"), ("--topic", site.topic, "--partition", "7")):
        for verb in ("list", "export"):
            ended = site.offsets(verb, *asked)
            assert (ended.code, ended.out) == (1, "")
            assert ended.err.startswith("error: no mirror copies what was asked for\n")
    for asked, name in ((("--topic", "nothing"), "topic nothing"), (("--partition", "7"), "partition 7")):
        ended = site.offsets("list", "--topic", site.topic, "--partition", "0", *asked)
        assert (ended.code, ended.err) == (1, f"error: no mirror copies {name} of what was asked for\n")
        assert site.topic in ended.out, "what is there is shown"
