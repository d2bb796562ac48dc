"""`on-recreate: restart` of a copy that somebody else has written to: nobody's records are deleted with it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.records import Record, consume, simple_records
from support.topics import append, delete_topic, make_topic
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FIRST, AGAIN, THEIRS = simple_records(8), simple_records(3, start=100), simple_records(2, start=900)
WRITERS: dict[str, Callable[[str, str], object]] = {
    "without-an-id": lambda servers, topic: append(servers, topic, 0, THEIRS),
    "to-another-partition": lambda servers, topic: append(servers, topic, 1, THEIRS),
    "in-a-transaction": lambda servers, topic: append_in_transaction(servers, topic, THEIRS),
}


def values(servers: str, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in consume(servers, topic, partition).values()]


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("partitions", [1, 2], ids=["fewer-partitions", "as-many"])
def test_a_copy_that_others_wrote_to_is_not_deleted_and_the_remedy_is_followed(
    writer: str,
    partitions: int,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, FIRST, FIRST)
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""clusters: {{east: {{bootstrap-servers: '{east}'}}, west: {{bootstrap-servers: '{west}'}}}}
mirrors:
  - name: m-{topic_name}
    on-recreate: restart
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west}}]
""",
    )
    assert mirrorlake("run", "--once", "-c", config).code == 0
    WRITERS[writer](west, topic_name)
    held = [values(west, topic_name, partition) for partition in (0, 1)]
    assert sum(map(len, held)) == 2 * len(FIRST) + len(THEIRS)
    delete_topic(east, topic_name)
    make_topic(east, topic_name, *[AGAIN] * partitions)

    plan = mirrorlake("plan", "-c", config, "--format", "json")
    ran = mirrorlake("run", "--once", "-c", config)

    assert {(row["action"], row["reason"]) for row in plan.rows()} == {("refused", "foreign")}, plan.out
    assert ran.code == 3, ran.err
    assert "reason=foreign" in ran.err, ran.err
    assert f"`on-recreate: restart` would delete {topic_name}, but another producer has written to" in ran.err, ran.err
    assert [values(west, topic_name, partition) for partition in (0, 1)] == held, "nothing was deleted"

    delete_topic(west, topic_name)

    assert mirrorlake("run", "--once", "-c", config).code == 0
    copied = partial(values, west, topic_name)
    assert [copied(number) for number in range(partitions)] == [values_of(AGAIN)] * partitions
