"""The source loses its newest records after a bounded run has fixed where it ends, and before they were copied."""

import signal
from pathlib import Path

import pytest

from conftest import NewKafka
from support.copies import assert_equal_in_kafka, create_topic, log_end
from support.lost_tails import restart_without_tails
from support.proxy import PRODUCE, Proxy
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS, CUT = 400, 360
RECORD_BYTES = 100_000
"""More is left at the source than is ever on its way: no lease has read the records that are lost."""


def test_a_bounded_run_whose_source_loses_its_end_copies_the_rest_and_says_what_is_gone(
    proxy: Proxy, new_kafka: NewKafka, topic_name: str, tmp_path: Path
) -> None:
    source = new_kafka()
    create_topic(source.bootstrap_servers, topic_name)
    create_topic(proxy.address, topic_name)
    records = simple_records(RECORDS, size=RECORD_BYTES)
    append(source.bootstrap_servers, topic_name, 0, records, batch_records=5)
    config = tmp_path / "mirror.yaml"
    config.write_text(
        f"""
clusters:
  east: {{bootstrap-servers: "{source.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{proxy.address}"}}
mirrors:
  - name: {topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west}}]
"""
    )
    held = proxy.hold(PRODUCE, after_requests=2)  # the first is the state record
    with ServiceProcess("run", "--once", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        held.await_arrival()
        service.signal(signal.SIGSTOP)  # or it gives up while the broker is away
        restart_without_tails(source, {topic_name: CUT})
        service.signal(signal.SIGCONT)
        held.release()
        code = service.exit_code()
        said = service.said()
    assert code == 0, said
    (line,) = [line for line in said.splitlines() if "source has lost records that were to be copied" in line]
    assert f"log_end={CUT}" in line
    assert f"wanted_end={RECORDS}" in line
    assert log_end(proxy.address, topic_name) == CUT
    assert assert_equal_in_kafka(source.bootstrap_servers, proxy.address, topic_name) == CUT
