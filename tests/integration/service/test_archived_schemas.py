"""Schemas archived beside the records of a running service, and restored with them into another registry."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archived_schemas import archived_ids, archived_values, archived_versions, said_schema_ids
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import wait_until
from support.records import Record, consume
from support.registry_model import RegistryModel, record
from support.running_service import RunningService
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed, numbered
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@dataclass
class ArchivedSite(SchemaSite):
    """The topic goes from the first cluster to an archive, and from there to the second cluster and registry."""

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def to_archive(self, more: str = "", registry: str = "") -> Path:
        destination = f"{{type: archive, store: lake, flush: {{max-time: 1s}}{more}}}"
        return write_yaml(
            self.folder / "archive.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}}}\n'
            f'stores: {{lake: {{type: filesystem, root: "{self.lake}"}}}}\n'
            f'registries: {{here: {{url: "{registry or self.here.url}"}}}}\n'
            f'mirrors: [{{name: "{self.topic}", source: {{cluster: east, topics: [{self.topic}]}}, '
            f"destinations: [{destination}], schemas: {{from: here}}}}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def from_archive(self, schemas: str = "") -> Path:
        return write_yaml(
            self.folder / "restore.yaml",
            f'clusters: {{west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'stores: {{lake: {{type: filesystem, root: "{self.lake}"}}}}\n'
            f'registries: {{kept: {{store: lake, registry: here}}, there: {{url: "{self.there.url}"}}}}\n'
            f"mirrors: [{{name: 'back-{self.topic}', source: {{store: lake, topics: [{self.topic}]}}, "
            f"destinations: [{{type: kafka, cluster: west}}], schemas: {{from: kept, to: there{schemas}}}}}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def await_archived(self, running: RunningService, records: int) -> None:
        wait_until(
            lambda: len(archived_values(self.lake, self.topic)) == records,
            f"{records} records in the archive",
            log=lambda: str(running.rows()),
        )


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[ArchivedSite]:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    (tmp_path / "lake").mkdir()
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        yield ArchivedSite(east, west, first, second, topic_name, tmp_path)


def test_schemas_are_archived_before_their_records_and_restored_with_other_ids(site: ArchivedSite) -> None:
    one, two = site.register("a"), site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one, two, None, one] * 10), numbered([two] * 20))
    other = site.register("c", subject="of-another-topic-value")
    with RunningService(site.to_archive()) as running:
        site.await_archived(running, 60)
        three = site.register("a", "b", "c")
        append(site.east, site.topic, 0, numbered([three, one, other], start=40))
        site.await_archived(running, 63)
    assert archived_ids(site.lake, site.topic) == {one, two, three, other}
    assert {id_: (each["subject"], each["version"]) for id_, each in archived_versions(site.lake).items()} == {
        one: (site.subject, 1),
        two: (site.subject, 2),
        three: (site.subject, 3),
        other: ("of-another-topic-value", 1),
    }
    # The source's registry is gone: all that follows knows the archive alone.
    site.here.fault = lambda _method, _path: (503, {})
    planned = mirrorlake("schemas", "plan", "-c", site.from_archive(), "--format", "json")
    assert [(row["subject"], row["version"]) for row in planned.rows() if row["action"] == "register"] == [
        (site.subject, number) for number in (1, 2, 3)
    ]
    assert mirrorlake("schemas", "diff", "-c", site.from_archive()).code == 1
    done = mirrorlake("run", "-c", site.from_archive(), "--once")
    assert done.code == 0, done.err
    site.assert_equal()
    listed = mirrorlake("schemas", "ls", "-c", site.from_archive(), "--format", "json")
    assert [(row["subject"], row["state"]) for row in listed.rows()] == [(site.subject, "equal")]
    checked = mirrorlake("schemas", "check", "-c", site.from_archive(), "--format", "json")
    assert checked.code == 0, checked.out
    verified = mirrorlake("verify", "-c", site.from_archive(), "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified


def test_what_is_damaged_of_a_subject_is_named_where_it_is_planned_listed_and_restored(site: ArchivedSite) -> None:
    one = site.register("a")
    site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one] * 5), numbered([one] * 5))
    assert mirrorlake("run", "-c", site.to_archive(), "--once").code == 0
    site.here.model.delete(site.subject, 2)
    append(site.east, site.topic, 0, numbered([one], start=5))
    assert mirrorlake("run", "-c", site.to_archive(), "--once").code == 0
    (state,) = (site.lake / "_mirrorlake/schemas/here" / site.subject).glob("_subject-*")
    state.write_bytes(state.read_bytes()[:60])
    for verb in ("plan", "ls"):
        ended = mirrorlake("schemas", verb, "-c", site.from_archive(), "--format", "json")
        assert (ended.code, ended.err.count(f"{state.name} cannot be read")) == (1, 1), ended.err
        assert {row["subject"] for row in ended.rows()} == {site.subject}
    (first,) = (site.lake / "_mirrorlake/schemas/here" / site.subject).glob("0000000001-*")
    whole = first.read_bytes()
    first.write_bytes(whole.replace(b'"int', b'"lon'))
    for where in (("-c", site.to_archive()), ("--root", site.lake)):
        checked = mirrorlake("archive", "check", *where, "--level", "checksums", "--format", "json")
        broken = [row["problems"][0]["problem"] for row in checked.rows() if row["result"] == "broken"]
        assert (checked.code, len(broken)) == (1, 2), checked
        assert first.name in broken[0], "what was changed"
        assert state.name in broken[1], "what was cut"
    first.write_bytes(whole)
    restored = mirrorlake("run", "-c", site.from_archive(), "--once")
    assert (restored.code, restored.err.count("archived schemas are damaged")) == (0, 1), restored.err
    assert state.name in restored.err
    append(site.east, site.topic, 0, numbered([one], start=6))
    archived = mirrorlake("run", "-c", site.to_archive(), "--once")
    assert (archived.code, archived.err.count("archived schemas are damaged")) == (0, 1), archived.err
    assert mirrorlake("schemas", "ls", "-c", site.from_archive()).code == 0, "it was written anew"


@pytest.mark.quick
@pytest.mark.parametrize(("more", "mode"), [("", "IMPORT"), (", registry-mode: READWRITE", "READWRITE")])
def test_an_archive_is_restored_with_the_ids_it_has_where_the_other_registry_takes_them(
    site: ArchivedSite, more: str, mode: str
) -> None:
    one, two = site.register("a"), site.register("a", "b")
    make_topic(site.east, site.topic, numbered([one, two, None] * 5), numbered([two] * 5))
    archived = mirrorlake("run", "-c", site.to_archive(), "--once")
    assert archived.code == 0, archived.err
    site.here.fault = lambda _method, _path: (503, {})
    done = mirrorlake("run", "-c", site.from_archive(f", ids: keep{more}"), "--once")
    assert done.code == 0, done.err
    assert [(each.version, each.id) for each in site.there.model.subjects[site.subject]] == [(1, one), (2, two)]
    assert site.there.model.modes[site.subject] == mode
    for partition in (0, 1):
        assert consume(site.west, site.topic, partition) == consume(site.east, site.topic, partition)
    verified = mirrorlake("verify", "-c", site.from_archive(", ids: keep"), "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified


def test_a_record_waits_for_its_schema_and_is_archived_once_the_registry_answers(site: ArchivedSite) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 10), numbered([one] * 10))
    with RunningService(site.to_archive(', name: "v.{topic}", compaction: log')) as running:
        site.topic, topic = f"v.{site.topic}", site.topic
        wait_until(lambda: archived_ids(site.lake, site.topic) == {one}, "the first views")
        new = site.here.model.register(f"{topic}-value", {"schema": record("a", "b")}).id
        site.here.fault = lambda _method, _path: (503, {})
        append(site.east, topic, 0, numbered([new], start=10))
        append(site.east, topic, 1, numbered([one] * 5, start=10))
        wait_until(lambda: len(archived_values(site.lake, site.topic)) == 10 + 10 + 15, "what needs no registry")
        wait_until(lambda: "not known yet" in str(running.rows()), "the wait to be said")
        assert "parked" not in running.states()
        assert new not in archived_ids(site.lake, site.topic)
        site.here.fault = lambda _method, _path: None
        wait_until(lambda: new in archived_ids(site.lake, site.topic), "the record", log=lambda: str(running.rows()))
        assert new in archived_versions(site.lake)


def test_what_names_no_schema_is_archived_as_it_is_and_another_registry_of_the_name_parks(site: ArchivedSite) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one, 4711]), numbered([one]))
    with RunningService(site.to_archive()) as running:
        site.await_archived(running, 3)  # the id that nobody knows, too, after the ten seconds of asking
    assert archived_versions(site.lake).keys() == {one}
    anew = RegistryModel(level="NONE", next_id=one)
    anew.register(site.subject, {"schema": record("another")})
    append(site.east, site.topic, 0, numbered([one], start=2))
    with (
        StubRegistry(anew) as other,
        RunningService(site.to_archive(registry=other.url)) as running,
    ):
        wait_until(lambda: "parked" in running.states(), "the refusal", log=lambda: str(running.rows()))
        (parked,) = [row for row in running.rows() if row["state"] == "parked"]
    assert parked["reason"] == "unreadable-schema"
    assert "another schema is archived with that id" in parked["error"]
    assert len(archived_values(site.lake, site.topic)) == 3


def test_a_registry_that_is_made_anew_while_it_is_archived_stops_what_has_an_id_of_both(site: ArchivedSite) -> None:
    one = site.register("a")
    make_topic(site.east, site.topic, numbered([one] * 3))
    text = site.to_archive().read_text()
    file = write_yaml(
        site.folder / "often.yaml", text.replace("schemas: {from: here}", "schemas: {from: here, interval: 1s}")
    )
    with RunningService(file) as running:
        site.await_archived(running, 3)
        site.make_registry_anew(one)
        appended = site.append_until_parked(running, one, start=3)
        (row,) = running.rows()
    assert row["reason"] == "unreadable-schema"
    assert len(archived_values(site.lake, site.topic)) < appended
    assert archived_versions(site.lake).keys() == {one}


@pytest.mark.parametrize("form", ["format: parquet", "format: ndjson", "format: log", "compaction: log"])
def test_segments_say_which_ids_their_records_name_and_a_check_takes_their_word(site: ArchivedSite, form: str) -> None:
    one, two = site.register("a"), site.register("a", "b")
    # Every key once, so that a snapshot holds all of them.
    payloads = [framed(one, b""), framed(two, b"x"), None, b"{}", b"\0\0", framed(one, b"y"), framed(4242, b"")]
    records = [Record(1_700_000_000_000, b"%d" % number, payload) for number, payload in enumerate(payloads)]
    make_topic(site.east, site.topic, records)
    passes = site.to_archive(f", {form}")
    passes.write_text(passes.read_text().replace("schemas: {from: here}", "schemas: {from: here, on-unreadable: pass}"))

    archived = mirrorlake("run", "-c", passes, "--once")

    assert archived.code == 0, archived.err
    is_view = form == "compaction: log"
    (said,) = said_schema_ids(site.lake, site.topic)
    ids = {"short": [1, 4], "not-framed": [1, 3], "ids": [[one, 2, 0], [two, 1, 1], [4242, 1, 6]]}
    assert said == {"value": ids if is_view else {**ids, "null": [1, 2]}}
    checked = mirrorlake("schemas", "check", "-c", site.from_archive(), "--format", "json")
    (row,) = [row for row in checked.rows() if "side" in row]
    counted = [row[name] for name in ("known", "null", "short", "not-framed", "absent", "guid")]
    assert counted == [3, 0 if is_view else 1, 1, 1, 1, 0]
    assert (checked.code, row["unreadable_partition"], row["unreadable_offset"]) == (1, 0, 3)
    assert {row["id"]: row["state"] for row in checked.rows() if "id" in row} == {
        one: "missing",
        two: "missing",
        4242: "unknown",
    }
    assert mirrorlake("archive", "check", "--root", site.lake, "--level", "checksums").code == 0
