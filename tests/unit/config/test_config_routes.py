"""`route` of a destination: which destinations it becomes, and where it is refused."""

import pickle

import pytest

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.filters.branch import Branch, parse_route
from unit.config.config_texts import load, messages, native

TO = "CAST(headers['type'] AS STRING)"
TOPICS = "[paid, open]"


def route(topics: str = TOPICS, *, to: str = TO, more: str = "") -> str:
    return f'route: {{to: "{to}", topics: {topics}{more}}}'


def mapped(said: str, more: str = "") -> str:
    return f"{{type: kafka, cluster: west, offsets: map, {said}{more}}}"


def archived(said: str, more: str = "") -> str:
    return f"{{type: archive, store: lake, {said}{more}}}"


def routing(*destinations: str, topics: str = "[orders]", more: str = "") -> str:
    return native(f"""
        - name: orders
          source: {{cluster: east, topics: {topics}}}
          {more}
          destinations: [{", ".join(destinations)}]
        """)


def test_a_route_is_a_destination_for_each_topic_named_after_it_and_all_else_is_as_said_once() -> None:
    (mirror,) = load(routing(mapped(route(), ", timestamp-mode: destination"), archived(route()))).mirrors
    kafka, archives = mirror.destinations[:2], mirror.destinations[2:]
    assert [each.label for each in mirror.destinations] == ["west/paid", "west/open", "lake/paid", "lake/open"]
    assert [each.name_for("orders") for each in mirror.destinations] == ["paid", "open", "paid", "open"]
    for each in kafka:
        assert isinstance(each, KafkaDestination)
        assert each.timestamp_mode.value == "destination"
    assert all(isinstance(each, ArchiveDestination) for each in archives)
    assert [each.branch for each in kafka] == [
        Branch(to=parse_route(TO), topics=("paid", "open"), topic=topic) for topic in ("paid", "open")
    ]
    assert pickle.loads(pickle.dumps(mirror)) == mirror


def test_a_topic_more_gives_the_others_no_other_name() -> None:
    for topics, labels in (("[a]", ["west/a"]), ("[a, b]", ["west/a", "west/b"])):
        (mirror,) = load(routing(mapped(route(topics)))).mirrors
        assert [each.label for each in mirror.destinations] == labels


@pytest.mark.parametrize(
    ("said", "fallback", "parks"),
    [
        ("", "", True),
        (", otherwise: park", "", True),
        (", otherwise: leave-out", "", False),
        (", otherwise: open", "open", False),
    ],
)
def test_otherwise_is_a_word_or_a_topic(said: str, fallback: str, parks: bool) -> None:
    for each in load(routing(mapped(route(more=said)))).mirrors[0].destinations:
        assert each.branch is not None
        assert (each.branch.fallback, each.branch.parks) == (fallback, parks)


def test_a_topic_may_be_called_park_where_nothing_is_said_of_the_others() -> None:
    (each,) = load(routing(mapped(route("[park]")))).mirrors[0].destinations
    assert each.branch is not None
    assert each.branch.parks


REFUSED = [
    (mapped(route("[]")), "route.topics: names no topic"),
    (mapped(route("[paid, open, paid]")), "route.topics[2]: `paid` is listed twice"),
    (mapped(route(more=", otherwise: opne")), "route.otherwise: `opne` is not among `topics` (did you mean `open`?)"),
    (mapped(route("[park]", more=", otherwise: park")), "`park` is a word of `otherwise`, and one of `topics`"),
    (mapped(route('["a b"]')), "`a b` cannot be a topic of a route"),
    (mapped(route("[__consumer_offsets]")), "internal topics"),
    (mapped(route('["{topic}.x"]')), "cannot be a topic of a route"),
    (mapped(route(to="key")), "it is of type BINARY, and a topic's name is a STRING (write CAST(… AS STRING))"),
    (mapped(route(to="upper(CAST(key AS STRING))")), "there is no function `upper` in an expression"),
    (mapped(route(to="CAST(key AS STRING) ||")), "cannot tell a topic"),
    (mapped(route(), ", topic: other"), "destinations[0].topic: has no meaning beside `route`"),
    (archived(route(), ", name: other"), "destinations[0].name: has no meaning beside `route`"),
    (
        f"{{type: kafka, cluster: west, {route()}}}",
        "route: leaves offsets out of each topic, and with",
    ),
    (archived(route(), ", compaction: log"), "route: cannot be had with `compaction: log`"),
    (mapped(f"route: {{topics: {TOPICS}}}"), "route.to: is required"),
    (mapped(f'route: {{to: "{TO}"}}'), "route.topics: is required"),
    (mapped(route("[" + ", ".join(f"t{n}" for n in range(101)) + "]")), "has 101 topics, and may have 100"),
]


@pytest.mark.parametrize(("destination", "message"), REFUSED)
def test_what_cannot_be_a_route_is_refused_at_its_place_with_the_remedy(destination: str, message: str) -> None:
    (said,) = messages(routing(destination))
    assert message in said
    assert "mirrors[0].destinations[0]" in said
    assert said.endswith((")", "is required"))


@pytest.mark.parametrize(
    ("destinations", "more", "message"),
    [
        (
            (mapped(route()), "{type: kafka, cluster: west, offsets: map, topic: open}"),
            "",
            "writes topic open of cluster west, as does",
        ),
        ((mapped(route()), mapped(route("[open]"))), "", "writes topic open of cluster west, as does"),
        ((archived(route()), archived("name: paid")), "", "writes folder paid of store lake, as does"),
        (("{type: kafka, cluster: east, offsets: map, " + route("[orders, open]") + "}",), "", "the topic it reads"),
        ((mapped(route()),), "heartbeats: {}", "heartbeats have no topic among those of a route"),
    ],
)
def test_topics_of_a_route_are_looked_at_as_those_of_any_destination(
    destinations: tuple[str, ...], more: str, message: str
) -> None:
    (said,) = messages(routing(*destinations, more=more))
    assert message in said


def test_a_topic_that_another_mirror_copies_to_with_equal_offsets_is_refused() -> None:
    other = """
  - name: other
    source: {cluster: east, topics: [other]}
    destinations: [{type: kafka, cluster: west, topic: paid}]
"""
    (said,) = messages(routing(mapped(route())) + other)
    assert "mirror other (topic other) writes topic paid of cluster west, as does mirror orders (topic orders)" in said
    assert "mirrors[0].destinations[0].route.topics[0]" in said


def test_several_source_topics_may_share_topics_with_mapped_offsets_as_ever_and_no_folders() -> None:
    assert load(routing(mapped(route()), topics="[orders, bills]")).mirrors
    assert load(routing(mapped(route()), topics='["/orders-.*/"]')).mirrors
    for topics in ("[orders, bills]", '["/orders-.*/"]'):
        (said,) = messages(routing(archived(route()), topics=topics))
        assert "the route to archives takes one source topic, and mirror orders has more" in said


def test_an_expression_from_a_variable_is_not_repeated_in_a_refusal() -> None:
    (said,) = messages(routing(mapped(route(to="${TO}"))), TO="upper('hush')")
    assert "hush" not in said
    assert "${TO}" in said


def test_a_mirror_has_no_two_destinations_with_mapped_offsets_to_one_topic() -> None:
    plain = "{type: kafka, cluster: west, offsets: map}"
    (said,) = messages(routing(plain, plain))
    assert "writes topic orders of cluster west, as does mirror orders" in said
    (said,) = messages(routing(plain, plain, topics='["/orders-.*/"]'))
    assert "mirror orders copies to topic {topic} of cluster west twice" in said
