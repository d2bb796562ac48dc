"""What the driver may rely on of every kind of destination: one suite over all rows of the registry."""

import ast
import asyncio
import pickle
import re
from dataclasses import replace
from importlib.util import find_spec
from inspect import iscoroutinefunction
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest

import mirrorlake
from mirrorlake.config.destinations.registry import DESTINATION_TYPES, sections
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.orders import Orders
from mirrorlake.errors import TransientError
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.kinds.kind import Kind
from mirrorlake.kinds.registry import kind_of, kinds_of
from mirrorlake.kinds.standing import Sample, Standing
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.topics.targets import Target
from support.kinds import EVERY_KIND_TEXT
from support.python_sources import parsed
from unit.config.config_texts import load

KINDS = [kind for name in DESTINATION_TYPES for kind in kinds_of(name)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
PACKAGE = Path(mirrorlake.__file__).parent


@pytest.fixture
def targets(tmp_path: Path) -> list[Target]:
    """One of each kind, in the order of the registry."""
    (mirror,) = parse_configuration(
        EVERY_KIND_TEXT.format(root=tmp_path).encode(), file="mirror.yaml", environ={}
    ).mirrors
    return [
        Target(
            mirror=mirror,
            destination=destination,
            source_work=KafkaSourceWork(cluster=ClusterSettings(name="east", bootstrap_servers=("localhost:9092",))),
            source=TopicPartition("orders", 3),
            source_cluster_id="a-cluster",
            topic_id="an-id",
            destination_topic="orders",
            batch_bytes_max=1000,
        )
        for destination in mirror.destinations
    ]


def target_of(kind: Kind, targets: list[Target]) -> Target:
    (target,) = (each for each in targets if kind_of(each.destination) is kind)
    return target


def test_every_destination_that_can_be_configured_is_of_exactly_one_kind(targets: list[Target]) -> None:
    assert [kind_of(target.destination) for target in targets] == list(KINDS)
    for target in targets:
        of_its_type = kinds_of(target.destination.type_in_file)
        assert [kind for kind in of_its_type if kind.takes(target.destination)] == [kind_of(target.destination)]


@pytest.mark.parametrize("name", DESTINATION_TYPES)
def test_a_row_names_the_section_of_its_type_its_kinds_and_what_finds_its_targets(name: str) -> None:
    row = DESTINATION_TYPES[name]
    assert get_args(sections()[name].model_fields["type"].annotation) == (name,)
    assert kinds_of(name)
    assert iscoroutinefunction(resolve_name(row.finder))


@EVERY_KIND
def test_a_work_says_where_it_goes_and_is_a_value_that_a_plan_can_carry(kind: Kind, targets: list[Target]) -> None:
    target = target_of(kind, targets)
    work = kind.work(target, writer="host-1")
    assert work == kind.work(target, writer="host-1") == pickle.loads(pickle.dumps(work))
    assert work.destination == target.destination.label
    assert work.cluster_name == ("west" if target.is_topic else "")


@EVERY_KIND
def test_a_work_takes_its_orders_and_stays_what_it_is(kind: Kind, targets: list[Target]) -> None:
    hand_off = ProducerHandOff(identity=ProducerIdentity(producer_id=5, producer_epoch=1))
    orders = Orders(last_position=7, needs_tail_check=False, hand_off=hand_off, read_end_offset=9)
    before = kind.work(target_of(kind, targets), writer="host-1")
    after = before.with_orders(orders)
    assert type(after) is type(before)
    assert after != before, "whatever it is, it wants to know something of its last lease"
    assert after.with_orders(orders) == after
    assert before == kind.work(target_of(kind, targets), writer="host-1"), "the one before is not altered"


@EVERY_KIND
def test_what_is_live_has_no_flush_rule_and_what_is_cut_has_one(kind: Kind, targets: list[Target]) -> None:
    target = target_of(kind, targets)
    assert kind.work(target, writer="").is_live is (kind.flush_rule(target) is None)


@EVERY_KIND
def test_workers_load_what_a_plan_needs_before_its_first_lease(kind: Kind, targets: list[Target]) -> None:
    target = target_of(kind, targets)
    modules = kind.preload(target.destination)
    assert type(kind.work(target, writer="")) is kind.work_type
    assert kind.work_type.__module__ in modules
    assert all(find_spec(module) is not None for module in modules)


@EVERY_KIND
def test_nothing_is_said_of_targets_that_are_not_there(kind: Kind) -> None:
    async def ask() -> tuple[object, object]:
        clients = WorkerCache()
        try:
            return await kind.positions({}, clients), await kind.looks({}, clients, at_once=1)
        finally:
            await clients.close()

    assert asyncio.run(ask()) == ({}, {})


@EVERY_KIND
def test_a_target_with_an_error_at_a_cluster_is_not_asked_and_an_archive_can_be(
    kind: Kind, targets: list[Target]
) -> None:
    # Nobody listens at these addresses: asking would fail, or take the time of a connection.
    target = replace(target_of(kind, targets), error=TransientError("its cluster does not answer"))

    async def ask() -> bool:
        clients = WorkerCache()
        try:
            return 4 in await kind.positions({4: target}, clients)
        finally:
            await clients.close()

    assert asyncio.run(ask()) is not target.is_topic


@EVERY_KIND
def test_offsets_that_are_gone_at_the_source_are_spoken_of(kind: Kind, targets: list[Target]) -> None:
    row = Standing(target=target_of(kind, targets), source_start=30, source_end=50, position=10)
    if kind.work(row.target, writer="").needs_whole_shard:
        assert kind.notes(row, is_new=False) == (), "progress tells it, and there is none"
    else:
        (note,) = kind.notes(row, is_new=False)
        assert "10…29" in note
    assert kind.refusal(row) is None


@EVERY_KIND
def test_nothing_is_warned_of_where_nothing_is_known(kind: Kind, targets: list[Target]) -> None:
    assert list(kind.warnings(target_of(kind, targets), Sample(), now_ms=0)) == []


@EVERY_KIND
def test_rights_are_asked_for_at_clusters_only(kind: Kind, targets: list[Target]) -> None:
    target = target_of(kind, targets)
    needed = kind.needed_rights(Standing(target=target))
    assert ("orders" in needed) is target.is_topic
    assert all("WRITE" in operations for operations in needed.values())


def test_positions_that_the_copy_tells_are_not_moved_and_it_is_said_what_to_do_instead(targets: list[Target]) -> None:
    found = {type(kind).__name__: kind.immovable(target_of(kind, targets)) for kind in KINDS}
    said = {name: (error.message, error.hint) for name, error in found.items() if error is not None}
    assert list(found)[:4] == ["PreserveKind", "MapKind", "ArchiveKind", "SnapshotKind"]
    assert list(said)[:3] == ["PreserveKind", "ArchiveKind", "SnapshotKind"]
    for name, why, remedy in (
        ("PreserveKind", "the end of destination topic orders", "kafka-topics.sh --delete --topic orders"),
        ("ArchiveKind", "the end of its newest archive file", "mirrorlake archive retain"),
        ("SnapshotKind", "the end of its newest snapshot", "mirrorlake archive ls"),
    ):
        assert why in said[name][0]
        assert remedy in said[name][1]


KINDS_OWN = {
    "destinations/preserve": {"kinds/preserve.py", "kinds/preserve_looks.py"},
    "destinations/map": {"kinds/mapped.py"},
    "destinations/archive": {"kinds/archive.py", "service/drift.py", "service/partition_state.py"},
    "destinations/snapshots": {"kinds/snapshots.py"},
}
"""Who may know the work of a kind, besides its own folder; drift watching looks after archives of both kinds."""


@pytest.mark.parametrize("folder", KINDS_OWN)
def test_the_work_of_a_kind_is_known_to_its_folder_and_its_row_alone(folder: str) -> None:
    name = f"mirrorlake.{folder.replace('/', '.')}.work"
    users = {
        str(module.relative_to(PACKAGE))
        for module in PACKAGE.rglob("*.py")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ImportFrom) and node.module == name
    }
    own = {each for each in users if each.startswith("destinations/")}
    assert own <= {"destinations/snapshots/work.py"}, "a snapshot's work is an archive's"
    assert users - own == KINDS_OWN[folder]


def test_a_kind_is_named_by_the_row_of_its_type_alone() -> None:
    names = {type(kind).__name__ for kind in KINDS}
    users = {
        (str(module.relative_to(PACKAGE)), name)
        for module in PACKAGE.rglob("*.py")
        for name in names
        if re.search(rf"(?<!class ){name}\b", module.read_text())
    }
    assert users == {("config/destinations/registry.py", name) for name in names} | {
        ("kinds/snapshots.py", "ArchiveKind")
    }


ASKED_WHOSE_IT_IS = {
    "config/assignments.py",
    "config/cross_checks.py",
    "config/destinations/same_topics.py",
    "config/resolve/mirror_v3.py",
    "config/resolve/native.py",
    "config/resolved.py",
    "config/schemas/resolving.py",
    "config/topics/heartbeats.py",
    "kinds/archive.py",
    "kinds/mapped.py",
    "kinds/preserve.py",
    "kinds/snapshots.py",
    "service/failover/turning.py",
    "service/failover/way_back.py",
    "service/taking_over/taking.py",
    "topics/finding/at_clusters.py",
    "topics/finding/in_archives.py",
    "topics/handover.py",
    "topics/targets.py",
}
"""Who looks at the class of a destination: where something is about that type and has no meaning for another one."""


def test_no_more_modules_than_now_look_at_the_class_of_a_destination() -> None:
    found = {
        str(module.relative_to(PACKAGE))
        for module in PACKAGE.rglob("*.py")
        if re.search(r"isinstance\([^()]*\b(Kafka|Archive)Destination\b", module.read_text())
    }
    assert found == ASKED_WHOSE_IT_IS


def test_dead_letters_need_rights_on_their_topic_and_where_offsets_are_kept_on_what_says_which_there_are(
    targets: list[Target],
) -> None:
    schemas = (
        load(
            'clusters: {a: {bootstrap-servers: "a:9092"}, b: {bootstrap-servers: "b:9092"}}\n'
            'registries: {e: {url: "http://e"}, w: {url: "http://w"}}\n'
            "mirrors: [{name: m, source: {cluster: a, topics: [orders]}, destinations: [{type: kafka, cluster: b}], "
            'schemas: {from: e, to: w, on-unreadable: dead-letter, dead-letters: {topic: "{topic}.dead"}}}]\n'
        )
        .mirrors[0]
        .schemas
    )
    found = {}
    for kind in KINDS:
        target = target_of(kind, targets)
        target = replace(target, mirror=replace(target.mirror, schemas=schemas))
        assert (target.letters_topic, target.letters is not None) == (
            "orders.dead" if target.is_topic else "",
            target.is_topic and not target.is_mapped,
        )
        needed = kind.needed_rights(Standing(target=target))
        name = target.mirror.name
        topics = ("orders.dead", f"mirrorlake.letter-progress.{name}")
        found[type(kind).__name__] = [each for each in topics if each in needed]
        if found[type(kind).__name__]:
            assert needed["orders.dead"] == ("READ", "WRITE")
    assert [len(each) for each in found.values()][:4] == [2, 1, 0, 0], found
