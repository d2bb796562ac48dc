"""What a broker refuses, and what it cannot give: the partition stops with the reason, all others go on."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.acls import AUTHORIZER, allow_only
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import archive_position, archived_records, assert_same_records
from support.records import consume, simple_records
from support.topics import make_topic, topics_of

BATCH_LENGTH_AT, PREFIX_BYTES = 8, 12
VALUE_AT = 70  # inside the first record of a batch

RIGHTS = {
    "noread": "grant READ on topic noread to this user",
    "noconfigs": "grant DESCRIBE_CONFIGS on topic noconfigs to this user",
    "nocreate": "grant CREATE on topic nocreate to this user",
    "nowrite": "grant WRITE on topic nowrite to this user",
}
DENIED = {
    "noread": "fetch of source noread-0 at offset 0 was answered with TOPIC_AUTHORIZATION_FAILED (29)",
    "noconfigs": "DescribeConfigs of noconfigs in cluster 'own' was answered with TOPIC_AUTHORIZATION_FAILED (29)",
    "nocreate": "CreateTopics of nocreate in cluster 'own' was answered with TOPIC_AUTHORIZATION_FAILED (29)",
    "nowrite": "append to destination nowrite-0 at offset 0 was answered with TOPIC_AUTHORIZATION_FAILED (29)",
}


@dataclass(frozen=True)
class Refused:
    """What one run said about a broker that refuses much and holds one corrupt batch."""

    run: Ended
    own: str
    west: str
    lake: Path
    tag: str

    def copy_of(self, topic: str) -> str:
        return f"{topic}-{self.tag}"


@pytest.fixture(scope="module")
def refused(
    kafka_libs: Path, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Refused]:
    folder = tmp_path_factory.mktemp("refusals")
    lake = folder / "lake"
    lake.mkdir()
    west = destination_kafka.bootstrap_servers
    with EmbeddedKafka(folder / "kafka", libs=kafka_libs, properties=AUTHORIZER) as broker:
        own = broker.bootstrap_servers
        make_topics(own, west, folder.name)
        broker.stop()
        damage_second_batch(folder / "kafka" / "data" / "corrupt-0")
        broker.start()
        config = write_yaml(folder / "mirror.yaml", configuration(own, west, lake, folder.name))
        run = mirrorlake("run", "--once", "-c", config)
        yield Refused(run, own, west, lake, folder.name)


def make_topics(own: str, west: str, tag: str) -> None:
    records = simple_records(30)
    for topic in ("sound", "noread", "noconfigs"):
        make_topic(own, topic, records)
    make_topic(own, "corrupt", records, records)
    make_topic(own, "nowrite", [])
    for topic in ("nocreate", "nowrite"):
        make_topic(west, f"{topic}-{tag}", records)
    allow_only(
        own,
        {
            "noread": ["DESCRIBE", "DESCRIBE_CONFIGS"],
            "noconfigs": ["READ", "DESCRIBE"],
            "nocreate": ["DESCRIBE"],
            "nowrite": ["READ", "DESCRIBE", "DESCRIBE_CONFIGS"],
        },
    )


def damage_second_batch(folder: Path) -> None:
    """Flips one bit of the batch that begins at offset 10, as a bad disk would."""
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    first_bytes = PREFIX_BYTES + int(struct.unpack_from(">i", data, BATCH_LENGTH_AT)[0])
    data[first_bytes + VALUE_AT] ^= 1
    log.write_bytes(data)


def configuration(own: str, west: str, lake: Path, tag: str) -> str:
    to_west = f"{{type: kafka, cluster: west, topic: '{{topic}}-{tag}'}}"
    to_lake = "{type: archive, store: lake, flush: {max-records: 4}}"
    mirrors = [
        *((topic, "own", topic, to_west) for topic in ("sound", "noread", "noconfigs")),
        ("corrupt", "own", "corrupt", f"{to_west}, {to_lake}"),
        *((topic, "west", f"{topic}-{tag}", f"{{type: kafka, cluster: own, topic: {topic}}}") for topic in
          ("nocreate", "nowrite")),
    ]  # fmt: skip
    return "\n".join(
        [
            f'clusters: {{own: {{bootstrap-servers: "{own}"}}, west: {{bootstrap-servers: "{west}"}}}}',
            f"stores: {{lake: {{type: filesystem, root: {lake}}}}}",
            "mirrors:",
            *(
                f"  - {{name: {name}, source: {{cluster: {cluster}, topics: [{topic}]}}, destinations: [{to}]}}"
                for name, cluster, topic, to in mirrors
            ),
            "",
        ]
    )


@pytest.mark.parametrize("mirror", DENIED)
def test_what_an_access_rule_denies_parks_with_the_operation_the_topic_and_the_right_that_is_missing(
    mirror: str, refused: Refused
) -> None:
    (line,) = refused.run.troubles(mirror)

    assert "[error] partition parked" in line
    assert DENIED[mirror] in line.replace("\\'", "'")
    assert RIGHTS[mirror] in line
    assert " kind=PermissionDeniedError " in line


def test_a_topic_that_may_not_be_created_is_not_said_to_have_been(refused: Refused) -> None:
    created = [line for line in refused.run.err.splitlines() if "destination topic created" in line]

    assert not any(" topic=nocreate" in line for line in created), created
    assert any(f" topic={refused.copy_of('sound')}" in line for line in created), created
    assert "nocreate" not in topics_of(refused.own)


def test_a_corrupt_batch_parks_its_partition_at_its_offset_and_what_lies_before_it_is_copied(refused: Refused) -> None:
    lines = refused.run.troubles("corrupt")

    assert len(lines) == 2, "one for each destination"
    for line in lines:
        assert "[error] partition parked" in line
        assert "source corrupt-0: the record batch at offset 10 is corrupt: its checksum says " in line
        assert "hint='nothing was copied from there on; let kafka-dump-log.sh show the segment" in line
    assert [" position=10 " in line for line in lines if "destination=west" in line] == [True]
    before = dict(enumerate(simple_records(10)))
    assert_same_records(before, consume(refused.west, refused.copy_of("corrupt"), 0))
    # Two segments are full; what is left before the corrupt batch is read again once that is settled.
    assert archive_position(refused.lake, "corrupt", 0) == 8


def test_everything_else_is_copied_and_the_run_ends_with_code_3(refused: Refused) -> None:
    assert (refused.run.code, refused.run.out) == (3, ""), refused.run.err
    for topic, partition in (("sound", 0), ("corrupt", 1)):
        there = consume(refused.own, topic, partition)
        assert len(there) == 30
        assert_same_records(there, consume(refused.west, refused.copy_of(topic), partition))
    assert_same_records(consume(refused.own, "corrupt", 1), archived_records(refused.lake, "corrupt", 1))
