"""What is known of a target before the first lease."""

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirrorlake.archive.names import LAST_OFFSET_MAX, SegmentName
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.errors import ChainBrokenError, OtherSourceError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.states import make_roots, state_of, with_archive_positions
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.topics.targets import Target
from support.archives import write_segment

MIRROR_V3 = """
destination: {{type: filesystem, root: "{root}", flush: {{max-time-ms: 1000, max-bytes: 1000, max-offsets: 10}}}}
mirrors: [{{name: orders, source: {{bootstrap-servers: "localhost:9092"}}, topic: orders, partition: 0}}]
"""


def target_at(root: Path, text: str = MIRROR_V3) -> Target:
    config = parse_configuration(text.format(root=root).encode(), file="mirror.yaml", environ={})
    (mirror,) = config.mirrors
    return Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=KafkaSourceWork(cluster=ClusterSettings(name="east", bootstrap_servers=("localhost:9092",))),
        source=TopicPartition("orders", 0),
        topic_id="some-topic",
        destination_topic="orders",
    )


NATIVE = """
clusters: {{east: {{bootstrap-servers: "localhost:9092"}}}}
stores: {{lake: {{type: filesystem, root: "{root}"}}}}
mirrors: [{{name: m, source: {{cluster: east, topics: [orders]}}, destinations: [{{type: archive, store: lake}}]}}]
"""


def test_a_missing_root_that_a_run_will_make_is_an_archive_at_zero_and_is_not_made_by_looking(tmp_path: Path) -> None:
    target = target_at(tmp_path / "lake")
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=False)
    assert (state.error, state.position) == (None, 0)
    assert not (tmp_path / "lake").exists()


def test_a_missing_root_parks_the_partition_and_is_not_made_by_looking(tmp_path: Path) -> None:
    target = target_at(tmp_path / "lake", NATIVE)
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=False)
    assert state.is_parked
    assert str(tmp_path / "lake") in str(state.error)
    assert not (tmp_path / "lake").exists()


def test_the_mirror_v3_form_makes_a_missing_root_as_mirror_v3_does(tmp_path: Path) -> None:
    target = target_at(tmp_path / "deep" / "lake")
    make_roots([target])
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=True)
    assert state.error is None
    assert state.position == 0


@pytest.mark.parametrize("writes", [False, True])
def test_a_root_that_is_a_file_is_refused_by_name(tmp_path: Path, *, writes: bool) -> None:
    (tmp_path / "lake").write_text("a file")
    target = target_at(tmp_path / "lake")
    make_roots([target])
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=writes)
    assert state.is_parked
    assert str(tmp_path / "lake") in str(state.error)


def test_a_newest_file_of_mirror_v3_is_noted_and_said_where_others_are_described(tmp_path: Path) -> None:
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    last = {"topic": "orders", "partition": 0, "offset": 9, "timestamp_type": "create_time"}
    (folder / f"{0:020}-{9:020}.ndjson").write_text(json.dumps(last) + "\n")
    text = MIRROR_V3.replace("type: filesystem,", "type: filesystem, format: ndjson,")
    target = target_at(tmp_path, text)

    def ended_at() -> int | None:
        (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=True)
        assert (state.error, state.position) == (None, 10)
        assert isinstance(state.work, ArchiveWork)
        return state.work.settings.mirror_v3_end

    with capture_logs() as quiet:
        assert ended_at() == 10
    assert quiet == []
    described = tmp_path / "orders" / "_meta" / "0"
    described.mkdir(parents=True)
    (described / "another.json").write_bytes(b"")
    with capture_logs() as said:
        assert ended_at() == 10
    (line,) = said
    assert line["path"] == f"orders/0/{0:020}-{9:020}.ndjson"
    assert f"put orders/_meta/0/{0:020}-{9:020}.ndjson.json back" in line["hint"]


@pytest.mark.parametrize("last", [7, 14, LAST_OFFSET_MAX], ids=["less", "more", "absurd"])
@pytest.mark.parametrize("extension", ["parquet", "ndjson"])
@pytest.mark.parametrize("writes", [False, True], ids=["plan", "run"])
def test_a_newest_file_under_another_name_stops_its_partition_as_what_it_is(
    tmp_path: Path, extension: str, last: int, *, writes: bool
) -> None:
    """And not as an archive that is ahead of its source, with the advice to make it anew."""
    write_segment(tmp_path, "orders", 0, 0, 5, topic_id="some-topic", extension=extension)
    file = write_segment(tmp_path, "orders", 0, 5, 10, topic_id="some-topic", extension=extension)
    file.rename(file.with_name(str(SegmentName(from_offset=5, to_offset=last, extension=extension))))
    target = target_at(tmp_path, MIRROR_V3.replace("type: filesystem,", f"type: filesystem, format: {extension},"))
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=writes)
    assert isinstance(state.error, ChainBrokenError)
    assert state.is_parked
    assert f"{5:020}-{last:020}.{extension}" in str(state.error)


def test_a_claim_of_another_source_is_told_at_the_start_and_stays(tmp_path: Path) -> None:
    other = Origin(cluster_id="elsewhere", topic="orders.2", topic_id="other", partition=0)
    archived = ArchivedPartition(FilesystemStore(tmp_path), destination_name="orders", partition=0, extension="parquet")
    archived.publication(0, origin=other, writer="other's").claim(9, raw_bytes=1)
    target = target_at(tmp_path)
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=True)
    assert isinstance(state.error, OtherSourceError)
    assert state.is_parked
    assert [info.name for info in archived.store.list("orders/0")] == [f"_claim-{0:020}"]


def test_nothing_is_swept_in_a_folder_of_another_source(tmp_path: Path) -> None:
    """It is looked at before anything is deleted, though it be a leftover."""
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}-{9:020}.parquet").write_bytes(b"PAR1 or not")
    (folder / f"_claim-{0:020}").touch()
    target = target_at(tmp_path)
    (state,) = with_archive_positions([(target, state_of(target, writer="test"))], writes=True)
    assert state.is_parked
    assert (folder / f"_claim-{0:020}").exists()
