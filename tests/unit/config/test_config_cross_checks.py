import pytest

from mirrorlake.config.assignments import assignments_of, find_collisions, find_loops
from mirrorlake.config.destinations.kafka import KafkaDestination
from unit.config.config_texts import load, messages, native


def mirror(name: str, source: str, *destinations: str) -> str:
    """Returns one mirror of the native form."""
    return f"- name: {name}\n  source: {{{source}}}\n  destinations: [{', '.join(destinations)}]\n"


EAST = "cluster: east, topics: [orders]"
TO_WEST = "{type: kafka, cluster: west}"
TO_LAKE = "{type: archive, store: lake}"


def test_two_mirrors_of_one_name_are_refused_with_both_lines() -> None:
    text = native(mirror("m", EAST, TO_WEST) + mirror("m", EAST, TO_LAKE))
    assert messages(text) == ["mirrors[1].name: the name `m` is taken, on line 8 (names are unique)"]


def test_a_name_that_looks_like_another_mirrors_shard_is_refused() -> None:
    text = native(mirror("m", EAST, TO_WEST) + mirror("m.1", EAST, TO_LAKE))
    assert [line.split(" (")[0] for line in messages(text)] == [
        "mirrors[1].name: `m.1` could be taken for a shard of mirror `m`"
    ]
    assert load(native(mirror("m", EAST, TO_WEST) + mirror("m.b", EAST, TO_LAKE)))


def test_two_mirrors_into_one_topic_are_refused_with_both_places() -> None:
    text = native(mirror("a", EAST, TO_WEST) + mirror("b", EAST, TO_WEST))
    assert messages(text) == [
        "mirrors[1].destinations[0]: mirror b (topic orders) writes topic orders of cluster west, as does "
        "mirror a (topic orders) at c.yaml:10: mirrors[0].destinations[0] "
        "(give one of them another destination, or other partitions)"
    ]


def test_two_destinations_of_one_mirror_into_one_topic_are_refused() -> None:
    assert len(messages(native(mirror("a", EAST, TO_WEST, TO_WEST)))) == 1


def test_two_topics_into_one_are_refused() -> None:
    source = "cluster: east, topics: [a, b]"
    assert len(messages(native(mirror("m", source, "{type: kafka, cluster: west, topic: c}")))) == 1


def test_one_cluster_under_two_names_is_one_cluster() -> None:
    text = native(mirror("a", EAST, TO_WEST) + mirror("b", EAST, "{type: kafka, cluster: occident}"))
    aliased = text.replace("stores:", '  occident: {bootstrap-servers: "WEST:9092,west-2:9092"}\nstores:')
    assert ["writes topic orders of cluster occident" in line for line in messages(aliased)] == [True]


def test_two_mirrors_into_one_folder_are_refused() -> None:
    text = native(mirror("a", EAST, TO_LAKE) + mirror("b", "cluster: west, topics: [orders]", TO_LAKE))
    assert ["writes folder orders of store lake" in line for line in messages(text)] == [True]


def test_an_archive_inside_anothers_folder_is_refused() -> None:
    text = native(mirror("a", EAST, TO_LAKE) + mirror("b", EAST, "{type: archive, store: pond, name: '0'}"))
    nested = text.replace("mirrors:", "  pond: {type: filesystem, root: /lake/orders}\nmirrors:")
    assert ["writes folder 0 of store pond" in line for line in messages(nested)] == [True]


def test_one_root_under_two_names_is_one_store() -> None:
    text = native(mirror("a", EAST, TO_LAKE) + mirror("b", EAST, "{type: archive, store: pond}"))
    doubled = text.replace("mirrors:", "  pond: {type: filesystem, root: //lake/./}\nmirrors:")
    assert len(messages(doubled)) == 1


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("[0, 1]", "[2]", False),
        ("[0, 1]", "[1, 2]", True),
        ("all", "[7]", True),
        ("all", "all", True),
    ],
)
def test_mirrors_may_share_a_topic_by_partitions_only(first: str, second: str, clash: bool) -> None:
    text = native(
        mirror("a", f"{EAST}, partitions: {first}", TO_WEST) + mirror("b", f"{EAST}, partitions: {second}", TO_WEST)
    )
    if clash:
        assert len(messages(text)) == 1
    else:
        assert len(load(text).mirrors) == 2


def test_a_mirror_that_is_not_enabled_is_checked_all_the_same() -> None:
    text = native(mirror("a", EAST, TO_WEST) + mirror("b", EAST, TO_WEST) + "  enabled: false\n")
    assert len(messages(text)) == 1


def test_a_topic_onto_itself_is_refused() -> None:
    text = native(mirror("a", EAST, "{type: kafka, cluster: east}"))
    assert messages(text) == [
        "mirrors[0].destinations[0]: mirror a (topic orders) writes topic orders of cluster east, the topic it reads "
        "(give the destination topic another name, such as `copy-of-{topic}`)"
    ]


def test_expressions_onto_the_same_cluster_are_refused() -> None:
    text = native(mirror("a", "cluster: east, topics: ['/x.*/']", "{type: kafka, cluster: east}"))
    assert ["would write the topics it reads" in line for line in messages(text)] == [True]


def test_mirrors_in_a_circle_are_refused_once() -> None:
    text = native(
        mirror("there", EAST, TO_WEST)
        + mirror("back", "cluster: west, topics: [orders]", "{type: kafka, cluster: east}")
    )
    assert messages(text) == [
        "mirrors[1].destinations[0]: records would go round: mirror there (topic orders) to topic orders of cluster "
        "west, then mirror back (topic orders) to topic orders of cluster east, and again "
        "(give the destination topic another name, such as `copy-of-{topic}`)"
    ]


def test_two_ways_between_clusters_under_other_names_are_no_circle() -> None:
    text = native(
        mirror("there", EAST, "{type: kafka, cluster: west, topic: 'east.{topic}'}")
        + mirror("back", "cluster: west, topics: [orders]", "{type: kafka, cluster: east, topic: 'west.{topic}'}")
    )
    assert len(load(text).mirrors) == 2


def test_a_chain_of_topics_on_one_cluster_is_no_circle() -> None:
    text = native(mirror("m", "cluster: east, topics: [a, xa]", "{type: kafka, cluster: east, topic: 'x{topic}'}"))
    assert len(load(text).mirrors) == 1


def test_expressions_into_a_fixed_topic_are_refused() -> None:
    source = "cluster: east, topics: ['/x.*/']"
    text = native(
        mirror("m", source, "{type: kafka, cluster: west, topic: all}", "{type: archive, store: lake, name: b}")
    )
    assert [line.split(" (")[0] for line in messages(text)] == [
        "mirrors[0].destinations[0]: all topics an expression selects would go into one, `all`",
        "mirrors[0].destinations[1]: all topics an expression selects would go into one, `b`",
    ]


def test_start_offsets_must_fit_topics_and_partitions() -> None:
    start = "start: {offsets: {orders: {0: 5, 3: 7}, payments: {0: 1}}}"
    lines = messages(native(mirror("m", f"{EAST}, partitions: [0, 1], {start}", TO_WEST)))
    assert [line.split(" (")[0] for line in lines] == [
        "mirrors[0]: start offsets are given for partition 3, which is not mirrored",
        "mirrors[0]: start offsets are given for payments, which is not among the topics named",
        "mirrors[0].destinations[0]: `start: offsets` needs `offsets: map`, which west has not",
    ]


@pytest.mark.parametrize("start", ["latest", "{timestamp: 2026-01-31T00:00:00Z}", "{offsets: {orders: {0: 5}}}"])
def test_a_start_other_than_the_first_offset_needs_mapped_offsets_at_every_destination(start: str) -> None:
    mapped = "{type: kafka, cluster: west, offsets: map}"
    assert len(load(native(mirror("m", f"{EAST}, start: {start}", mapped))).mirrors) == 1
    lines = messages(native(mirror("m", f"{EAST}, start: {start}", mapped, TO_LAKE)))
    assert len(lines) == 1
    assert lines[0].startswith("mirrors[0].destinations[1]: an archive begins at `earliest` only, and lake is one (")
    (line,) = messages(native(mirror("m", f"{EAST}, start: {start}", TO_WEST)))
    assert line.startswith("mirrors[0].destinations[0]: `start: ")
    assert "needs `offsets: map`, which west has not" in line


def test_one_cluster_under_two_names_is_refused_for_mapped_offsets() -> None:
    both = ("{type: kafka, cluster: west, offsets: map}", "{type: kafka, cluster: alias, topic: b, offsets: map}")
    text = native(mirror("m", EAST, *both))
    west = next(line for line in text.splitlines() if line.strip().startswith("west:"))
    lines = messages(text.replace(west, f"{west}\n{west.replace('west:', 'alias:', 1)}"))
    assert [line.split(" (")[0] for line in lines] == [
        "mirrors[0].destinations[1]: clusters west and alias are one cluster, and mirror m maps offsets to both"
    ]


def test_collisions_of_discovered_topics_are_found_by_the_same_rule() -> None:
    configuration = load(
        native(
            mirror("a", "cluster: east, topics: ['/a.*/']", TO_WEST)
            + mirror("b", "cluster: east, topics: ['/.*b/']", TO_WEST, TO_LAKE)
        )
    )
    first, second = configuration.mirrors
    found = (*assignments_of(first, ["ab", "ac"]), *assignments_of(second, ["ab", "bb"]))
    collisions = find_collisions(found)
    assert [(c.first.mirror.name, c.second.mirror.name, c.second.destination_name) for c in collisions] == [
        ("a", "b", "ab")
    ]


def test_a_mirror_whose_expression_selects_what_it_writes_is_a_loop() -> None:
    configuration = load(
        native(mirror("m", "cluster: east, topics: ['/.*/']", "{type: kafka, cluster: east, topic: 'copy-{topic}'}"))
    )
    loops = find_loops(assignments_of(configuration.mirrors[0], ["a"]))
    assert [loop.message for loop in loops] == [
        "records would go round: mirror m (topic a) to topic copy-a of cluster east, and again"
    ]


def test_a_loop_through_three_clusters_is_found() -> None:
    text = native(
        mirror("one", EAST, TO_WEST)
        + mirror("two", "cluster: west, topics: [orders]", "{type: kafka, cluster: north}")
        + mirror("three", "cluster: north, topics: [orders]", "{type: kafka, cluster: east}")
    ).replace("stores:", '  north: {bootstrap-servers: "north:9092"}\nstores:')
    assert ["records would go round: mirror one" in line for line in messages(text)] == [True]


def test_restarting_a_copy_needs_a_destination_that_may_be_deleted_and_made() -> None:
    def refused(*destinations: str) -> list[str]:
        text = mirror("m", EAST, *destinations).replace("- name: m\n", "- name: m\n  on-recreate: restart\n")
        return [line.split(" (")[0].split(": ", 1)[1] for line in messages(native(text))]

    assert refused(TO_WEST, TO_LAKE) == ["`on-recreate: restart` deletes the copy, and archive lake is never deleted"]
    assert refused("{type: kafka, cluster: west, create-topics: false}") == [
        "`on-recreate: restart` makes topics, and west says `create-topics: false`"
    ]


@pytest.mark.parametrize(
    ("policy", "destination"),
    [
        ("restart", TO_WEST),
        ("restart", "{type: kafka, cluster: west, offsets: map, create-topics: false}"),
        ("new-topic", TO_WEST),
        ("new-topic", TO_LAKE),
        ("park", TO_LAKE),
    ],
)
def test_what_a_policy_needs_is_there(policy: str, destination: str) -> None:
    text = mirror("m", EAST, destination).replace("- name: m\n", f"- name: m\n  on-recreate: {policy}\n")
    assert load(native(text)).mirrors[0].on_recreate == policy


def test_mapped_mirrors_whose_own_topics_kafka_would_take_for_one_are_refused() -> None:
    mapped = "{type: kafka, cluster: west, offsets: map}"
    text = native(mirror("m.a", EAST, mapped) + mirror("m_a", "cluster: east, topics: [others]", mapped))
    (line,) = messages(text)
    assert line.startswith("mirrors[1]: mirrors m.a and m_a map offsets, or have dead letters, on one cluster")
    assert load(text.replace("offsets: map", "offsets: preserve", 1)), "the other has no topics of its own"


def test_headers_that_say_where_a_record_came_from_need_mapped_offsets() -> None:
    mapped = "{type: kafka, cluster: west, offsets: map, provenance-headers: true}"
    (found,) = load(native(mirror("m", EAST, mapped))).mirrors[0].destinations
    assert isinstance(found, KafkaDestination)
    assert found.stamps_provenance
    (line,) = messages(native(mirror("m", EAST, "{type: kafka, cluster: west, provenance-headers: true}")))
    assert line.startswith("mirrors[0].destinations[0].provenance-headers: needs `offsets: map`: ")
