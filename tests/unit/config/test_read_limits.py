"""A cluster's limit is divided among the mirrors that read it, and never passed by them together."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.read_limits import limits_of, shares
from mirrorlake.config.resolved import Configuration
from mirrorlake.service.failover.way_back import turned
from mirrorlake.topics.restoring import RestoreOptions, restore_configuration


def configuration(cluster_limit: str, *mirrors: str) -> Configuration:
    text = f"""
clusters:
  east: {{bootstrap-servers: "east:9092"{cluster_limit}}}
  west: {{bootstrap-servers: "west:9092"}}
stores: {{lake: {{type: filesystem, root: /lake}}}}
mirrors:
"""
    return parse_configuration((text + "\n".join(mirrors)).encode(), file="m.yaml", environ={})


def mirror(name: str, more: str = "", source: str = "cluster: east") -> str:
    return (
        f"- {{name: {name}, source: {{{source}, topics: [{name}]}}, "
        f'destinations: [{{type: kafka, cluster: west, topic: "copy.{{topic}}", offsets: map}}]{more}}}'
    )


LIMIT = ", limit: {bytes-per-second: 300}"


@pytest.mark.parametrize(
    ("limit", "wanted", "granted"),
    [
        (300, {"a": None}, {"a": 300}),
        (300, {"a": None, "b": None, "c": None}, {"a": 100, "b": 100, "c": 100}),
        (300, {"a": 40, "b": None, "c": None}, {"a": 40, "b": 130, "c": 130}),
        (300, {"a": None, "b": 500}, {"a": 150, "b": 150}),
        (300, {"a": 10, "b": 20}, {"a": 10, "b": 20}),
        (2, {"a": None, "b": None, "c": None}, {"a": 1, "b": 1, "c": 1}),
    ],
)
def test_each_has_an_equal_share_and_what_one_does_not_want_goes_to_the_others(
    limit: int, wanted: dict[str, int | None], granted: dict[str, int]
) -> None:
    assert shares(limit, wanted) == granted


@given(
    st.integers(100, 10**12),
    st.dictionaries(st.text("abc", min_size=1), st.none() | st.integers(1, 10**12), min_size=1, max_size=50),
)
def test_together_they_have_the_limit_and_never_more_and_nobody_more_than_it_wants(
    limit: int, wanted: dict[str, int | None]
) -> None:
    granted = shares(limit, wanted)

    assert sum(granted.values()) <= limit
    assert all(granted[name] <= most for name, most in wanted.items() if most is not None)
    if any(most is None for most in wanted.values()):
        assert sum(granted.values()) > limit - len(wanted), "only what does not divide is left"
    largest = max(granted.values())
    assert all(granted[name] in (wanted[name], largest, largest - 1) for name in wanted)


def test_a_limit_of_a_cluster_is_of_all_enabled_mirrors_that_read_it() -> None:
    config = configuration(
        LIMIT,
        mirror("a", ", limit: {bytes-per-second: 50}"),
        mirror("b"),
        mirror("c", ", limit: {bytes-per-second: 900}"),
        mirror("off", ", enabled: false"),
        mirror("back", source="cluster: west").replace("cluster: west, topic:", "cluster: east, topic:"),
        mirror("restored", source="store: lake"),
    )

    assert limits_of(config) == {"a": 50, "b": 125, "c": 125}


def test_without_one_mirrors_have_their_own() -> None:
    config = configuration("", mirror("a", ", limit: {bytes-per-second: 50}"), mirror("b"))

    assert limits_of(config) == {"a": 50}


def test_what_is_written_to_a_cluster_is_not_under_its_limit_and_a_restore_has_none() -> None:
    config = configuration(
        LIMIT, mirror("restored", source="store: lake").replace("cluster: west, topic:", "cluster: east, topic:")
    )
    assert limits_of(config) == {}
    restore = restore_configuration(config, RestoreOptions(store="lake", topics="orders", to="east"))
    assert restore.clusters[0].read_bytes_per_second == 300
    assert limits_of(restore) == {}
    held = configuration(LIMIT, mirror("m", ", limit: {bytes-per-second: 7}", source="store: lake"))
    assert limits_of(held) == {"m": 7}, "what a restore is written as, to hold it back"


def test_a_way_back_has_the_limit_of_its_mirror_and_shares_that_of_the_cluster_that_was_copied_to() -> None:
    def written(name: str, more: str = "") -> str:
        to = "destinations: [{type: kafka, cluster: east}]"
        return f"- {{name: {name}, source: {{cluster: west, topics: [{name}]}}, {to}{more}}}"

    config = configuration(LIMIT, written("a", ", limit: {bytes-per-second: 20}"), written("b"), written("c"))
    assert limits_of(config) == {"a": 20}
    back = tuple(turned(each, [each.name]) for each in config.mirrors)
    assert limits_of(replace(config, mirrors=back)) == {"a-back": 20, "b-back": 140, "c-back": 140}
    assert limits_of(replace(config, mirrors=back[1:2])) == {"b-back": 300}, "of those that are meant"
