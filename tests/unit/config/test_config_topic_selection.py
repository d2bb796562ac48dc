import pytest

from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.config.values.names import topic_flaw


def test_a_name_selects_itself_only() -> None:
    selection = TopicSelection(names=("orders",))
    assert selection.selects("orders")
    assert not selection.selects("orders-2")
    assert not selection.needs_discovery


def test_an_expression_matches_the_whole_name() -> None:
    selection = TopicSelection(patterns=("pay.*s",))
    assert selection.selects("payments")
    assert not selection.selects("payments-2")
    assert not selection.selects("prepayments")
    assert selection.needs_discovery


def test_exclusion_wins_over_selection() -> None:
    selection = TopicSelection(patterns=(".*",), excluded_names=("a",), excluded_patterns=(".*-tmp",))
    assert [t for t in ("a", "a2", "b-tmp", "b-tmp-2") if selection.selects(t)] == ["a2", "b-tmp-2"]


@pytest.mark.parametrize(
    "name", ["mirrorlake.state", "mirrorlake.progress.a", "mirrorlake.offset-map.a", "mirrorlake.letter-progress.a"]
)
def test_mirrorlakes_own_topics_are_never_selected_and_refused_when_named(name: str) -> None:
    assert not TopicSelection(patterns=(".*",), names=(name,)).selects(name)
    assert "own topics" in topic_flaw(name)


def test_topics_that_only_look_like_mirrorlakes_own_are_selected() -> None:
    selection = TopicSelection(patterns=(".*",))
    assert [n for n in ("mirrorlake.states", "mirrorlake.progress", "mirrorlake") if selection.selects(n)] == [
        "mirrorlake.states",
        "mirrorlake.progress",
        "mirrorlake",
    ]


def test_internal_topics_are_never_selected() -> None:
    selection = TopicSelection(patterns=(".*",))
    assert not selection.selects("__consumer_offsets")
    assert selection.selects("_schemas")
