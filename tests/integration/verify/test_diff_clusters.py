"""An archive is compared with a cluster: what retention, erasure or the cleaner took is told from what is lost."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.stores.settings import StoreSettings
from support.admin import alter_topic
from support.archived_source import settings_at
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.comparing import cluster, said, verdict, verdicts, write_orders
from support.copies import create_topic
from support.records import Record, consume, every_kind, simple_records
from support.topics import append, delete_before, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka


@pytest.fixture
def place(tmp_path: Path) -> StoreSettings:
    (tmp_path / "lake").mkdir()
    return settings_at(tmp_path / "lake")


def numbered(records: list[Record]) -> dict[int, Record]:
    return dict(enumerate(records))


@pytest.mark.parametrize("form", ["parquet", "ndjson", "log"])
def test_an_archive_of_every_kind_of_record_is_equal_to_its_topic_and_one_that_changed_is_named(
    source_kafka: EmbeddedKafka, topic_name: str, place: StoreSettings, form: str
) -> None:
    servers = source_kafka.bootstrap_servers
    make_topic(servers, topic_name, every_kind(3))
    append_in_transaction(servers, topic_name, simple_records(5))
    append_in_transaction(servers, topic_name, simple_records(5), committed=False)
    append(servers, topic_name, 0, every_kind(6)[:4])
    records = consume(servers, topic_name, 0)
    end = max(records) + 1
    a, names = write_orders(place, records, (20, end), form=form), ("orders", topic_name)
    equal = verdict(a, cluster(servers), names)
    assert (said(equal), equal.records_a, equal.records_b) == (("equal", [], []), len(records), len(records))
    assert said(verdict(cluster(servers), cluster(servers), (topic_name, topic_name))) == ("equal", [], [])
    append(servers, topic_name, 0, every_kind(7)[:1])
    behind = verdict(a, cluster(servers), names)
    assert said(behind) == ("differs", [f"only-b {end}-{end} beyond"], [])
    asked = OffsetRange(start_offset=2, end_offset=end)
    assert said(verdict(a, cluster(servers), names, asked=asked)) == ("equal", [], [])


def test_a_record_that_only_one_side_has_is_named_with_that_side(
    source_kafka: EmbeddedKafka, topic_name: str, place: StoreSettings
) -> None:
    servers, records = source_kafka.bootstrap_servers, every_kind(3)
    make_topic(servers, topic_name, records)
    held = numbered(records)
    altered = {n: replace(r, headers=()) if n == 17 else r for n, r in held.items() if n != 9}
    assert held[17].headers, "the record that is altered had headers"
    a = write_orders(place, altered, (len(records),))
    found = verdict(a, cluster(servers), ("orders", topic_name))
    assert said(found) == ("differs", ["only-b 9-9 absent", "different 17-17"], [])
    turned = verdict(cluster(servers), a, (topic_name, "orders"))
    assert said(turned) == ("differs", ["only-a 9-9 absent", "different 17-17"], [])


def test_what_was_erased_of_an_archive_and_what_a_topic_has_retired_are_explained(
    source_kafka: EmbeddedKafka, topic_name: str, place: StoreSettings
) -> None:
    servers, records = source_kafka.bootstrap_servers, every_kind(3)
    make_topic(servers, topic_name, records)
    delete_before(servers, topic_name, 10)
    erased = Gap(offsets=OffsetRange(start_offset=15, end_offset=17), kind=GapKind.ERASED)
    kept: Mapping[int, Record] = {n: r for n, r in numbered(records).items() if n not in (15, 16)}
    a = write_orders(place, kept, (12, len(records)), gaps=[erased])
    found = verdict(a, cluster(servers), ("orders", topic_name))
    assert said(found) == ("explained", [], ["only-a 0-9 retired", "only-b 15-16 erased"])
    assert str(found.offsets) == f"[10, {len(records)})"


def test_what_the_log_cleaner_took_is_explained_and_what_it_cannot_have_taken_is_not(
    source_kafka: EmbeddedKafka, topic_name: str, place: StoreSettings
) -> None:
    servers = source_kafka.bootstrap_servers
    create_compacted(servers, topic_name)
    records = keyed_records(40, 7)
    clean = append_and_compact(servers, topic_name, records, left=set(range(33, 41)))
    a = write_orders(place, {**numbered(records), 40: clean[40]}, (10, 41))
    assert said(verdict(a, cluster(servers), ("orders", topic_name))) == ("explained", [], ["only-a 0-32 cleaned"])
    (other := Path(place.where("")) / "other").mkdir()
    alone = {**numbered(records), 5: replace(records[5], key=b"nobody wrote it again"), 40: clean[40]}
    b = write_orders(settings_at(other), alone, (41,))
    for policy in ("compact", "delete", "compact,delete"):
        # Whatever the policy is by now: the log shows that it was cleaned.
        alter_topic(servers, topic_name, cleanup_policy=policy, retention_ms="-1")
        found = verdict(a, cluster(servers), ("orders", topic_name))
        assert said(found) == ("explained", [], ["only-a 0-32 cleaned"])
        found = verdict(cluster(servers), b, (topic_name, "orders"))
        assert said(found) == ("differs", ["only-b 5-5"], ["only-b 0-32 cleaned"])


def test_partitions_and_topics_that_only_one_side_has_are_not_known(
    source_kafka: EmbeddedKafka, topic_name: str, place: StoreSettings
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 2)
    append(servers, topic_name, 0, every_kind(1)[:3])
    a = write_orders(place, numbered(every_kind(1)[:3]), (3,))
    found = {each.partition: each for each in verdicts(a, cluster(servers), ("orders", topic_name))}
    assert [found[0].result, found[1].result] == ["equal", "unknown"]
    assert "has no partition orders-1" in str(found[1].error)
    (absent,) = verdicts(a, cluster(servers), ("orders", f"{topic_name}-absent"))
    assert (absent.result, "has no topic" in str(absent.error)) == ("unknown", True)
