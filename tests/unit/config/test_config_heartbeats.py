"""Heartbeats of a mirror: what may be said of them, what is refused, and what of the mirror does not concern them."""

import pytest

from mirrorlake.config.resolved import Heartbeats, Mirror
from unit.config.config_texts import SOMEWHERE, load, messages, native

WEST = "{type: kafka, cluster: west}"


def mirror(heartbeats: str, *, source: str = "cluster: east, topics: [orders]", to: str = WEST, more: str = "") -> str:
    return native(f"""
        - name: m
          source: {{{source}}}
          destinations: [{to}]
          heartbeats: {heartbeats}
          {more}
        """)


def first(text: str) -> Mirror:
    return load(text).mirrors[0]


def test_a_mirror_has_none_unless_it_asks_for_them() -> None:
    found = first(native("- {name: m, source: {cluster: east, topics: [t]}, destinations: [" + WEST + "]}"))
    assert found.heartbeats is None
    assert found.source.topics.known_names == ("t",)


def test_without_further_settings_each_mirror_has_a_topic_of_its_own_every_ten_seconds() -> None:
    found = first(mirror("{}"))
    assert found.heartbeats == Heartbeats(topic="mirrorlake.heartbeats.m", interval_seconds=10.0, place=SOMEWHERE)


def test_settings_and_placeholders_arrive() -> None:
    found = first(mirror("{topic: 'beats.{cluster}', interval: 1s, replication-factor: 3}"))
    wanted = Heartbeats(topic="beats.east", interval_seconds=1.0, replication_factor=3, place=SOMEWHERE)
    assert found.heartbeats == wanted


def test_their_topic_is_copied_beside_those_that_are_selected_and_is_not_one_that_must_be_there() -> None:
    topics = first(mirror("{}")).source.topics
    assert topics.names == ("orders",)
    assert topics.known_names == ("orders", "mirrorlake.heartbeats.m")
    assert topics.selects("mirrorlake.heartbeats.m")
    assert not topics.selects("mirrorlake.heartbeats.other")
    assert first(mirror("{topic: orders}")).source.topics.known_names == ("orders",)


def test_defaults_of_the_file_give_them_to_every_mirror() -> None:
    text = "defaults: {heartbeats: {interval: 2s}}\n" + native(
        f"- {{name: a, source: {{cluster: east, topics: [t]}}, destinations: [{WEST}]}}\n"
        f"- {{name: b, source: {{cluster: east, topics: [u]}}, destinations: [{WEST}]}}"
    )
    found = [each.heartbeats for each in load(text).mirrors]
    assert [(each.topic, each.interval_seconds) for each in found if each] == [
        ("mirrorlake.heartbeats.a", 2.0),
        ("mirrorlake.heartbeats.b", 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (mirror("{interval: 500ms}"), "mirrors[0].heartbeats.interval"),
        (mirror("{every: 1s}"), "mirrors[0].heartbeats.every: is not a known field"),
        (mirror("{topic: __beats}"), "mirrors[0].heartbeats: heartbeats would go to topic `__beats`"),
        (mirror("{topic: mirrorlake.state}"), "heartbeats would go to topic `mirrorlake.state`"),
        (mirror("{topic: 'x.{topic}'}"), "mirrors[0].heartbeats.topic: the placeholder {topic} is not known"),
        (
            mirror("{}", source="store: lake, topics: [orders]"),
            "mirrors[0].heartbeats: has no meaning for an archive as source",
        ),
        (
            mirror("{}", source="cluster: east, topics: ['/.*/'], exclude: ['/mirrorlake.*/']"),
            "mirrors[0].heartbeats: the mirror excludes topic mirrorlake.heartbeats.m",
        ),
        (
            mirror("{}", source="cluster: east, topics: [orders], partitions: [1, 2]"),
            "mirrors[0].heartbeats: heartbeats go to partition 0 of mirrorlake.heartbeats.m, which is not mirrored",
        ),
        (
            mirror("{}", to="{type: kafka, cluster: west, topic: all, offsets: map}"),
            "mirrors[0].heartbeats: heartbeats would be copied to `all` of west",
        ),
        (mirror("{}", to="{type: kafka, cluster: east}"), "mirror m (topic mirrorlake.heartbeats.m) writes topic"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(text: str, message: str) -> None:
    assert message in "\n".join(messages(text))


def chain(topic: str) -> str:
    """East to west to the lake; both mirrors have heartbeats in a topic of one name."""
    beats, lake = f"heartbeats: {{topic: {topic}}}", "{type: archive, store: lake}"
    return native(
        f"- {{name: a, source: {{cluster: east, topics: [t]}}, destinations: [{WEST}], {beats}}}\n"
        f"- {{name: b, source: {{cluster: west, topics: [t]}}, destinations: [{lake}], {beats}}}"
    )


def test_heartbeats_do_not_go_to_a_topic_that_another_mirror_copies_to() -> None:
    assert "\n".join(messages(chain("beats"))) == (
        "mirrors[1].heartbeats: heartbeats would go to topic beats of cluster west, which mirror a copies beats to "
        "(name another topic, such as `mirrorlake.heartbeats.{mirror}`)"
    )
    assert len(load(chain("'beats.{cluster}'")).mirrors) == 2


def test_two_mirrors_of_one_source_may_share_a_topic_unless_they_copy_it_to_one_place() -> None:
    def both(second: str) -> str:
        return native(
            f"- {{name: a, source: {{cluster: east, topics: [t]}}, destinations: [{WEST}], heartbeats: {{topic: x}}}}\n"
            f"- {{name: b, source: {{cluster: east, topics: [u]}}, destinations: [{second}], heartbeats: {{topic: x}}}}"
        )

    assert len(load(both("{type: archive, store: lake}")).mirrors) == 2
    assert "mirror b (topic x) writes topic x of cluster west" in "\n".join(messages(both(WEST)))


def test_a_filter_and_schemas_are_about_other_topics() -> None:
    found = first(mirror("{}", to="{type: kafka, cluster: west, offsets: map}", more="filter: {where: 'offset = 2'}"))
    assert found.filter is not None
    assert found.filter_of("orders") is found.filter
    assert found.filter_of("mirrorlake.heartbeats.m") is None
    text = "registries: {r: {url: 'http://r'}, s: {url: 'http://s'}}\n" + mirror(
        "{}", to="{type: kafka, cluster: west, offsets: map}", more="schemas: {from: r, to: s}"
    )
    with_schemas = first(text)
    assert with_schemas.schemas is not None
    assert with_schemas.schemas_of("orders") is with_schemas.schemas
    assert with_schemas.schemas_of("mirrorlake.heartbeats.m") is None
