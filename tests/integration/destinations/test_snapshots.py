"""Snapshots of topics on a real broker, cleaned by Kafka's own cleaner: what a consumer has who read it all."""

from pathlib import Path

import pytest

from mirrorlake.archive.snapshots.tombstones import SnapshotRule, snapshot_rule
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import RecordRefusedError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, source_end
from support.leases import NEVER, archive_work, as_snapshots, lease_plan, run_lease
from support.records import Record, consume
from support.snapshots import latest, names, view
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

T0 = 1_700_000_000_000
EAGER_RULE = snapshot_rule("compact", "0")
A_DAY = snapshot_rule("compact", "86400000")


class Source:
    """A topic of one partition and its snapshots in a folder."""

    def __init__(self, servers: str, topic: str, root: Path) -> None:
        self.servers, self.topic, self.root = servers, topic, root

    def lease(self, rule: SnapshotRule = A_DAY, *, records_max: int = NEVER) -> LeaseRow:
        where = TopicPartition(self.topic, 0)
        work = archive_work(self.root, where, end=source_end(self.servers, self.topic), records_max=records_max)
        return run_lease(lease_plan(self.servers, [(where, [as_snapshots(work, rule)])], end=None))[0, "lake"]

    def snapshot(self, rule: SnapshotRule = A_DAY, *, records_max: int = NEVER) -> LeaseRow:
        row = self.lease(rule, records_max=records_max)
        assert row.error is None, row.error
        return row

    def view(self) -> list[tuple[int, Record]]:
        """In the order of the file."""
        return list(view(self.root, self.topic).items())

    def consumed(self) -> list[tuple[int, Record]]:
        """What a consumer that reads everything has in the end."""
        return list(latest(consume(self.servers, self.topic, 0).items()).items())


@pytest.fixture
def source(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Source:
    return Source(source_kafka.bootstrap_servers, topic_name, tmp_path)


def test_a_view_over_several_snapshots_is_what_a_consumer_has(source: Source) -> None:
    create_topic(source.servers, source.topic, cleanup_policy="compact")
    odd_keys = [b"", b"\x00", b"\xff\xfe", "ключ".encode(), b"k" * 500]
    headers = (("h", b"1"), ("null", None))
    append(source.servers, source.topic, 0, keyed_records(50, 7))
    append(source.servers, source.topic, 0, [Record(T0, key, b"v", headers) for key in odd_keys])
    row = source.snapshot(records_max=20)
    assert [flush.trigger for flush in row.flushes] == ["max-offsets", "max-offsets", "explicit"]
    assert source.view() == source.consumed()
    append(source.servers, source.topic, 0, [Record(T0, b"key-3", None), Record(T0, b"\xff\xfe", None)])
    append(source.servers, source.topic, 0, [Record(T0, b"", b""), Record(T0, b"key-1", b"newest")])
    source.snapshot()
    assert source.view() == source.consumed()
    assert len(source.view()) == 10
    assert len(names(source.root, source.topic)) == 4


def test_a_tombstone_purged_while_nobody_looked_takes_its_key_out_of_the_next_snapshot(source: Source) -> None:
    create_compacted(source.servers, source.topic, delete_retention_ms="100")
    rule = snapshot_rule("compact", "100")
    append(source.servers, source.topic, 0, [Record(T0, b"gone", b"1"), Record(T0 + 1, b"kept", b"2")])
    source.snapshot(rule)
    assert [record.key for _, record in source.view()] == [b"gone", b"kept"]
    # Nobody mirrors now. The key is deleted, and the cleaner comes until not even its tombstone is left.
    tombstone = [Record(T0 + 60_000, b"gone", None)]
    append_and_compact(source.servers, source.topic, tombstone, left={1, 2, 3})
    clean = append_and_compact(source.servers, source.topic, [Record(T0 + 120_000, b"other", b"3")], left={1, 3, 4, 5})
    assert b"gone" not in {record.key for record in clean.values()}
    row = source.snapshot(rule)
    assert [flush.trigger for flush in row.flushes] == ["rebuilt"]
    assert source.view() == source.consumed()
    assert [record.key for _, record in source.view()] == [b"kept", b"last", b"other"]


def test_a_log_that_was_not_cleaned_past_the_position_is_read_on_however_late(source: Source) -> None:
    create_topic(source.servers, source.topic, cleanup_policy="compact", min_compaction_lag_ms=str(10**12))
    append(source.servers, source.topic, 0, keyed_records(50, 7))
    source.snapshot(A_DAY)
    append(source.servers, source.topic, 0, [Record(T0, b"key-3", None)])
    append_in_transaction(source.servers, source.topic, [Record(T0, b"key-1", b"in a transaction")])
    append_in_transaction(source.servers, source.topic, [Record(T0, b"key-2", None)], committed=False)
    row = source.snapshot(EAGER_RULE, records_max=1)  # any tombstone may be gone by now
    assert [flush.trigger for flush in row.flushes] == ["max-offsets", "max-offsets", "explicit"]
    assert source.view() == source.consumed()
    assert [record.key for _, record in source.view()] == [b"key-%d" % n for n in (0, 1, 2, 4, 5, 6)]


def test_records_of_aborted_transactions_are_in_no_view(source: Source) -> None:
    create_topic(source.servers, source.topic)
    append_in_transaction(source.servers, source.topic, [Record(T0, b"a", b"1"), Record(T0, b"b", b"2")])
    append_in_transaction(
        source.servers, source.topic, [Record(T0, b"a", None), Record(T0, b"c", b"3")], committed=False
    )
    append_in_transaction(source.servers, source.topic, [Record(T0, b"b", b"4")])
    source.snapshot()
    assert [(record.key, record.value) for _, record in source.view()] == [(b"a", b"1"), (b"b", b"4")]
    assert source.view() == source.consumed()


def test_a_view_of_a_cleaned_log_is_brought_further_and_built_anew_alike(source: Source) -> None:
    create_compacted(source.servers, source.topic)
    append_and_compact(source.servers, source.topic, keyed_records(60, 7), left={*range(53, 60), 60})
    source.snapshot()
    assert source.view() == source.consumed()
    append_and_compact(source.servers, source.topic, keyed_records(10, 7, start=60), left={60, *range(64, 72)})
    source.snapshot()
    further = source.view()
    assert further == source.consumed()
    (source.root / source.topic / "0" / names(source.root, source.topic)[1]).unlink()
    row = source.snapshot(EAGER_RULE)
    assert [flush.trigger for flush in row.flushes] == ["rebuilt"]
    assert source.view() == further


def test_a_record_without_a_key_parks_the_partition_and_names_it(source: Source) -> None:
    create_topic(source.servers, source.topic)
    append(source.servers, source.topic, 0, [Record(T0, b"a", b"1"), Record(T0, None, b"2")])
    row = source.lease()
    assert isinstance(row.error, RecordRefusedError)
    assert f"{source.topic}-0 has a record without a key at offset 1" in row.error.message
    assert (row.position, names(source.root, source.topic)) == (0, [])
