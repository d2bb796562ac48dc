"""Settings that stand once: defaults of the file and of groups, and overlays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.configuration_page import INTRODUCTION
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.resolve.sharing import lay_over
from mirrorlake.config.resolved import Configuration, RecreationPolicy, TruncationPolicy
from mirrorlake.config.sources.source import KafkaSource
from unit.config.config_texts import CLUSTERS, load, refusals, v3

SHARED = """
defaults:
  source: {cluster: east, exclude: ["/.*-tmp/"]}
  destinations: [{type: kafka, cluster: west, topic: "dr.{topic}"}]
  on-truncation: skip
mirrors:
  - {name: orders, source: {topics: [orders]}}
  - name: audit
    source: {topics: [audit], exclude: []}
    on-truncation: park
groups:
  - name: shop
    defaults: {on-recreate: restart, destinations: [{type: kafka, cluster: west, topic: "shop.{topic}"}]}
    mirrors:
      - {name: carts, source: {topics: [carts]}}
      - {name: stock, source: {topics: [stock]}, on-recreate: new-topic}
  - name: off
    enabled: false
    mirrors:
      - {name: old, source: {topics: [old]}}
      - {name: kept, source: {topics: [kept]}, enabled: true}
"""


def shared() -> Configuration:
    return load(CLUSTERS + SHARED)


def topic_of(configuration: Configuration, name: str) -> str:
    destination = next(each for each in configuration.mirrors if each.name == name).destinations[0]
    assert isinstance(destination, KafkaDestination)
    return destination.name_for("t")


def test_mirrors_of_the_file_and_of_its_groups_are_all_there_in_order() -> None:
    assert [mirror.name for mirror in shared().mirrors] == ["orders", "audit", "carts", "stock", "old", "kept"]


def test_a_mapping_is_merged_key_by_key_and_a_list_is_replaced() -> None:
    orders, audit = shared().mirrors[:2]
    assert isinstance(orders.source, KafkaSource)
    assert isinstance(audit.source, KafkaSource)
    assert (orders.source.cluster.settings.name, audit.source.cluster.settings.name) == ("east", "east")
    assert [orders.source.topics.excluded_patterns, audit.source.topics.excluded_patterns] == [(".*-tmp",), ()]


def test_a_mirror_wins_over_its_group_and_a_group_over_the_file() -> None:
    configuration = shared()
    by_name = {mirror.name: mirror for mirror in configuration.mirrors}
    assert by_name["orders"].on_truncation is TruncationPolicy.SKIP
    assert by_name["audit"].on_truncation is TruncationPolicy.PARK
    assert by_name["carts"].on_recreate is RecreationPolicy.RESTART
    assert by_name["stock"].on_recreate is RecreationPolicy.NEW_TOPIC
    assert by_name["stock"].on_truncation is TruncationPolicy.SKIP
    assert by_name["old"].on_recreate is RecreationPolicy.PARK
    assert [topic_of(configuration, name) for name in ("orders", "carts", "kept")] == ["dr.t", "shop.t", "dr.t"]


def test_a_mirror_of_a_disabled_group_runs_only_where_it_says_so_itself() -> None:
    assert [mirror.name for mirror in shared().enabled_mirrors] == ["orders", "audit", "carts", "stock", "kept"]


def test_a_file_may_hold_groups_alone() -> None:
    text = CLUSTERS + SHARED
    begin, end = text.index("mirrors:"), text.index("groups:")
    assert [mirror.name for mirror in load(text[:begin] + text[end:]).mirrors] == ["carts", "stock", "old", "kept"]


def test_what_is_wrong_with_a_default_is_said_once_where_it_stands() -> None:
    text = CLUSTERS + SHARED.replace("on-truncation: skip", "on-truncation: jump")
    line = text[: text.index("on-truncation: jump")].count("\n") + 1
    assert refusals(text) == [f"{line}: defaults.on-truncation: expected park or skip, found `jump`"]


def test_what_is_wrong_with_a_groups_default_names_the_group() -> None:
    text = CLUSTERS + SHARED.replace('cluster: west, topic: "shop.{topic}"', 'cluster: nowhere, topic: "shop.{topic}"')
    line = text[: text.index("nowhere")].count("\n") + 1
    place = "groups[0].defaults.destinations[0].cluster"
    assert refusals(text) == [f"{line}: {place}: there is no cluster `nowhere` (known here: east, west)"]


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ("  on-truncation: skip", "  on-truncate: skip", "defaults.on-truncate: is not a known field"),
        ("  on-truncation: skip", "  name: all", "defaults.name: cannot be shared (each mirror has a name of its own)"),
        ("    enabled: false", "    enable: false", "groups[1].enable: is not a known field"),
        ("    enabled: false", "    enabled: nein", "groups[1].enabled: expected true or false, found `nein`"),
        (
            "    enabled: false",
            "    enabled: false\n    defaults: {enabled: true}",
            "groups[1].defaults.enabled: has no meaning",
        ),
        ("{name: old, ", "{name: orders, ", "groups[1].mirrors[0].name: the name `orders` is taken"),
        ("  - name: shop", "  - name: ''", "groups[0].name: "),
        ("  - name: off", "  - name: shop", "groups[1].name: the name `shop` is taken"),
    ],
)
def test_a_mistake_in_what_is_shared_is_refused(old: str, new: str, refusal: str) -> None:
    assert old in SHARED
    lines = refusals(CLUSTERS + SHARED.replace(old, new, 1))
    assert any(refusal in line for line in lines), lines


def test_a_mirror_that_lacks_what_no_default_gives_is_refused_at_its_own_place() -> None:
    text = CLUSTERS + "groups:\n  - name: g\n    mirrors:\n      - {name: m, source: {topics: [t]}}\n"
    lines = refusals(text)
    assert [line.split(": ", 1)[1] for line in lines] == [
        "groups[0].mirrors[0].destinations: is required (add `destinations:`, and below it each item behind a `- `)",
        "groups[0].mirrors[0].source.cluster: is required (add it; `mirrorlake config schema` describes it)",
    ]


OVERLAID = """
clusters:
  east: {bootstrap-servers: "localhost:9092"}
  west: {bootstrap-servers: "localhost:9192"}
defaults: {on-truncation: skip}
mirrors:
  - name: orders
    source: {cluster: east, topics: [orders]}
    destinations: [{type: kafka, cluster: west}]
overlays:
  production:
    clusters:
      east:
        bootstrap-servers: "${EAST}"
        properties: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: a, sasl.password: "${SECRET}"}
    defaults: {on-truncation: park}
    engine: {lanes: 7}
  staging:
    clusters: {east: {bootstrap-servers: "staging:9092"}}
"""


def test_the_example_of_the_page_loads_with_and_without_its_overlay() -> None:
    example = INTRODUCTION.split("```yaml")[1].split("```")[0]
    assert [mirror.on_truncation.value for mirror in load(example).mirrors] == ["skip", "park"]
    configuration = load(example, MIRRORLAKE_OVERLAY="production", EAST="e:1", WEST="w:2")
    assert [cluster.settings.bootstrap_servers for cluster in configuration.clusters] == [("e:1",), ("w:2",)]


def test_without_a_word_no_overlay_holds_and_its_variables_need_not_be_set() -> None:
    configuration = load(OVERLAID)
    assert configuration.clusters[0].settings.bootstrap_servers == ("localhost:9092",)
    assert configuration.mirrors[0].on_truncation is TruncationPolicy.SKIP


def test_the_overlay_that_is_asked_for_lies_over_the_file() -> None:
    configuration = load(OVERLAID, MIRRORLAKE_OVERLAY="production", EAST="east:9093", SECRET="s3cret")
    east, west = configuration.clusters
    assert east.settings.bootstrap_servers == ("east:9093",)
    assert east.settings.security.sasl is not None
    assert west.settings.bootstrap_servers == ("localhost:9192",)
    assert configuration.mirrors[0].on_truncation is TruncationPolicy.PARK
    assert configuration.engine.lanes == 7


def test_what_is_wrong_with_an_overlay_is_said_where_it_stands() -> None:
    lines = refusals(OVERLAID, MIRRORLAKE_OVERLAY="production", SECRET="s3cret")
    line = OVERLAID[: OVERLAID.index('"${EAST}"')].count("\n") + 1
    assert len(lines) == 1
    place = "overlays.production.clusters.east.bootstrap-servers"
    assert lines[0].startswith(f"{line}: {place}: the environment variable EAST is not set")
    lines = refusals(
        OVERLAID.replace("lanes: 7", "lanes: none"), MIRRORLAKE_OVERLAY="production", EAST="e:1", SECRET="x"
    )
    assert [line.split(": ", 1)[1] for line in lines] == [
        "overlays.production.engine.lanes: expected a whole number, found `none` "
        "(write digits alone, without quotes, unit or point)"
    ]


def test_an_overlay_that_is_not_there_is_refused() -> None:
    lines = refusals(OVERLAID, MIRRORLAKE_OVERLAY="productoin")
    assert [line.split(": ", 1)[1] for line in lines] == [
        "overlays: there is no overlay `productoin`, which MIRRORLAKE_OVERLAY asks for (did you mean `production`?)"
    ]


def test_mirror_v3s_form_has_no_overlays() -> None:
    text = v3(
        "{type: kafka, bootstrap-servers: w}", "- {name: m, source: {bootstrap-servers: e}, topic: t, partition: 0}"
    )
    assert "which has no overlays" in refusals(text, MIRRORLAKE_OVERLAY="production")[0]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


def leaves(tree: Tree, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Tree]:
    """Returns everything that is no mapping with keys, by its path."""
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    return {each: value for key in tree for each, value in leaves(tree[key], (*path, key)).items()}


@given(under=MAPPINGS, over=MAPPINGS)
def test_all_of_an_overlay_holds_and_of_the_file_what_it_leaves_alone(
    under: dict[str, Tree], over: dict[str, Tree]
) -> None:
    document = Document(file="f", tree={**under, "overlays": {"o": over}})
    lay_over(document, "o")
    assert isinstance(document.tree, dict)
    document.tree.pop("overlays")
    merged = leaves(document.tree)
    for path, value in leaves(over).items():
        if value != {} and path:
            assert merged[path] == value
    for path, value in merged.items():
        if path:
            assert (leaves(over).get(path, under) == value) or leaves(under).get(path, over) == value
    assert not document.problems.found
