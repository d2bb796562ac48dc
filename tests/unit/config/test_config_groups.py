"""`groups` of a destination: which groups, how often, and what is refused."""

import pytest

from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.topics.selection import NameSelection

FILE = """
clusters: {{east: {{bootstrap-servers: "localhost:9092"}}, west: {{bootstrap-servers: "localhost:9093"}}}}
stores: {{lake: {{type: filesystem, root: /lake}}, other: {{type: filesystem, root: /other}}}}
mirrors:
  - name: m
    source: {source}
    destinations: [{{{kind}, groups: {groups}}}]
"""
CLUSTER = "{cluster: east, topics: [orders]}"
KINDS = {"archive": "type: archive, store: lake", "kafka": "type: kafka, cluster: west"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return KINDS[request.param]


def groups_of(kind: str, groups: str, source: str = CLUSTER) -> GroupSettings | None:
    text = FILE.format(kind=kind, groups=groups, source=source)
    (mirror,) = parse_configuration(text.encode(), file="m.yaml", environ={}).mirrors
    (found,) = [each.groups for each in mirror.kafka_destinations] + [e.groups for e in mirror.archive_destinations]
    return found


def refusal(kind: str, groups: str, source: str = CLUSTER) -> str:
    with pytest.raises(ConfigurationErrors) as refused:
        groups_of(kind, groups, source)
    return str(refused.value)


def test_groups_are_named_or_matched_whole_and_looked_at_every_minute(kind: str) -> None:
    found = groups_of(kind, '{include: [billing, "/app-.*/"], exclude: ["/.*-test/", app-odd]}')
    assert found == GroupSettings(
        selection=NameSelection(
            names=("billing",), patterns=("app-.*",), excluded_names=("app-odd",), excluded_patterns=(".*-test",)
        ),
        interval_seconds=60.0,
    )
    selects = found.selection.selects
    chosen = [g for g in ("billing", "billing2", "app-1", "app-1-test", "app-odd", "my-app-1") if selects(g)]
    assert chosen == ["billing", "app-1"]


def test_a_group_may_have_any_name(kind: str) -> None:
    found = groups_of(kind, '{include: ["connect sink, größer", "__x"], interval: 5s}')
    assert found is not None
    assert found.selection.names == ("connect sink, größer", "__x")
    assert found.interval_seconds == 5.0


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("{}", "include"),
        ("{include: []}", "names no group"),
        ('{include: ["/(/"]}', "is not a regular expression"),
        ('{include: ["/half"]}', "is neither a group nor an expression"),
        ("{include: [a], interval: 500ms}", "interval"),
        ("{include: [a], only-idle: true}", "only-idle"),
        ("[a]", "groups"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind: str, groups: str, said: str) -> None:
    assert said in refusal(kind, groups)


def test_an_archive_as_source_has_no_groups(kind: str) -> None:
    assert "groups are a cluster's" in refusal(kind, "{include: [a]}", "{store: other, topics: [orders]}")
