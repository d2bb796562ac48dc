"""What a running service archives of consumer groups, seen at real brokers; and what it makes of trouble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from conftest import RunAsync
from mirrorlake.archive.groups.objects import GROUPS_FOLDER, read_groups
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.groups.archiving import GroupArchive
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.states import state_of
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target
from support.acls import Right, grant_exactly
from support.admin import admin_client
from support.copies import create_topic, wait_until
from support.groups import commit, new_group
from support.records import simple_records
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, SecuredKafka
from support.topics import append, make_topic, topics_of

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Lake:
    """A folder that a mirror of one topic archives to, and what it archives of groups there."""

    root: Path
    archive: GroupArchive
    metrics: Metrics

    def offsets(self, topic: str) -> dict[int, dict[str, int]]:
        found = read_groups(FilesystemStore(self.root), topic).partitions
        return {number: {group: each.offset for group, each in of.groups.items()} for number, of in found.items()}

    def missing(self, topic: str) -> set[str]:
        found = read_groups(FilesystemStore(self.root), topic).partitions
        return {g for of in found.values() for g, each in of.groups.items() if each.missing_since_ms is not None}

    def objects(self, topic: str) -> list[str]:
        folder = self.root / topic / GROUPS_FOLDER
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []

    def count(self, series: str) -> float:
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(series))


def configuration(root: Path, servers: str, topic: str, groups: str, *, properties: str = "{}") -> Configuration:
    text = f"""
clusters: {{east: {{bootstrap-servers: "{servers}", properties: {properties}}}}}
stores: {{lake: {{type: filesystem, root: "{root}"}}}}
mirrors:
  - name: m
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: archive, store: lake, groups: {groups}}}]
"""
    return parse_configuration(text.encode(), file="m.yaml", environ={"BOB": LIMITED_PASSWORD})


async def targets_of(config: Configuration) -> list[Target]:
    clients = WorkerCache()
    try:
        return await find_targets(config, clients)
    finally:
        await clients.close()


def lake_of(config: Configuration, targets: list[Target]) -> Lake:
    store = config.stores[0].settings
    root = Path(store.where(""))
    clock = SystemClock()
    metrics = Metrics(CollectorRegistry(), clock=clock)
    markers = ArchiveMarkers(writer="test", clock=clock)
    archive = GroupArchive(markers, metrics, writer="test", clock=clock)
    pairs: list[tuple[Target, PartitionState]] = [(each, state_of(each, writer="test")) for each in targets]
    markers.follow(pairs)
    archive.follow(pairs)
    return Lake(root, archive, metrics)


def followed(tmp_path: Path, run_async: RunAsync, servers: str, topic: str, groups: str, **more: str) -> Lake:
    root = tmp_path / "lake"
    root.mkdir()
    config = configuration(root, servers, topic, groups, **more)
    return lake_of(config, run_async(targets_of(config)))


def warnings_of(logs: Sequence[Mapping[str, object]]) -> list[str]:
    return [str(line["error"]) for line in logs if line["log_level"] == "warning"]


def test_groups_of_the_mirrored_topic_are_archived_and_only_changes_are_written(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, (one, two) = source_kafka.bootstrap_servers, (new_group("app"), new_group("app"))
    zero, last = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    create_topic(servers, topic_name, 2)
    create_topic(servers, f"{topic_name}-other")
    append(servers, topic_name, 0, simple_records(9))
    commit(servers, one, {zero: 4, TopicPartition(f"{topic_name}-other", 0): 0})
    commit(servers, two, {last: 0})
    lake = followed(tmp_path, run_async, servers, topic_name, f"{{include: [{one}, {two}]}}")
    lake.archive.look(is_last=True)
    assert lake.offsets(topic_name) == {0: {one: 4}, 1: {two: 0}}
    assert lake.objects(f"{topic_name}-other") == []
    lake.archive.look(is_last=True)
    assert len(lake.objects(topic_name)) == 1
    commit(servers, one, {zero: 3})
    lake.archive.look(is_last=True)
    assert lake.offsets(topic_name) == {0: {one: 3}, 1: {two: 0}}
    assert lake.count("mirrorlake_group_archive_failures_total") == 0
    assert lake.count("mirrorlake_groups_archived_timestamp_seconds") > 0


def test_between_two_looks_lies_the_interval_but_for_the_last_one(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 1})
    lake = followed(tmp_path, run_async, servers, topic_name, f"{{include: [{group}], interval: 1h}}")
    lake.archive.look()
    commit(servers, group, {zero: 2})
    lake.archive.look()
    assert lake.offsets(topic_name) == {0: {group: 1}}
    lake.archive.look_once_more()
    assert lake.offsets(topic_name) == {0: {group: 2}}


def test_a_group_that_was_deleted_keeps_the_last_it_had_and_is_marked(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 7})
    lake = followed(tmp_path, run_async, servers, topic_name, '{include: ["/.*/"]}')
    lake.archive.look(is_last=True)
    assert lake.offsets(topic_name)[0][group] == 7
    with admin_client(servers) as admin:
        admin.delete_groups([group])
    lake.archive.look(is_last=True)
    assert (lake.offsets(topic_name)[0][group], lake.missing(topic_name)) == (7, {group})
    commit(servers, group, {zero: 8})
    lake.archive.look(is_last=True)
    assert (lake.offsets(topic_name)[0][group], lake.missing(topic_name)) == (8, set())


def test_of_a_topic_that_was_recreated_nothing_is_archived_beside_the_one_before(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 7})
    lake = followed(tmp_path, run_async, servers, topic_name, f"{{include: [{group}]}}")
    lake.archive.look(is_last=True)
    with admin_client(servers) as admin:
        admin.delete_topics([topic_name])
    wait_until(lambda: topic_name not in topics_of(servers), "the topic to go")
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 2})
    lake.archive.look(is_last=True)
    assert (lake.offsets(topic_name), lake.missing(topic_name)) == ({0: {group: 7}}, set())


def test_a_cluster_that_does_not_answer_is_said_once_and_changes_nothing(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 7})
    lake = followed(tmp_path, run_async, servers, topic_name, f"{{include: [{group}]}}")
    lake.archive.look(is_last=True)
    gone = configuration(lake.root, servers, topic_name, f"{{include: [{group}]}}")
    targets = run_async(targets_of(gone))
    away = configuration(lake.root, "127.0.0.1:1", topic_name, f"{{include: [{group}]}}").mirrors[0]
    silent = lake_of(gone, [replace(target, mirror=away) for target in targets])
    with capture_logs() as logs:
        silent.archive.look(is_last=True)
        silent.archive.look(is_last=True)
    (said,) = warnings_of(logs)
    assert "127.0.0.1:1" in said
    assert silent.count("mirrorlake_group_archive_failures_total") == 2
    assert lake.offsets(topic_name) == {0: {group: 7}}


def test_a_root_that_is_another_one_now_is_not_written_to(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = source_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    lake = followed(tmp_path, run_async, servers, topic_name, f"{{include: [{group}]}}")
    lake.archive.look(is_last=True)
    lake.root.rename(tmp_path / "aside")
    lake.root.mkdir()
    commit(servers, group, {zero: 7})
    with capture_logs() as logs:
        lake.archive.look(is_last=True)
    assert [*lake.root.iterdir()] == []
    (said,) = warnings_of(logs)
    assert "is gone" in said


def limited(groups: str) -> dict[str, str]:
    return {
        "groups": groups,
        "properties": "{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: bob, "
        'sasl.password: "${BOB}"}',
    }


@pytest.mark.parametrize("operation", ["DESCRIBE", "READ"])
def test_without_a_right_on_groups_it_is_named_and_with_it_they_are_archived(
    operation: str, secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, group, zero = secured_kafka.bootstrap_servers, new_group(), TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(9))
    commit(servers, group, {zero: 7})
    topic_rights = [Right("TOPIC", topic_name, "READ"), Right("TOPIC", topic_name, "DESCRIBE_CONFIGS")]
    grant_exactly(servers, LIMITED, topic_rights)
    at = secured_kafka.servers("CLEAR")
    named = followed(tmp_path, run_async, at, topic_name, **limited(f"{{include: [{group}]}}"))
    with capture_logs() as logs:
        named.archive.look(is_last=True)
    (said,) = warnings_of(logs)
    assert f"grant DESCRIBE on group {group} to this user" in said
    (tmp_path / "more").mkdir()
    matched = followed(tmp_path / "more", run_async, at, topic_name, **limited('{include: ["/.*/"]}'))
    with capture_logs() as logs:
        matched.archive.look(is_last=True)
    (said,) = warnings_of(logs)
    assert "lists no consumer group: there is none, or this user may describe none" in said
    assert named.objects(topic_name) == matched.objects(topic_name) == []
    grant_exactly(servers, LIMITED, [*topic_rights, Right("GROUP", group, operation)])
    with capture_logs() as logs:
        named.archive.look(is_last=True)
        matched.archive.look(is_last=True)
    assert warnings_of(logs) == []
    assert named.offsets(topic_name) == matched.offsets(topic_name) == {0: {group: 7}}
