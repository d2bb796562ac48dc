"""When and how `run` keeps archives small: what is read, and what is refused."""

import pytest

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.resolved import Configuration
from mirrorlake.schedule import Schedule


def read(settings: str, *, engine: str = "{}", more: str = "") -> Configuration:
    text = f"""
clusters: {{east: {{bootstrap-servers: "east:9092"}}}}
stores: {{lake: {{type: filesystem, root: /lake}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: archive, store: lake, {settings}}}]
    {more}
engine: {engine}
"""
    return parse_configuration(text.encode(), file="mirror.yaml", environ={})


def archive(settings: str) -> ArchiveDestination:
    destination = read(settings).mirrors[0].destinations[0]
    assert isinstance(destination, ArchiveDestination)
    return destination


def test_moments_and_intervals_are_read_and_retention_comes_before_merging() -> None:
    found = archive('merge: {at: "*/15 * * * *"}, retain: {every: 1h, max-age: 90d}').schedules
    assert list(found.items()) == [
        ("retain", Schedule(every_seconds=3600.0)),
        ("merge", Schedule(cron="*/15 * * * *")),
    ]


def test_without_a_moment_nothing_is_done_by_itself() -> None:
    assert not archive("merge: {}, retain: {max-age: 90d}").schedules
    assert not read("merge: {}").keeps_schedules
    assert read("merge: {every: 1m}").keeps_schedules
    assert not read("merge: {every: 1m}", more="enabled: false").keeps_schedules


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('merge: {at: "61 * * * *"}', "is no cron expression: bad minute"),
        ('merge: {at: "@daily"}', "minute, hour, day of the month"),
        ("merge: {at: 15}", "expected text, found the number 15"),
        ('merge: {at: "* * * * *", every: 1m}', "has no meaning beside `at`"),
        ('retain: {at: "* * * * *", every: 1m, max-age: 1d}', "has no meaning beside `at`"),
        ("format: ndjson, merge: {compression: zstd-3}", "has no meaning with `format: ndjson`"),
        ("merge: {compression: gzip}", "merge.compression"),
        ("merge: {every: 500ms}", "from 1s to 366d"),
        ("merge: {every: 15}", "a unit is missing"),
        ("retain: {every: 1h}", "has no bound"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(settings: str, said: str) -> None:
    with pytest.raises(ConfigurationErrors) as caught:
        read(settings)
    assert said in str(caught.value)


def test_what_is_merged_is_compressed_as_it_says_or_else_as_the_destination_does() -> None:
    assert archive("compression: lz4, merge: {compression: zstd-3}").kept_compression == "zstd-3"
    assert archive("compression: lz4, merge: {compression: zstd-3}").compression == "lz4"
    assert archive("compression: lz4, merge: {}").kept_compression == "lz4"
    assert archive("compression: lz4").kept_compression == "lz4"


def test_merging_by_a_schedule_needs_a_slot_that_is_not_a_lanes() -> None:
    with pytest.raises(ConfigurationErrors, match=r"`engine\.batch-slots` is 0"):
        read("merge: {every: 1h}", engine="{batch-slots: 0}")
    assert read("merge: {}, retain: {every: 1h, max-age: 1d}", engine="{batch-slots: 0}").engine.batch_slots == 0
    assert read("merge: {every: 1h}").engine.batch_slots == 1
