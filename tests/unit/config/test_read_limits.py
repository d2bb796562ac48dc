"""A cluster's limit is divided among the mirrors that read it, and never passed by them together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.read_limits import limits_of, shares
from mirrorlake.config.resolved import Configuration


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
