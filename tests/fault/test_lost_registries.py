"""A registry that comes back with another state while a mirror runs: emptied, older, or with other ids.

A record says in its value which schema it was written with, so that what it names at a registry is compared with what
it should. What is written between the loss and the next look has an id of before; nothing that is written later has.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from struct import unpack

import httpx
import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.apicurio import Apicurio
from support.archived_schemas import archived_values
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import log_end, wait_until
from support.records import Record, consume
from support.registry_model import RefusedError, RegistryModel, record
from support.schema_site import FIRST_ID_THERE, SchemaSite, framed
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

FOREIGN = "foreign-value"
OTHERS = "of-another-topic-value"

SCHEMAS = {"one": record("a"), "two": record("a", "b"), "other": record("c")}
"""What records are written with: two versions of the topic's subject, and one that only the records' ids tell of."""


def written_with(site: SchemaSite, *names: str) -> list[Record]:
    ids = {each.body["schema"]: each.id for versions in site.here.model.subjects.values() for each in versions}
    return [Record(1_700_000_000_000, None, framed(ids[SCHEMAS[name]], name.encode())) for name in names]


def schema_at(model: RegistryModel, id_: int) -> str:
    """What an id means at a registry; empty where it is not known."""
    try:
        return str(model.by_id(id_).body["schema"])
    except RefusedError:
        return ""


def wrong_in(values: list[bytes | None], model: RegistryModel) -> list[int]:
    """The places of records whose id does not name there the schema that they were written with."""
    pairs = [(unpack(">i", (each or b"")[1:5])[0], (each or b"")[5:].decode()) for each in values]
    return [place for place, (id_, name) in enumerate(pairs) if schema_at(model, id_) != SCHEMAS[name]]


def copied_values(site: SchemaSite) -> list[bytes | None]:
    return [each.value for each in site.copied()] if log_end(site.west, site.topic) else []


def given(model: RegistryModel, subject: str, *schemas: str) -> None:
    for each in schemas:
        model.register(subject, {"schema": each})


def foreign(count: int) -> list[str]:
    return [record(f"foreign{number}") for number in range(count)]


def emptied(_before: RegistryModel, _site: SchemaSite) -> RegistryModel:
    """Somebody else was there first, and has ids that were ours."""
    made = RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    given(made, FOREIGN, *foreign(3))
    return made


def older(before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """A backup from before the second version; its next ids went to somebody else."""
    made = copy.deepcopy(before)
    del made.subjects[site.subject][1:]
    del made.subjects[OTHERS]
    made.highest[site.subject] = 1
    made.next_id = FIRST_ID_THERE + 2
    given(made, FOREIGN, *foreign(4))
    return made


def other_ids(_before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """All was registered again by somebody, in another order: only the newest version has the id it had."""
    made = RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    given(made, site.subject, SCHEMAS["one"])
    given(made, FOREIGN, *foreign(1))
    given(made, site.subject, SCHEMAS["two"])
    given(made, FOREIGN, *foreign(4))
    given(made, OTHERS, SCHEMAS["other"])
    return made


def occupied(before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """As ``older``, and the place of the second version is somebody else's, so that it can be brought no more."""
    made = older(before, site)
    given(made, site.subject, record("taken"))
    return made


@pytest.fixture
def site(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> SchemaSite:
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    given(there, FOREIGN, *foreign(1))
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    made = SchemaSite(east, west, StubRegistry(here), StubRegistry(there), topic_name, tmp_path)
    given(here, made.subject, SCHEMAS["one"], SCHEMAS["two"])
    given(here, OTHERS, SCHEMAS["other"])
    make_topic(east, topic_name, written_with(made, "one", "two", "other"))
    return made


def add_until_right(site: SchemaSite, names: list[str], right: Callable[[list[bytes | None]], bool]) -> None:
    """Writes records until those of one round are right at the copy: a look was taken, and a lease began behind it."""

    def is_right() -> bool:
        count = len(copied_values(site))
        append(site.east, site.topic, 0, written_with(site, *names))
        wait_until(lambda: len(copied_values(site)) == count + len(names), "a round to be copied")
        return right(copied_values(site)[count:])

    wait_until(is_right, "records that are right", patience_seconds=40)


@pytest.mark.parametrize("lost", [emptied, older, other_ids])
@pytest.mark.parametrize("mode", ["preserve", "map"])
def test_a_destinations_registry_with_another_state_is_noticed_and_later_records_are_right(
    site: SchemaSite, mode: str, lost: Callable[[RegistryModel, SchemaSite], RegistryModel]
) -> None:
    file = str(site.file(mode, ", interval: 1s"))
    with site.here, site.there, ServiceProcess("run", "-c", file, folder=site.folder, without_spark=True) as service:
        wait_until(lambda: len(copied_values(site)) == 3, "all to be copied", log=service.said)
        assert wrong_in(copied_values(site), site.there.model) == []
        site.there.model = lost(site.there.model, site)
        was_wrong = wrong_in(copied_values(site), site.there.model)
        assert was_wrong, "this loss is none"

        names = ["one", "two", "other"]
        add_until_right(site, names, lambda values: wrong_in(values, site.there.model) == [])
        right_from = len(copied_values(site))
        append(site.east, site.topic, 0, written_with(site, *names * 10))
        wait_until(lambda: len(copied_values(site)) == right_from + 30, "the last records", log=service.said)

        wrong = wrong_in(copied_values(site), site.there.model)
        assert all(place < right_from for place in wrong)
        verified = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json")
        assert "another id at the destination's registry" in service.said()
        assert service.is_running
    (row,) = verified.rows()
    assert (row["result"], row["first_difference"]) == ("differs", wrong[0]), verified


@pytest.mark.parametrize("mode", ["preserve", "map"])
def test_what_a_destinations_registry_has_lost_and_cannot_take_again_is_copied_no_more(
    site: SchemaSite, mode: str
) -> None:
    """The place of a version is taken: whoever reads records with it finds another schema, or none."""
    file = str(site.file(mode, ", interval: 1s"))
    with site.here, site.there, ServiceProcess("run", "-c", file, folder=site.folder, without_spark=True) as service:
        wait_until(lambda: len(copied_values(site)) == 3, "all to be copied", log=service.said)
        site.there.model = occupied(site.there.model, site)

        def has_stopped() -> bool:
            append(site.east, site.topic, 0, written_with(site, "two"))
            return "unreadable-schema" in service.said()

        wait_until(has_stopped, "its partition to stop", patience_seconds=40, log=service.said)
        stopped_at = len(copied_values(site))
        append(site.east, site.topic, 0, written_with(site, "two"))
        assert "the destination's registry no longer has schemas that it had" in service.said()
    assert len(consume(site.east, site.topic, 0)) > stopped_at == len(copied_values(site))


def test_records_wait_while_a_registry_that_came_back_empty_takes_no_schemas(site: SchemaSite) -> None:
    """What is lost is told before anything is brought: it is not used until somebody may register it."""
    file = str(site.file("preserve", ", interval: 1s"))
    with site.here, site.there, ServiceProcess("run", "-c", file, folder=site.folder, without_spark=True) as service:
        wait_until(lambda: len(copied_values(site)) == 3, "all to be copied", log=service.said)
        site.there.fault = lambda method, path: (403, {}) if method == "POST" and path.endswith("/versions") else None
        site.there.model = emptied(site.there.model, site)
        service.await_words("the destination's registry no longer has schemas that it had")

        def is_waiting() -> bool:
            append(site.east, site.topic, 0, written_with(site, "one", "two", "other"))
            return "waiting for schema ids" in service.said().split("no longer has schemas")[-1]

        wait_until(is_waiting, "its records to wait", log=service.said)
        waiting_from = len(copied_values(site))
        append(site.east, site.topic, 0, written_with(site, "one", "two", "other"))
        assert len(copied_values(site)) == waiting_from
        site.there.fault = lambda _method, _path: None
        end = len(consume(site.east, site.topic, 0))
        wait_until(lambda: len(copied_values(site)) == end, "what waited to be copied", log=service.said)
        assert all(place < waiting_from for place in wrong_in(copied_values(site), site.there.model))


def schemas_of(url: str, values: list[bytes | None]) -> list[bool]:
    """Whether each record's id names at a real registry the schema that it was written with."""
    found = []
    for each in values:
        answer = httpx.get(f"{url}/schemas/ids/{unpack('>i', (each or b'')[1:5])[0]}")
        found.append(answer.status_code == 200 and answer.json()["schema"] == SCHEMAS[(each or b"")[5:].decode()])
    return found


@pytest.mark.parametrize("mode", ["preserve", "map"])
def test_a_real_registry_that_is_killed_and_comes_back_empty_is_filled_before_the_next_records(
    site: SchemaSite, mode: str, kafka_libs: Path
) -> None:
    names = ["one", "two", "other"]
    with Apicurio(site.folder) as there, site.here, site.there:
        body = {"schema": record("foreign")}
        assert httpx.post(f"{there.url}/subjects/{FOREIGN}/versions", json=body).status_code == 200
        text = site.file(mode, ", interval: 1s").read_text().replace(site.there.url, there.url)
        file = str(write_yaml(site.folder / "real.yaml", text))
        with ServiceProcess("run", "-c", file, folder=site.folder, without_spark=True) as service:
            wait_until(lambda: len(copied_values(site)) == 3, "all to be copied", log=service.said)
            assert all(schemas_of(there.url, copied_values(site)))
            there.kill()
            # Of what is known nobody waits for a registry that is away.
            append(site.east, site.topic, 0, written_with(site, *names))
            wait_until(lambda: len(copied_values(site)) == 6, "what is known to be copied", log=service.said)
            with there:
                assert not all(schemas_of(there.url, copied_values(site)))
                add_until_right(site, names, lambda values: all(schemas_of(there.url, values)))
                right_from = len(copied_values(site))
                append(site.east, site.topic, 0, written_with(site, *names * 5))
                wait_until(lambda: len(copied_values(site)) == right_from + 15, "the last", log=service.said)
                assert all(schemas_of(there.url, copied_values(site)[right_from:]))
                verified = mirrorlake("verify", "-c", file, "--level", "records", "--format", "json")
                first = schemas_of(there.url, copied_values(site)).index(False)
    (row,) = verified.rows()
    assert (row["result"], row["first_difference"]) == ("differs", first), verified


def source_emptied(_before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """Made anew; what it had is not registered again, and its ids go to others' schemas."""
    made = RegistryModel(level="NONE")
    given(made, FOREIGN, *foreign(4))
    return made


def source_older(before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """A backup from before the second version and the other subject; their ids are given to new ones."""
    made = copy.deepcopy(before)
    del made.subjects[site.subject][1:]
    del made.subjects[OTHERS]
    made.highest[site.subject] = 1
    made.next_id = 2
    given(made, site.subject, record("z"))
    given(made, FOREIGN, *foreign(1))
    return made


def source_other_ids(_before: RegistryModel, site: SchemaSite) -> RegistryModel:
    """All was registered again in another order."""
    made = RegistryModel(level="NONE")
    given(made, OTHERS, SCHEMAS["other"])
    given(made, site.subject, SCHEMAS["one"], SCHEMAS["two"])
    return made


def archive_file(site: SchemaSite) -> str:
    (site.folder / "lake").mkdir()
    made = write_yaml(
        site.folder / "archive.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{site.east}"}}}}\n'
        f'stores: {{lake: {{type: filesystem, root: "{site.folder / "lake"}"}}}}\n'
        f'registries: {{here: {{url: "{site.here.url}"}}}}\n'
        f'mirrors: [{{name: "{site.topic}", source: {{cluster: east, topics: [{site.topic}]}}, '
        "destinations: [{type: archive, store: lake, flush: {max-time: 1s}}], "
        "schemas: {from: here, interval: 1s}}]\n"
        "service: {metrics: off}\n"
        "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
    )
    return str(made)


@pytest.mark.parametrize("name", ["two", "other"])
@pytest.mark.parametrize("lost", [source_emptied, source_older, source_other_ids])
@pytest.mark.parametrize("mode", ["preserve", "map", "archive"])
def test_a_sources_registry_with_another_state_stops_records_with_ids_that_mean_something_else_now(
    site: SchemaSite, mode: str, lost: Callable[[RegistryModel, SchemaSite], RegistryModel], name: str
) -> None:
    """What the id of the record meant before, and means now, are two schemas: nobody knows which one is meant."""
    file = archive_file(site) if mode == "archive" else str(site.file(mode, ", interval: 1s"))
    records = written_with(site, name)

    def written() -> list[bytes | None]:
        return archived_values(site.folder / "lake", site.topic) if mode == "archive" else copied_values(site)

    with site.here, site.there, ServiceProcess("run", "-c", file, folder=site.folder, without_spark=True) as service:
        wait_until(lambda: len(written()) == 3, "all to be written", log=service.said)
        site.here.model = lost(site.here.model, site)

        def has_stopped() -> bool:
            append(site.east, site.topic, 0, records)
            return "unreadable-schema" in service.said()

        wait_until(has_stopped, "its partition to stop", patience_seconds=40, log=service.said)
        stopped_at = len(written())
        append(site.east, site.topic, 0, records)
        assert "means another schema at the source's registry than it did before" in service.said()
    assert stopped_at == len(written()) < len(consume(site.east, site.topic, 0))
