"""What `plan` says of a topic whose retention has its brokers delete what is brought back from an archive."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import read_plan
from support.archived_source import archive, held_records, settings_at
from support.copies import create_topic
from support.records import build_batch, simple_records

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
YEAR_2023_MS = 1_700_000_000_000
"""2023-11-14, and so is the last record's time."""
NOW_MS = int(time.time() * 1000)
WEEK = {"retention.ms": str(7 * DAY_MS), "retention.bytes": "-1"}
FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
MAKE = "make the topic yourself before, with a larger {}, or -1 for no limit"
AGES = (
    "retention.ms is 7 d: the brokers delete what is older as soon as it is copied, and the archive's records are of "
)


def day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(milliseconds / 1000))


def plan(
    folder: Path,
    servers: str,
    topic: str,
    configs: Mapping[str, str],
    *times: int,
    destination: str = "",
    size: int = 9,
) -> tuple[str, ...]:
    """Archives a record of each time, whose topic had these settings; returns what the plan says of retention."""
    records = [build_batch(simple_records(1, timestamp=each, size=size)) for each in times]
    (folder / "lake").mkdir()
    archive(
        settings_at(folder / "lake"),
        TopicPartition(topic, 0),
        held_records(enumerate(records)),
        [1, len(records)] if len(records) > 1 else [1],
        form="log",
        configs=dict(configs),
    )
    text = f"""
clusters: {{west: {{bootstrap-servers: "{servers}"}}}}
stores: {{lake: {{type: filesystem, root: "{folder / "lake"}"}}}}
mirrors:
  - name: {topic}
    source: {{store: lake, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west{destination}}}]
"""
    (row,) = asyncio.run(read_plan(parse_configuration(text.encode(), file="mirror.yaml", environ={})))
    assert row.error is None
    said = (each.removeprefix(f"west/{topic}: ") for each in row.warnings)
    return tuple(each for each in said if each.startswith("retention."))


@pytest.mark.parametrize("offsets", ["preserve", "map"])
@pytest.mark.parametrize(
    ("configs", "times", "expected"),
    [
        (WEEK, (YEAR_2023_MS, YEAR_2023_MS + 1), f"{AGES}2023-11-14 to 2023-11-14: all of them; "),
        (WEEK, (YEAR_2023_MS, NOW_MS), f"{AGES}2023-11-14 to {day(NOW_MS)}: those before "),
        (WEEK, (NOW_MS, YEAR_2023_MS), f"{AGES}2023-11-14 to {day(NOW_MS)}: those before "),
        (WEEK, (NOW_MS - 6 * DAY_MS, NOW_MS), None),
        (FOR_EVER, (YEAR_2023_MS, NOW_MS), None),
        ({**WEEK, "cleanup.policy": "compact"}, (YEAR_2023_MS, NOW_MS), None),
    ],
    ids=["all is old", "the first is old", "the last is old", "all is new", "for ever", "compacted only"],
)
def test_what_the_restored_topic_would_delete_by_its_age_is_said_with_its_days(
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    configs: Mapping[str, str],
    times: tuple[int, ...],
    expected: str | None,
    offsets: str,
) -> None:
    servers = destination_kafka.bootstrap_servers
    found = plan(tmp_path, servers, topic_name, configs, *times, destination=f", offsets: {offsets}")
    if expected is None:
        assert found == ()
    else:
        (warning,) = found
        assert warning.startswith(expected)
        assert warning.endswith(MAKE.format("retention.ms"))
        if "all of them" not in expected:
            assert day(int(time.time() * 1000) - 7 * DAY_MS) in warning


def test_a_topic_that_stamps_its_own_times_deletes_nothing_for_its_age(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    stamped = ", offsets: map, timestamp-mode: destination"
    servers = destination_kafka.bootstrap_servers
    found = plan(tmp_path, servers, topic_name, WEEK, YEAR_2023_MS, destination=stamped)
    assert found == ()


def test_a_topic_that_is_there_with_less_than_the_archive_has_is_said_too(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = destination_kafka.bootstrap_servers
    create_topic(servers, topic_name, retention_ms=WEEK["retention.ms"])
    (warning,) = plan(tmp_path, servers, topic_name, FOR_EVER, YEAR_2023_MS, YEAR_2023_MS)
    assert warning.startswith(f"{AGES}2023-11-14 to 2023-11-14: all of them; give the topic a larger retention.ms")


@pytest.mark.parametrize(
    ("kept", "expected"),
    [(1000, ""), (6000, ", which may be several times as much in batches"), (2**40, None)],
)
def test_what_it_would_delete_by_its_size_is_said_with_both_sizes(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, kept: int, expected: str | None
) -> None:
    configs = {**FOR_EVER, "retention.bytes": str(kept)}
    times = (YEAR_2023_MS,) * 4
    found = plan(tmp_path, destination_kafka.bootstrap_servers, topic_name, configs, *times, size=700)
    size = sum(each.stat().st_size for each in (tmp_path / "lake" / topic_name / "0").glob("*.log"))
    assert 2000 < size < 5000
    if expected is None:
        assert found == ()
        return
    (warning,) = found
    assert warning == (
        f"retention.bytes keeps {kept:,} bytes of each partition, and the brokers delete the oldest beyond that: the "
        f"archive's files have {size:,}{expected}; {MAKE.format('retention.bytes')}"
    )
