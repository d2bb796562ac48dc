"""Leases of a running service go on while nothing changes, and what comes meanwhile is copied by them."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.lease import LeaseWork
from support.copies import wait_until
from support.records import consume, simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka


def test_a_quiet_service_has_its_lease_go_on_and_copies_what_comes_meanwhile(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    file, leases = tmp_path / "mirror.yaml", list[LeaseWork]()
    prolong = LeaseWork._prolong

    def noted(lease: LeaseWork, seconds: float) -> None:
        leases.append(lease)
        prolong(lease, seconds)

    monkeypatch.setattr(LeaseWork, "_prolong", noted)
    make_topic(east, topic_name, simple_records(10), simple_records(10))
    mirror = (
        f"{{name: {topic_name}, source: {{cluster: east, topics: [{topic_name}]}}, "
        "destinations: [{type: kafka, cluster: west}]}"
    )
    file.write_text(
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
        f"mirrors: [{mirror}]\n"
        "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n"
    )
    with RunningService(file) as running:

        def await_ends(*ends: int) -> None:
            wait_until(
                lambda: [row["dest_next"] for row in running.rows()] == [*ends],
                f"positions {ends}",
                log=lambda: str(running.rows()),
            )

        await_ends(10, 10)
        wait_until(lambda: bool(leases), "a lease goes on")
        append(east, topic_name, 0, simple_records(5, start=10))
        await_ends(15, 10)
        wait_until(lambda: leases.count(leases[-1]) >= 3, "one lease goes on again and again")
        append(east, topic_name, 1, simple_records(7, start=10))
        await_ends(15, 17)
    assert consume(west, topic_name, 0) == dict(enumerate(simple_records(15)))
    assert consume(west, topic_name, 1) == dict(enumerate(simple_records(17)))
