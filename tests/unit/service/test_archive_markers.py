"""What a run records of its archives, and how it notices that a root is not the one it was."""

from pathlib import Path

import pytest

from mirrorlake.archive.root_marker import read_root_marker
from mirrorlake.archive.topic_record import read_topic_record
from mirrorlake.clock import ManualClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import StoreUnusableError, UnsupportedError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.states import state_of, with_archive_positions
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.topics.targets import Target
from support.archives import mark_archive

CONFIGURATION = """
clusters: {{east: {{bootstrap-servers: "localhost:9092"}}}}
stores: {{lake: {{type: filesystem, root: "{root}"}}}}
mirrors: [{{name: m, source: {{cluster: east, topics: [orders]}}, destinations: [{{type: archive, store: lake}}]}}]
"""


def archive_target(root: Path, partition: int, position: int | None) -> tuple[Target, PartitionState]:
    config = parse_configuration(CONFIGURATION.format(root=root).encode(), file="mirror.yaml", environ={})
    (mirror,) = config.mirrors
    target = Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=KafkaSourceWork(cluster=ClusterSettings(name="east", bootstrap_servers=("localhost:9092",))),
        source=TopicPartition("orders", partition),
        source_cluster_id="cluster",
        topic_id="topic-id",
        destination_topic="orders",
        source_partitions=3,
    )
    state = state_of(target, writer="host-1")
    state.position = position
    return target, state


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    return root


def followed(lake: Path, *positions: int | None) -> tuple[ArchiveMarkers, list[tuple[Target, PartitionState]]]:
    markers = ArchiveMarkers(writer="host-1", clock=ManualClock(1_700_000_000.0))
    pairs = [archive_target(lake, partition, position) for partition, position in enumerate(positions)]
    markers.follow(pairs)
    markers.update()
    return markers, pairs


def reached(lake: Path) -> dict[int, int]:
    record = read_topic_record(FilesystemStore(lake), "orders")
    assert record is not None
    return dict(record.reached)


def names(lake: Path) -> list[str]:
    return sorted(path.name for path in (lake / "orders").iterdir() if path.is_file())


def test_a_partition_is_recorded_once_it_has_a_segment_and_not_for_each(lake: Path) -> None:
    markers, pairs = followed(lake, 10, 0, None)
    assert reached(lake) == {0: 10}
    pairs[0][1].position = 99
    markers.update()
    assert names(lake) == ["_topic.json"]
    pairs[1][1].position = 7
    markers.update()
    markers.update()
    assert names(lake) == ["_topic.1.json", "_topic.json"]
    assert reached(lake) == {0: 99, 1: 7}


def test_how_far_partitions_have_come_is_recorded_once_an_hour_and_by_who_leaves(lake: Path) -> None:
    clock = ManualClock(1_700_000_000.0)
    markers, state = ArchiveMarkers(writer="host-1", clock=clock), archive_target(lake, 0, 10)
    markers.follow([state])
    markers.update()
    state[1].position = 20
    clock.advance(3599)
    markers.update()
    assert reached(lake) == {0: 10}
    clock.advance(1)
    markers.update()
    assert reached(lake) == {0: 20}
    state[1].position = 30
    markers.update()
    assert reached(lake) == {0: 20}
    markers.leave()
    assert reached(lake) == {0: 30}
    before = names(lake)
    markers.leave()
    assert names(lake) == before == ["_topic.1.json", "_topic.2.json"]


def test_who_begins_records_how_far_partitions_have_come_since(lake: Path) -> None:
    followed(lake, 10)
    followed(lake, 20)
    assert reached(lake) == {0: 20}


def test_how_far_a_parked_partition_had_come_is_recorded_at_once(lake: Path) -> None:
    markers, pairs = followed(lake, 10, 5)
    for _, state in pairs:
        state.position = 20
    pairs[0][1].is_parked = True
    markers.update()
    assert reached(lake) == {0: 20, 1: 20}


def test_a_record_that_somebody_deletes_is_not_written_again_by_who_wrote_it(lake: Path) -> None:
    markers, pairs = followed(lake, 10)
    (lake / "orders" / "_topic.json").unlink()
    pairs[0][1].position = 20
    markers.leave()
    assert names(lake) == []


def test_a_root_that_is_what_it_was_is_not_gone(lake: Path) -> None:
    markers, _ = followed(lake, 10)
    assert markers.gone_roots() == {}


def test_a_root_without_its_marker_is_gone_and_gets_no_other(lake: Path) -> None:
    markers, pairs = followed(lake, 10, 0)
    lake.rename(lake.with_name("unmounted"))
    lake.mkdir()
    pairs[1][1].position = 7
    markers.update()
    assert list(lake.iterdir()) == []
    ((store, error),) = markers.gone_roots().items()
    assert store == FilesystemSettings(root=lake)
    assert isinstance(error, StoreUnusableError)
    assert "_mirrorlake.json is gone" in error.message


def test_another_archive_in_its_place_is_told_by_its_id(lake: Path) -> None:
    markers, _ = followed(lake, 10)
    lake.rename(lake.with_name("unmounted"))
    lake.mkdir()
    followed(lake, 20)
    other = read_root_marker(FilesystemStore(lake))
    assert other is not None
    ((_, error),) = markers.gone_roots().items()
    assert f"is of archive {other.archive_id}" in error.message


def test_what_cannot_be_recorded_is_recorded_later(lake: Path) -> None:
    lake.rename(lake.with_name("away"))
    markers, _ = followed(lake, 10)
    assert markers.gone_roots() == {}
    lake.with_name("away").rename(lake)
    markers.update()
    assert reached(lake) == {0: 10}


@pytest.mark.parametrize("writes", [False, True])
def test_an_empty_partition_that_had_segments_is_parked_and_one_that_had_none_begins(lake: Path, writes: bool) -> None:
    mark_archive(lake, {"orders": {0: 10}})
    pairs = [archive_target(lake, partition, None) for partition in (0, 1)]
    emptied, new = with_archive_positions(pairs, writes=writes)
    assert emptied.is_parked
    assert "had reached offset 10" in str(emptied.error)
    assert (new.position, new.error) == (0, None)


def test_a_store_that_is_gone_is_neither_probed_nor_read(lake: Path) -> None:
    markers, pairs = followed(lake, None)
    lake.rename(lake.with_name("unmounted"))
    lake.mkdir()
    (state,) = with_archive_positions(pairs, writes=True, gone=markers.gone_roots())
    assert state.is_parked
    assert list(lake.iterdir()) == []


@pytest.mark.parametrize("writes", [True, False])
def test_an_archive_of_a_later_version_is_refused_before_anything_is_written(lake: Path, writes: bool) -> None:
    (lake / "_mirrorlake.json").write_text('{"format_version": 2}')
    pair = archive_target(lake, 0, None)
    (state,) = with_archive_positions([pair], writes=writes)
    assert isinstance(state.error, UnsupportedError)
    assert "archive format 2" in str(state.error)
    assert [path.name for path in lake.iterdir()] == ["_mirrorlake.json"]


def test_a_marker_that_is_damaged_stops_no_archive(lake: Path) -> None:
    (lake / "_mirrorlake.json").write_text("")
    pair = archive_target(lake, 0, None)
    (state,) = with_archive_positions([pair], writes=True)
    assert (state.error, state.position) == (None, 0)
