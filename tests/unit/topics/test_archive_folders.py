"""Which folder of an archive a source topic goes to; real segments in real folders, no broker."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import ManualClock
from mirrorlake.config.resolved import RecreationPolicy
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.destinations.archive.segment_encoding import encoding_for
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.topics.archive_folders import ArchivedTopic, find_folder

PARK, NEW_TOPIC = RecreationPolicy.PARK, RecreationPolicy.NEW_TOPIC


class Lake:
    """An archive of topic ``orders`` with two partitions."""

    def __init__(self, root: Path) -> None:
        self.store = FilesystemStore(root)

    def write(self, folder: str, topic_id: str, *, partition: int = 0, cluster_id: str = "east") -> None:
        """Publishes a first segment of ten lost offsets: what it says of itself is all that counts here."""
        archived = ArchivedPartition(self.store, destination_name=folder, partition=partition, extension="parquet")
        segment = OpenSegment(
            archived,
            source=TopicPartition("orders", partition),
            cluster_id=cluster_id,
            topic_id=topic_id,
            make_writer=encoding_for("parquet", compression="zstd-1").begin,
            writer="test",
            start_offset=0,
            clock=ManualClock(),
        )
        segment.add_gap(Gap(offsets=OffsetRange(start_offset=0, end_offset=10), kind=GapKind.TRUNCATED))
        segment.publish(end_offset=10, trigger="explicit")

    def folder(self, topic_id: str, policy: RecreationPolicy, *, partitions: Sequence[int] = (0, 1)) -> str:
        topic = ArchivedTopic(
            base="orders", partitions=partitions, extension="parquet", cluster_id="east", topic_id=topic_id
        )
        return find_folder(self.store, topic, policy=policy)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.parametrize("policy", [PARK, NEW_TOPIC])
def test_an_archive_begins_in_the_folder_that_is_configured(lake: Lake, policy: RecreationPolicy) -> None:
    assert lake.folder("a", policy) == "orders"
    lake.write("orders", "a")
    assert lake.folder("a", policy) == "orders"


def test_a_recreated_topic_gets_a_folder_of_its_own_where_the_policy_says_so(lake: Lake) -> None:
    lake.write("orders", "a")
    assert lake.folder("b", PARK) == "orders", "where it is refused"
    assert lake.folder("b", NEW_TOPIC) == "orders.2"


def test_each_topic_goes_on_in_its_own_folder_whatever_the_policy_says_now(lake: Lake) -> None:
    lake.write("orders", "a")
    lake.write("orders.2", "b", partition=1)
    for policy in (PARK, NEW_TOPIC):
        assert lake.folder("a", policy) == "orders"
        assert lake.folder("b", policy) == "orders.2"
    assert lake.folder("c", NEW_TOPIC) == "orders.3"
    assert lake.folder("c", PARK) == "orders.2", "the newest, where it is refused"


def test_one_partition_with_segments_is_enough_to_know_a_folder(lake: Lake) -> None:
    lake.write("orders", "a", partition=1)
    assert lake.folder("b", NEW_TOPIC) == "orders.2"


def test_another_clusters_topic_is_not_one_that_was_recreated(lake: Lake) -> None:
    lake.write("orders", "b", cluster_id="other")
    assert lake.folder("a", NEW_TOPIC) == "orders", "where it is refused"


def test_a_source_without_topic_ids_goes_to_the_folder_that_is_configured(lake: Lake) -> None:
    lake.write("orders", "a")
    assert lake.folder("", NEW_TOPIC) == "orders"


def test_mirrors_of_one_partition_each_know_a_folder_by_the_partitions_of_the_others(lake: Lake) -> None:
    lake.write("orders", "a", partition=1)
    assert lake.folder("b", NEW_TOPIC, partitions=(0,)) == "orders.2", "not beside the topic that is gone"
    assert lake.folder("b", NEW_TOPIC, partitions=(1,)) == "orders.2"
    assert lake.folder("a", NEW_TOPIC, partitions=(0,)) == "orders"
    lake.write("orders.2", "b", partition=1)
    assert lake.folder("b", NEW_TOPIC, partitions=(0,)) == "orders.2"
    assert lake.folder("c", NEW_TOPIC, partitions=(0,)) == "orders.3"
    assert lake.folder("c", PARK, partitions=(0,)) == "orders.2", "the newest, where it is refused"


def test_a_recreated_topic_with_fewer_partitions_is_not_put_beside_those_of_the_one_before(lake: Lake) -> None:
    lake.write("orders", "a", partition=5)
    assert lake.folder("b", NEW_TOPIC) == "orders.2"


def test_a_folder_that_an_earlier_version_mixed_is_gone_on_with_partition_by_partition(lake: Lake) -> None:
    lake.write("orders", "b", partition=0)
    lake.write("orders", "a", partition=1)
    assert lake.folder("b", NEW_TOPIC, partitions=(0,)) == "orders"
    assert lake.folder("b", NEW_TOPIC, partitions=(1,)) == "orders.2"
