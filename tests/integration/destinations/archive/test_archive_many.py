"""Many partitions due in one lease: one file written at a time, and memory that does not grow with their number."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support import archive_lease
from support.copies import archive_position
from support.header_heavy import header_heavy_batch
from support.records import produce, simple_records
from support.script_environ import SCRIPT_ENVIRON
from support.topics import make_topic

pytestmark = pytest.mark.kafka

RECORDS = 40
MIB = 1 << 20


def lease_over(source: EmbeddedKafka, topic: str, partitions: int, root: Path) -> dict[str, Any]:
    make_topic(source.bootstrap_servers, topic, *([simple_records(RECORDS)] * partitions))
    return leased(source.bootstrap_servers, topic, str(partitions), str(RECORDS), str(root))


def leased(*arguments: str) -> dict[str, Any]:
    """What leases in a process of their own found; see `archive_lease`."""
    done = subprocess.run(
        [sys.executable, archive_lease.__file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=SCRIPT_ENVIRON,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_bounded(found: dict[str, Any], partitions: int, topic: str, root: Path) -> None:
    assert (found["errors"], found["done"]) == ([], partitions - 1)
    assert [archive_position(root, topic, number) for number in range(partitions)] == [RECORDS] * partitions
    assert found["looks"] > 10
    # The segment that is written, and those being published, each with its claim while that is made.
    assert 1 <= found["staged_max"] <= 1 + 2 * 4
    assert found["open_max"] < 60
    assert found["peak_bytes"] - found["peak_bytes_before"] < 64 * MIB


def test_forty_partitions_due_at_once_take_few_files_at_a_time(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    assert_bounded(lease_over(source_kafka, topic_name, 40, tmp_path), 40, topic_name, tmp_path)


@pytest.mark.soak
def test_five_hundred_partitions_due_at_once_take_few_files_at_a_time(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    assert_bounded(lease_over(source_kafka, topic_name, 500, tmp_path), 500, topic_name, tmp_path)


@pytest.mark.parametrize("format_name", ["parquet", "ndjson"])
def test_records_of_thousands_of_empty_headers_are_archived_within_bounded_memory(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, format_name: str
) -> None:
    servers, batches, records = source_kafka.bootstrap_servers, 100, 10
    make_topic(servers, topic_name, simple_records(batches * records), [])
    batch = header_heavy_batch(records, 10_000)
    assert len(batch) < 1000  # and 200 KB of them decompressed, 3 MB in memory
    asyncio.run(produce(servers, topic_name, 1, [batch] * batches))
    found = leased(servers, topic_name, "2", str(batches * records), str(tmp_path), format_name)
    assert (found["errors"], found["done"]) == ([], 1)
    assert found["peak_bytes"] - found["peak_bytes_before"] < 160 * MIB
