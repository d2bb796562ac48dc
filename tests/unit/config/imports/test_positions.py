"""Where the other programs store their positions, by their files; and positions as part of what is written."""

import json

import pytest

from mirrorlake.config.imports.draft import Former
from mirrorlake.config.imports.reading import Program, read_draft, rendered
from mirrorlake.config.loading import parse_configuration
from mirrorlake.offsets import StartKind

FLOW = "clusters = oslo, rome\noslo.bootstrap.servers = o:1\nrome.bootstrap.servers = r:1\noslo->rome.enabled = true\n"


def former(text: str, program: Program = Program.MM2) -> Former:
    (mirror,) = read_draft(text.encode(), program).mirrors
    assert mirror.former is not None
    return mirror.former


def test_mirror_maker_stores_at_the_target_under_the_sources_alias() -> None:
    found = former(FLOW)

    assert (found.offsets_topic, found.group, found.cluster) == ("mm2-offsets.oslo.internal", "oslo-mm2", "oslo")
    assert (found.connector, found.next_minus_stored, found.keeps_partitions) == (None, 1, True)
    assert not found.begins_latest


@pytest.mark.parametrize(
    ("lines", "topic", "group"),
    [
        ("rome.offset.storage.topic = own\nrome.group.id = g", "own", "g"),
        ("oslo.offset.storage.topic = other\noslo.group.id = g", "mm2-offsets.oslo.internal", "oslo-mm2"),
        ("rome.offset.storage.topic = own\noffset.storage.topic = all", "all", "oslo-mm2"),
        ("offset.storage.topic = all\noslo->rome.offsets.storage.topic = flow", "flow", "oslo-mm2"),
        ("offset.storage.topic = ${file:/x:y}", "", "oslo-mm2"),
    ],
)
def test_mirror_makers_file_may_name_topic_and_group(lines: str, topic: str, group: str) -> None:
    found = former(FLOW + lines)

    assert (found.offsets_topic, found.group) == (topic, group)


@pytest.mark.parametrize(
    "key",
    [
        "consumer.auto.offset.reset",
        "oslo.consumer.auto.offset.reset",
        "oslo->rome.consumer.auto.offset.reset",
        "oslo->rome.source.consumer.auto.offset.reset",
    ],
)
def test_a_flow_may_begin_at_the_end_of_its_source(key: str) -> None:
    assert former(f"{FLOW}{key} = latest\n").begins_latest
    assert not former(f"{FLOW}{key} = earliest\n").begins_latest
    assert not former(f"{FLOW}rome.consumer.auto.offset.reset = latest\n").begins_latest


def test_mirus_stores_under_the_connectors_name_and_its_file_need_not_say_where() -> None:
    found = former(json.dumps({"name": "a b", "topics.whitelist": "x"}), Program.MIRUS)

    assert (found.connector, found.cluster, found.next_minus_stored) == ("a b", None, 0)
    assert (found.offsets_topic, found.group, found.keeps_partitions, found.begins_latest) == ("", "", False, False)


def test_mirus_settings_that_matter_to_positions() -> None:
    lines = {
        "name": "n",
        "topics.whitelist": "x",
        "enable.partition.matching": "true",
        "consumer.auto.offset.reset": "LATEST",
        "offset.storage.topic": "offsets",
        "group.id": "workers",
    }
    found = former("".join(f"{key} = {value}\n" for key, value in lines.items()), Program.MIRUS)

    assert (found.offsets_topic, found.group, found.keeps_partitions, found.begins_latest) == (
        "offsets",
        "workers",
        True,
        True,
    )


def test_offsets_that_were_taken_become_the_start_and_their_topics_are_named() -> None:
    draft = read_draft((FLOW + "oslo->rome.topics = orders.*, users\n").encode(), Program.MM2)
    (mirror,) = draft.mirrors
    mirror.start_offsets = {"users": {0: 7}, "orders-2024": {1: 30, 0: 25}, "null": {0: 0}}

    result = rendered(draft, Program.MM2, file="mm2.properties", problems=["one thing"])

    assert result.problems == ("one thing",)
    assert result.text.endswith("# To be mended: one thing\n")
    (found,) = parse_configuration(result.text.encode(), file="mirror.yaml", environ={}).mirrors
    assert found.source.start.kind is StartKind.OFFSETS
    assert found.source.start.offsets == {"users": {0: 7}, "orders-2024": {0: 25, 1: 30}, "null": {0: 0}}
    assert found.source.topics.selects("orders-other")
    assert found.source.topics.names == ("users", "orders-2024", "null")
