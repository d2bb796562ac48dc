"""Leases that take longer to reach their workers than they may, as on a machine with too little CPU."""

import time
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.lease_plans import BEGIN_SECONDS_MAX
from support.copies import Lake, archived_records, create_topic, log_end, wait_until
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import simple_records
from support.running_service import ClosingEngine, RunningService
from support.snapshots import snapshots
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 20


class LateEngine(ClosingEngine):
    """Leases reach their workers a second and a half after the moment by which they were to begin."""

    def run_lease(self, *order: Any, **how: Any) -> list[LeaseRow]:
        time.sleep(BEGIN_SECONDS_MAX + 1.5)
        return super().run_lease(*order, **how)


def test_mirrors_of_every_form_are_copied_though_each_of_their_leases_comes_late(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    versitygw: ObjectServer,
    topic_name: str,
    tmp_path: Path,
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lakes: dict[str, Lake] = {"disk": tmp_path / "lake", "bucket": versitygw.settings()}
    file, mapped, back = tmp_path / "mirror.yaml", f"mapped.{topic_name}", f"back.{topic_name}"
    users = f"{topic_name}.users"
    (tmp_path / "lake").mkdir()
    make_topic(east, topic_name, simple_records(RECORDS), simple_records(RECORDS))
    make_topic(east, users, simple_records(RECORDS), simple_records(RECORDS))
    create_topic(west, mapped, 2)
    stores = "".join(f"  {name}: {store_section(lake, tmp_path)}\n" for name, lake in lakes.items())
    file.write_text(f"""
clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
stores:
{stores}
mirrors:
  - name: "equal-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west}}]
  - name: "mapped-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, topic: "mapped.{{topic}}", offsets: map}}]
  - name: "lakes-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations:
      - {{type: archive, store: disk, flush: {{max-time: 1s}}}}
      - {{type: archive, store: bucket, flush: {{max-time: 1s}}}}
  - name: "snapshots-{topic_name}"
    source: {{cluster: east, topics: [{users}]}}
    destinations:
      - {{type: archive, store: disk, compaction: log, flush: {{max-time: 1s}}}}
      - {{type: archive, store: bucket, compaction: log, flush: {{max-time: 1s}}}}
  - name: "back-{topic_name}"
    source: {{store: bucket, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, topic: "back.{{topic}}"}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
service: {{metrics: off}}
""")
    with RunningService(file, engine=LateEngine) as running:

        def are_all_at(position: int) -> bool:
            return [row["dest_next"] for row in running.rows()] == [position] * 14

        wait_until(lambda: are_all_at(RECORDS), "all forms to be copied", log=lambda: str(running.rows()))
        for topic in (topic_name, users):
            append(east, topic, 0, simple_records(RECORDS))
            append(east, topic, 1, simple_records(RECORDS))
        wait_until(lambda: are_all_at(2 * RECORDS), "what came later too", log=lambda: str(running.rows()))
    for partition in (0, 1):
        assert log_end(west, topic_name, partition) == log_end(west, back, partition) == 2 * RECORDS
        for lake in lakes.values():
            assert len(archived_records(lake, topic_name, partition)) == 2 * RECORDS
            assert snapshots(lake, users, partition).read_chain().position == 2 * RECORDS
