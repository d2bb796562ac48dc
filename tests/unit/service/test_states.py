"""What is known of a target before the first lease."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirrorlake.config.loading import parse_configuration
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.work import ArchiveWork
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.states import make_roots, read_archive_positions, state_of
from mirrorlake.service.targets import Target

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
        source_cluster=ClusterSettings(name="east", bootstrap_servers=("localhost:9092",)),
        source=TopicPartition("orders", 0),
        topic_id="some-topic",
        destination_topic="orders",
    )


def test_a_missing_root_parks_the_partition_and_is_not_made_by_looking(tmp_path: Path) -> None:
    target = target_at(tmp_path / "lake")
    state = state_of(target, writer="test")
    read_archive_positions([(target, state)], writes=False)
    assert state.is_parked
    assert str(tmp_path / "lake") in str(state.error)
    assert not (tmp_path / "lake").exists()


def test_the_mirror_v3_form_makes_a_missing_root_as_mirror_v3_does(tmp_path: Path) -> None:
    target = target_at(tmp_path / "deep" / "lake")
    make_roots([target])
    state = state_of(target, writer="test")
    read_archive_positions([(target, state)], writes=True)
    assert state.error is None
    assert state.position == 0


@pytest.mark.parametrize("writes", [False, True])
def test_a_root_that_is_a_file_is_refused_by_name(tmp_path: Path, *, writes: bool) -> None:
    (tmp_path / "lake").write_text("a file")
    target = target_at(tmp_path / "lake")
    make_roots([target])
    state = state_of(target, writer="test")
    read_archive_positions([(target, state)], writes=writes)
    assert state.is_parked
    assert str(tmp_path / "lake") in str(state.error)


def test_a_newest_file_of_mirror_v3_is_noted_and_said_where_others_are_described(tmp_path: Path) -> None:
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}-{9:020}.ndjson").write_bytes(b"")
    text = MIRROR_V3.replace("type: filesystem,", "type: filesystem, format: ndjson,")
    target = target_at(tmp_path, text)

    def ended_at() -> int | None:
        state = state_of(target, writer="test")
        read_archive_positions([(target, state)], writes=True)
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
