"""Leases of a running service go on while nothing changes, and what comes meanwhile is copied by them."""

import time
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.lease import LeaseWork
from mirrorlake.service.pacing import Pacing
from support.copies import wait_until
from support.records import consume, simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORD_BYTES = 1000
LIMIT = 1
"""Bytes a second: one record is paid for in a quarter of an hour."""

STANDS_SECONDS = 3.0


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


def test_a_limit_that_is_added_ends_a_lease_that_goes_on_and_holds_from_the_next_one_on(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    file, prolonged, limited = tmp_path / "mirror.yaml", list[LeaseWork](), list[str]()
    prolong, orders = LeaseWork._prolong, Pacing.orders

    def noted(lease: LeaseWork, seconds: float) -> None:
        prolonged.append(lease)
        prolong(lease, seconds)

    def told(pacing: Pacing, *arguments: Any, **more: Any) -> Any:
        found = orders(pacing, *arguments, **more)
        limited.extend(found)
        return found

    def configure(limit: str) -> None:
        file.write_text(
            f'clusters: {{east: {{bootstrap-servers: "{east}"{limit}}}, west: {{bootstrap-servers: "{west}"}}}}\n'
            f"mirrors: [{{name: {topic_name}, source: {{cluster: east, topics: [{topic_name}]}}, "
            "destinations: [{type: kafka, cluster: west}]}]\n"
            "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n"
        )

    monkeypatch.setattr(LeaseWork, "_prolong", noted)
    monkeypatch.setattr(Pacing, "orders", told)
    make_topic(east, topic_name, simple_records(10))
    configure("")
    with RunningService(file) as running:

        def copied() -> int:
            position: int = running.rows()[0]["dest_next"]
            return position

        wait_until(lambda: bool(prolonged), "a lease goes on")
        assert limited == []
        configure(f", limit: {{bytes-per-second: {LIMIT}}}")
        assert running.service.reload() == ["clusters.east.limit"]
        wait_until(lambda: bool(limited), "a lease that is told of the limit, long before this one had to end")
        count = len(prolonged)
        append(east, topic_name, 0, simple_records(200, start=10, size=RECORD_BYTES))
        wait_until(lambda: copied() > 10, "one answer, which is taken whole", log=lambda: str(running.rows()))
        stands_at = copied()
        append(east, topic_name, 0, simple_records(7, start=210, size=RECORD_BYTES))
        time.sleep(STANDS_SECONDS)
        assert copied() == stands_at
        assert len(prolonged) == count, "a lease with a limit does not go on"

        configure("")
        running.service.reload()
        wait_until(lambda: copied() == 217, "the rest", log=lambda: str(running.rows()))
    assert [each.value for each in consume(west, topic_name, 0).values()] == [
        each.value
        for each in (
            *simple_records(10),
            *simple_records(200, start=10, size=RECORD_BYTES),
            *simple_records(7, start=210, size=RECORD_BYTES),
        )
    ]
