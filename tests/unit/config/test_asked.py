"""Names on a command line: all of them are there, or the error says which are not and what there is."""

import pytest

from mirrorlake.config.asked import check_asked
from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import ConfigurationError

FILE = b"""
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"},
  far: {bootstrap-servers: "far:9092"}}
mirrors:
  - name: orders
    source: {cluster: east, topics: [orders]}
    destinations: [{type: kafka, cluster: west}]
  - name: sleeping
    enabled: false
    source: {cluster: east, topics: [other]}
    destinations: [{type: kafka, cluster: far}]
"""
CONFIG = parse_configuration(FILE, file="m.yaml", environ={})


def test_what_is_there_is_taken_and_nothing_asked_is_everything() -> None:
    check_asked(CONFIG)
    check_asked(CONFIG, mirrors=["orders", "orders"], destinations=["west"])


@pytest.mark.parametrize(
    ("mirrors", "destinations", "said", "hint"),
    [
        (["order"], [], "there is no mirror order in m.yaml that is enabled", "there are orders"),
        (["b", "orders", "a"], [], "there is no mirror a, b in m.yaml that is enabled", "there are orders"),
        (["sleeping"], [], "there is no mirror sleeping in m.yaml that is enabled", "there are orders"),
        ([], ["far"], "there is no destination far in m.yaml that is enabled", "there are west"),
    ],
)
def test_what_is_not_there_or_not_enabled_is_named(
    mirrors: list[str], destinations: list[str], said: str, hint: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_asked(CONFIG, mirrors=mirrors, destinations=destinations)
    assert (refused.value.message, refused.value.hint) == (said, hint)
