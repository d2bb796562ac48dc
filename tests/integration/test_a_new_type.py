"""A `type` of destination that nobody but its folder and its row knows: what `docs/contributing.md` builds."""

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.cli.start import load
from mirrorlake.config.destinations.registry import DESTINATION_TYPES
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.lifecycle.endings import EXIT_DONE
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.partition_state import StateName
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.service.service import Service
from mirrorlake.service.states import state_of
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target
from mirrorlake.verify.verdict import Result
from support.command import write_yaml
from support.copies import create_topic
from support.leases import lease_plan, run_lease
from support.new_type import HERE
from support.records import consume, simple_records
from support.registry_model import RegistryModel
from support.running_service import ClosingEngine
from support.schema_site import FIRST_ID_THERE, SchemaSite, letters_in, numbered
from support.stub_registry import StubRegistry
from support.tally.sink import read_tally
from support.topics import append, make_topic
from support.transactions import append_in_transaction
from support.verdicts import verdicts_of

pytestmark = pytest.mark.kafka


def test_a_type_that_one_row_names_is_found_leased_and_shown(
    source_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in ("counts", "lake"):
        (tmp_path / folder).mkdir()
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    monkeypatch.setitem(DESTINATION_TYPES, "tally", HERE)
    # Two transactions of 3 and 4 records with their markers, the second aborted; then 5 records: [0, 14).
    create_topic(servers, topic_name)
    append_in_transaction(servers, topic_name, simple_records(3), partition=0, committed=True)
    append_in_transaction(servers, topic_name, simple_records(4), partition=0, committed=False)
    append(servers, topic_name, 0, simple_records(5), batch_records=2)
    config = parse_configuration(
        f"""
clusters: {{east: {{bootstrap-servers: "{servers}"}}}}
stores: {{lake: {{type: filesystem, root: "{tmp_path}/lake"}}}}
mirrors:
- name: m
  source: {{cluster: east, topics: [{topic_name}]}}
  destinations: [{{type: tally, folder: "{tmp_path}/counts"}}]
- {{name: n, source: {{cluster: east, topics: [{topic_name}]}}, destinations: [{{type: archive, store: lake}}]}}
""".encode(),
        file="mirror.yaml",
        environ={},
    )

    async def look() -> tuple[Target, StatusRow]:
        clients = WorkerCache()
        try:
            target, beside = await find_targets(config, clients)
            row, archived = await read_rows([target, beside], clients)
        finally:
            await clients.close()
        assert (archived.error, archived.position, type(state_of(beside, writer="").work)) == (None, 0, ArchiveWork)
        return target, row

    planned, other = run_async(read_plan(config))
    assert (planned.error, planned.as_json()["to"]) == (None, str(tmp_path / "counts" / f"{where}.json"))
    assert (other.error, planned.action, other.action) == (None, Action.COPY, Action.COPY)
    target, row = run_async(look())
    assert (row.error, row.position, row.source_end, row.state) == (None, 0, 14, StateName.BEHIND)
    for end in (6, 14):  # the first lease ends inside the aborted transaction
        (leased,) = run_lease(lease_plan(servers, [(where, [state_of(target, writer="").work])], end=end)).values()
        assert (leased.error, leased.position) == (None, end)
    assert read_tally(tmp_path / "counts" / f"{where}.json") == (14, 3 + 5)
    _, row = run_async(look())
    assert (row.position, row.state) == (14, StateName.CAUGHT_UP)


def test_a_type_of_ones_own_is_run_and_run_again_and_verify_compares_what_can_be(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by `mirrorlake run`, whose starts look for what stands at each archive, and keep markers beside it."""
    (tmp_path / "counts").mkdir()
    servers, file = source_kafka.bootstrap_servers, tmp_path / "counts" / f"{TopicPartition(topic_name, 0)}.json"
    monkeypatch.setitem(DESTINATION_TYPES, "tally", HERE)
    config = tmp_path / "mirror.yaml"
    config.write_text(
        f"""
clusters:
  east: {{bootstrap-servers: "{servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
mirrors:
- name: {topic_name}
  source: {{cluster: east, topics: [{topic_name}]}}
  destinations: [{{type: kafka, cluster: west}}, {{type: tally, folder: "{tmp_path}/counts"}}]
"""
    )
    create_topic(servers, topic_name)

    for count in (5, 10, 10):
        if not file.exists() or read_tally(file)[0] < count:
            append(servers, topic_name, 0, simple_records(5), batch_records=2)
        assert Service(load(config), RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE
        assert read_tally(file) == (count, count)
    assert [path.name for path in (tmp_path / "counts").iterdir()] == [file.name]

    verdicts = {verdict.row.target.destination.label: verdict for verdict in verdicts_of(load(config))}
    assert verdicts["west"].result is Result.EQUAL
    assert verdicts["counts"].result is Result.FAILED
    assert "counts holds a count, and no record to compare" in str(verdicts["counts"].error)


def test_beside_a_copy_with_schemas_and_dead_letters_it_takes_records_as_they_are(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Schemas come along to the cluster alone, and a dead letter there is a record like any other here."""
    (tmp_path / "counts").mkdir()
    monkeypatch.setitem(DESTINATION_TYPES, "tally", HERE)
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        site = SchemaSite(east, west, first, second, topic_name, tmp_path)
        one = site.register("a")
        # Of two partitions; the second record of the first names no schema.
        first_record, last = numbered([one, one])
        make_topic(east, topic_name, [first_record, replace(last, value=b"{}"), last], numbered([one]))
        text = site.file(
            "preserve", ', on-unreadable: {value: dead-letter}, dead-letters: {topic: "{topic}.dead-letters"}'
        )
        kafka = "offsets: preserve}"
        config = write_yaml(
            text, text.read_text().replace(kafka, f"{kafka}, {{type: tally, folder: {tmp_path}/counts}}")
        )

        assert Service(load(config), RunOptions(once=True, engine=ClosingEngine)).run() == EXIT_DONE

        counted = [read_tally(tmp_path / "counts" / f"{topic_name}-{number}.json") for number in (0, 1)]
        assert counted == [(3, 3), (1, 1)]
        assert len(letters_in(west, site.letters, 0)) == 1
        assert sorted(consume(west, topic_name, 0)) == [0, 2]
