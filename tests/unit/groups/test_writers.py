"""Which mirrors copy to a partition, and so where one mirror's map alone tells no place."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import TransientError
from mirrorlake.groups.syncing import Writers, not_to_be_trusted, selection_of
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

FILE = b"""
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
stores: {lake: {type: filesystem, root: /lake}}
mirrors:
  - name: mapped
    source: {cluster: east, topics: [a]}
    destinations: [{type: kafka, cluster: west, topic: both, offsets: map, groups: {include: [app]}}]
  - name: second
    source: {cluster: east, topics: [b]}
    destinations: [{type: kafka, cluster: west, topic: both, offsets: map}]
  - name: equal
    source: {cluster: east, topics: [alone]}
    destinations: [{type: kafka, cluster: west, offsets: preserve}]
  - name: kept
    source: {cluster: east, topics: [c]}
    destinations: [{type: archive, store: lake, name: both}]
"""
MIRRORS = {each.name: each for each in parse_configuration(FILE, file="m.yaml", environ={}).mirrors}
AWAY = TransientError("the broker is away")


def target(name: str, partition: int = 0, **more: str) -> Target:
    mirror = MIRRORS[name]
    found = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition("alone" if name == "equal" else "a", partition),
        destination_cluster_id="west-id",
        destination_topic="alone" if name == "equal" else "both",
    )
    return replace(found, **more)  # type: ignore[arg-type]


def hidden(name: str = "second", **more: str) -> Target:
    """A mirror that could not be looked at: as much is known of its destination as is given."""
    return target(name, UNKNOWN_PARTITION, **{"destination_cluster_id": "", "destination_topic": "", **more})


@pytest.mark.parametrize(
    ("asked", "others", "said"),
    [
        ("mapped", [], ""),
        ("mapped", [target("mapped", 1)], ""),
        ("mapped", [target("second", 1)], ""),
        ("mapped", [target("second", 0)], "mirror second copies to the same partition"),
        ("mapped", [target("second", destination_cluster_id="north-id")], ""),
        ("mapped", [target("second", destination_topic="else")], ""),
        ("mapped", [hidden()], "mirror second could not be looked at, and may copy to the same partition"),
        ("mapped", [hidden(destination_cluster_id="west-id", destination_topic="both")], "mirror second could not be"),
        ("mapped", [hidden(destination_cluster_id="north-id")], ""),
        ("mapped", [hidden(destination_topic="else")], ""),
        ("mapped", [hidden("mapped")], ""),
        ("mapped", [target("kept", destination_cluster_id="")], ""),
        ("equal", [hidden()], ""),
        ("equal", [target("second", destination_topic="alone")], "mirror second copies to the same partition"),
    ],
)
def test_a_partition_is_one_mirrors_alone_unless_another_one_copies_or_may_copy_there(
    asked: str, others: list[Target], said: str
) -> None:
    found = Writers([target(asked), *others]).against(target(asked))
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_an_error_of_the_copy_is_said_before_anything_else() -> None:
    writers = Writers([target("mapped"), target("second")])
    assert "not to be trusted: the broker is away" in not_to_be_trusted(target("mapped"), writers, AWAY)


def test_without_groups_in_the_file_all_are_meant() -> None:
    assert selection_of(target("mapped")).selects("app")
    assert not selection_of(target("mapped")).selects("another")
    assert selection_of(target("second")).selects("another")
