"""`run --once` again after the mirror's transactional ids have expired: what its own producers wrote is its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import NewKafka
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import wait_until
from support.records import Record, consume, simple_records
from support.topics import append, delete_topic, make_topic
from support.transactions import append_in_transaction, is_forgotten

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EXPIRY = {"transactional_id_expiration_ms": 10_000, "transaction_remove_expired_transaction_cleanup_interval_ms": 200}
FIRST, MORE, THEIRS = simple_records(8), simple_records(3, start=100), simple_records(2, start=900)
SHARDS = 16


@dataclass
class Site:
    """A mirror of one topic with two partitions, the second of which ends in a gap, to a cluster that soon forgets."""

    east: str
    west: str
    topic: str
    config: Path

    def make(self, records: list[Record]) -> None:
        make_topic(self.east, self.topic, records, records)
        append_in_transaction(self.east, self.topic, simple_records(4), partition=1, committed=False)

    def run(self) -> Ended:
        return mirrorlake("run", "--once", "-c", self.config)

    def await_expiry(self) -> None:
        names = [f"mirrorlake.m-{self.topic}.{shard}" for shard in range(SHARDS)]
        wait_until(lambda: is_forgotten(self.west, *names), "the transactional ids to expire")

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for record in consume(self.west, self.topic, partition).values()]


@pytest.fixture
def site(source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, tmp_path: Path) -> Site:
    east, west = source_kafka.bootstrap_servers, new_kafka(**EXPIRY).bootstrap_servers
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters: {{east: {{bootstrap-servers: '{east}'}}, west: {{bootstrap-servers: '{west}'}}}}
mirrors:
  - name: m-{topic_name}
    on-recreate: restart
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, gap-fill: filler}}]
""",
    )
    site = Site(east, west, topic_name, config)
    site.make(FIRST)
    assert site.run().code == 0
    return site


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def recreate(site: Site) -> None:
    delete_topic(site.east, site.topic)
    site.make(MORE)


def go_on(site: Site) -> None:
    for partition in (0, 1):
        append(site.east, site.topic, partition, MORE)


@pytest.mark.parametrize(
    ("happens", "action", "expected"),
    [(go_on, "copy", [*FIRST, *MORE]), (recreate, "delete, create and copy", MORE)],
    ids=["more-records", "recreated"],
)
def test_a_copy_goes_on_and_is_made_anew_where_its_producers_are_forgotten(
    site: Site, happens: Callable[[Site], None], action: str, expected: list[Record]
) -> None:
    site.await_expiry()
    happens(site)

    plan = mirrorlake("plan", "-c", site.config, "--format", "json")
    ran = site.run()

    assert {row["action"] for row in plan.rows()} == {action}, plan.out
    assert ran.code == 0, ran.err
    assert [site.values(partition) for partition in (0, 1)] == [values_of(expected)] * 2


def test_what_others_wrote_is_refused_where_the_mirrors_own_producers_are_forgotten(site: Site) -> None:
    append(site.west, site.topic, 0, THEIRS)
    site.await_expiry()
    recreate(site)

    ran = site.run()

    assert ran.code == 3, ran.err
    assert "reason=foreign" in ran.err, ran.err
    assert site.values(0) == values_of([*FIRST, *THEIRS]), "nothing was deleted"
