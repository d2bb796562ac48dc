"""Of a mirror a reload takes its limit and its heartbeats, of a cluster its limit, and nothing else."""

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.read_limits import limits_of
from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import CommandRefusedError
from mirrorlake.service.reloading import CurrentConfiguration


def configuration(limit: str = "", more: str = "", name: str = "m.limit", of_east: str = "") -> Configuration:
    text = f"""
clusters: {{east: {{bootstrap-servers: "east:9092"{of_east}}}, west: {{bootstrap-servers: "west:9092"}}}}
mirrors:
  - name: {name}
    source: {{cluster: east, topics: [t]}}
    destinations: [{{type: kafka, cluster: west}}]
    {limit}
    {more}
"""
    return parse_configuration(text.encode(), file="m.yaml", environ={})


@pytest.mark.parametrize(
    ("before", "after", "bytes_per_second"),
    [
        ("", "limit: {bytes-per-second: 5MiB}", 5 * 1024**2),
        ("limit: {bytes-per-second: 5MiB}", "limit: {bytes-per-second: 1}", 1),
        ("limit: {bytes-per-second: 5MiB}", "", None),
    ],
)
def test_a_limit_is_set_changed_and_taken_away(before: str, after: str, bytes_per_second: int | None) -> None:
    current = CurrentConfiguration(configuration(before))

    assert current.take(configuration(after)) == ["mirrors.m.limit.limit"]

    assert current.configuration.mirrors[0].read_bytes_per_second == bytes_per_second
    assert limits_of(current.configuration).get("m.limit") == bytes_per_second
    assert current.take(configuration(after)) == []


@pytest.mark.parametrize(
    ("before", "after", "bytes_per_second"),
    [
        ("", ", limit: {bytes-per-second: 5MiB}", 5 * 1024**2),
        (", limit: {bytes-per-second: 5MiB}", ", limit: {bytes-per-second: 1}", 1),
        (", limit: {bytes-per-second: 5MiB}", "", None),
    ],
)
def test_a_limit_of_a_cluster_is_set_changed_and_taken_away(
    before: str, after: str, bytes_per_second: int | None
) -> None:
    current = CurrentConfiguration(configuration(of_east=before))

    assert current.take(configuration(of_east=after)) == ["clusters.east.limit"]

    assert limits_of(current.configuration).get("m.limit") == bytes_per_second
    assert current.take(configuration(of_east=after)) == []


def test_another_change_of_a_cluster_is_refused() -> None:
    current = CurrentConfiguration(configuration())
    with pytest.raises(CommandRefusedError, match=r"restart: clusters\.east, mirrors\.m\.limit \("):
        current.take(configuration(of_east=", limit: {bytes-per-second: 1}, properties: {client.id: other}"))
    assert limits_of(current.configuration) == {}, "nothing was taken"


def test_heartbeats_are_turned_on_changed_and_turned_off_with_the_topic_that_is_copied_for_them() -> None:
    current = CurrentConfiguration(configuration())
    for text, topic in (("{}", "mirrorlake.heartbeats.m.limit"), ("{topic: beats}", "beats"), ("", "")):
        after = configuration(f"heartbeats: {text}" if text else "")
        assert current.take(after) == ["mirrors.m.limit.heartbeats"]
        (mirror,) = current.configuration.mirrors
        assert mirror.heartbeats == after.mirrors[0].heartbeats
        assert mirror.source.topics.heartbeats == topic
        assert current.take(after) == []


def test_another_change_of_a_mirror_is_refused_also_of_one_that_is_called_like_a_limit() -> None:
    current = CurrentConfiguration(configuration())
    with pytest.raises(CommandRefusedError, match=r"mirrors\.m\.limit$|mirrors\.m\.limit \("):
        current.take(configuration("limit: {bytes-per-second: 1}", "on-truncation: skip"))
    assert current.configuration.mirrors[0].read_bytes_per_second is None, "nothing was taken"
