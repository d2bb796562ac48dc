"""When heartbeats of a mirror are written by this process, and when not."""

from dataclasses import replace

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.heartbeats.wanted import heartbeats_wanted
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Pauses, Selection
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state

CONFIG = parse_configuration(
    b"clusters:\n  east: {bootstrap-servers: 'e:1'}\n  west: {bootstrap-servers: 'w:1'}\n"
    b"  north: {bootstrap-servers: 'n:1'}\n"
    b"stores: {lake: {type: filesystem, root: /lake}}\n"
    b"mirrors:\n"
    b"- {name: m, source: {cluster: east, topics: [t]}, heartbeats: {topic: beats}, destinations: "
    b"[{type: kafka, cluster: west}, {type: kafka, cluster: north}]}\n"
    b"- {name: a, source: {cluster: east, topics: [t]}, heartbeats: {topic: beats}, destinations: "
    b"[{type: archive, store: lake}]}\n",
    file="c.yaml",
    environ={},
)
TO_CLUSTERS, TO_LAKE = CONFIG.mirrors
NO_PAUSES = Pauses()


def beats_state(*, ended: bool = False) -> PartitionState:
    state = replace(kafka_state(0), source=TopicPartition("beats", 0), position=5)
    state.bounds = Bounds(start=0, end=9, limit=5) if ended else Bounds(start=0, end=9)
    return state


@pytest.mark.parametrize(("lacking", "wanted"), [(set(), True), ({"west"}, True), ({"west", "north"}, False)])
def test_the_owner_at_any_of_its_clusters_writes_them(lacking: set[str], wanted: bool) -> None:
    found = heartbeats_wanted(TO_CLUSTERS, [], NO_PAUSES, lacks=lambda _, cluster: cluster in lacking)
    assert found is wanted


def test_a_mirror_to_archives_is_anybodys() -> None:
    assert heartbeats_wanted(TO_LAKE, [], NO_PAUSES, lacks=lambda *_: True)


@pytest.mark.parametrize(
    ("paused", "wanted"),
    [
        (Selection(mirror="m"), False),
        (Selection(mirror="m", topic="beats"), False),
        (Selection(mirror="m", topic="t"), True),
        (Selection(mirror="a"), True),
    ],
)
def test_a_paused_mirror_has_none(paused: Selection, wanted: bool) -> None:
    pauses = NO_PAUSES.with_rule(paused, is_paused=True)
    assert heartbeats_wanted(TO_CLUSTERS, [], pauses, lacks=lambda *_: False) is wanted


def test_there_are_none_any_more_when_every_copy_of_them_has_reached_its_end() -> None:
    def wanted(*states: PartitionState) -> bool:
        return heartbeats_wanted(TO_CLUSTERS, states, NO_PAUSES, lacks=lambda *_: False)

    assert wanted(beats_state(ended=True), beats_state())
    assert not wanted(beats_state(ended=True), beats_state(ended=True))
    assert wanted(kafka_state(0))
