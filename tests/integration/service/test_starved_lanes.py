"""Leases that take longer to reach their workers than they may, as on a machine with too little CPU."""

import time
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.lease_plans import BEGIN_SECONDS_MAX
from support.copies import archived_records, create_topic, log_end, wait_until
from support.records import simple_records
from support.running_service import ClosingEngine, RunningService
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 20


class LateEngine(ClosingEngine):
    """Leases reach their workers a second and a half after the moment by which they were to begin."""

    def run_lease(self, *order: Any, **how: Any) -> list[LeaseRow]:
        time.sleep(BEGIN_SECONDS_MAX + 1.5)
        return super().run_lease(*order, **how)


def test_mirrors_of_every_form_are_copied_though_each_of_their_leases_comes_late(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake, file, mapped = tmp_path / "lake", tmp_path / "mirror.yaml", f"mapped.{topic_name}"
    lake.mkdir()
    make_topic(east, topic_name, simple_records(RECORDS), simple_records(RECORDS))
    create_topic(west, mapped, 2)
    file.write_text(f"""
clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
stores: {{lake: {{type: filesystem, root: "{lake}"}}}}
mirrors:
  - name: "equal-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west}}]
  - name: "mapped-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, topic: "mapped.{{topic}}", offsets: map}}]
  - name: "lake-{topic_name}"
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: archive, store: lake, flush: {{max-time: 1s}}}}]
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
service: {{metrics: off}}
""")
    with RunningService(file, engine=LateEngine) as running:

        def are_all_at(position: int) -> bool:
            return [row["dest_next"] for row in running.rows()] == [position] * 6

        wait_until(lambda: are_all_at(RECORDS), "all forms to be copied", log=lambda: str(running.rows()))
        append(east, topic_name, 0, simple_records(RECORDS))
        append(east, topic_name, 1, simple_records(RECORDS))
        wait_until(lambda: are_all_at(2 * RECORDS), "what came later too", log=lambda: str(running.rows()))
    for partition in (0, 1):
        assert log_end(west, topic_name, partition) == 2 * RECORDS
        assert len(archived_records(lake, topic_name, partition)) == 2 * RECORDS
