"""Every test that the page about archives as sources names is really there."""

import re
from pathlib import Path

import pytest

from support.python_sources import function_decorators

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "archive-sources.md").read_text()
OPERATIONS = (TESTS.parent / "docs" / "operations.md").read_text()
NAMED = re.findall(r"`((?:unit|integration|contract|system|fault)/[^`]+)::([^`]+)`", PAGE)


@pytest.mark.parametrize(("path", "test"), NAMED)
def test_every_test_named_for_an_archive_as_a_source_exists(path: str, test: str) -> None:
    assert test in function_decorators(TESTS / path)


SETTINGS = [
    *("LocalRegion", "AWSConfig", "AWSSession", "S3Bucket", "SegmentFormat", "KafkaBrokers", "S3KeyPrefix"),
    *("TempKeyPrefix", "KafkaTopics", "Sources", "Topics", "KafkaConsumerGroup", "SQSQueueName"),
    *("KafkaSegmentEventsTopic", "KafkaSegmentEventsRetention", "KafkaCheckpointTopic", "KafkaProducerBatchSize"),
    *("KafkaProducerBatchDelay", "CronSchedule", "CronLocation", "Parallelism", "MaxSegmentMessages"),
    *("MaxSegmentSize", "MaxSegmentAge", "WorkerChanSize", "WorkerStopTimeout", "ConsumerRetrier"),
    *("SegmentStoreRetrier", "ProducerRetrier", "CheckpointStoreRetrier", "Region", "Topic", "DestinationTopic"),
    *("LostSegmentTimeout", "LateSegmentRetries", "FirstSegmentDelay", "BatchSize", "WorkerInitDelay", "MinLevel"),
    *("MaxLevel", "MinSegmentAge", "MinSegmentCount", "MaxSegmentCount", "MinSegmentSize", "Delete"),
    *("PartitionAssignmentStrategy", "PollInterval", "ClientRack", "AdditionalConfig", "BatchDelay"),
    *("FlushTimeout", "ConsumerGroupPrefix", "EventsChanSize", "ConsumerAdditionalConfig"),
    *("ProducerAdditionalConfig", "EventsRetention", "EventsRetentionCheckInterval", "ReceiveMaxNumberOfMessages"),
    *("ReceiveWaitTime", "MessageVisibilityTimeout", "MessageMaxRetryCount", "CreatedBy", "S3UploaderOptions"),
    "Breaker",
]
"""Of kafka-replicator's configurations, each once."""


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_of_kafka_replicator_has_its_equal_in_a_table(setting: str) -> None:
    rows = [line for line in (PAGE + OPERATIONS).splitlines() if line.startswith("|")]
    assert [row for row in rows if f"`{setting}`" in row.split("|")[1]]


def test_the_page_names_tests() -> None:
    assert len(NAMED) >= 10
