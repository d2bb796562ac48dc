from mirrorlake.config.resolved import TopicSelection


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


def test_internal_topics_are_never_selected() -> None:
    selection = TopicSelection(patterns=(".*",))
    assert not selection.selects("__consumer_offsets")
    assert selection.selects("_schemas")
