"""``verify`` of compacted topics: what the cleaner took on one side is no difference, anything else is."""

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.verify.verdict import Result
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic
from support.topics import append
from support.verdicts import verdict_of

pytestmark = pytest.mark.kafka


def test_a_copy_of_what_is_cleaned_away_at_the_source_by_now_is_equal(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(source, topic_name)
    create_topic(destination, topic_name, cleanup_policy="compact")
    records = keyed_records(40, 7)
    clean = append_and_compact(source, topic_name, records, left=set(range(33, 41)))
    append(destination, topic_name, 0, [*records, clean[40]])  # as copied before the cleaner came
    assert (verdict := verdict_of(source, destination, topic_name)).result is Result.EQUAL, verdict


def test_a_copy_that_is_behind_what_the_cleaner_kept_is_equal_as_far_as_it_goes(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    """The later records of its keys are past its position."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(source, topic_name)
    create_topic(destination, topic_name, cleanup_policy="compact")
    records = keyed_records(40, 7)
    append_and_compact(source, topic_name, records, left=set(range(33, 41)))
    append(destination, topic_name, 0, records[:20])
    assert (verdict := verdict_of(source, destination, topic_name)).result is Result.EQUAL, verdict


def test_a_record_that_no_cleaner_can_have_taken_is_missing(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name, cleanup_policy="compact")
    records = keyed_records(5, 5)
    append(source, topic_name, 0, records)
    append(destination, topic_name, 0, [*records[:3], records[4], records[4]])
    verdict = verdict_of(source, destination, topic_name)
    assert (verdict.result, verdict.first_difference, verdict.difference) == (Result.DIFFERS, 3, "different")
