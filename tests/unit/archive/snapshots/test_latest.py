"""Latest records of keys, against a dictionary: it does the same in three lines, with everything in memory."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.snapshots.changes import FRAGMENT_BYTES, Changes, run_fragments
from mirrorlake.archive.snapshots.latest import is_run, latest_per_key, merge_runs, without_tombstones
from mirrorlake.kafka.records.columns import RecordColumns
from unit.archive.sample_records import Record, columns_of, records_in

# Bytes that sort differently as signed numbers, as text, or by length; and prefixes of one another.
KEYS = [b"", b"\x00", b"a", b"aa", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\x00", "é".encode(), b"z" * 300]
VALUES = st.sampled_from([None, b"", b"1", b"2" * 50])
CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=60)


def written(changes: Sequence[tuple[bytes, bytes | None]]) -> list[Record]:
    return [
        Record(n * 3, key, value, headers=((b"n", b"%d" % n),) if n % 2 else (), timestamp_ms=1000 - n)
        for n, (key, value) in enumerate(changes)
    ]


def latest(records: Iterable[Record]) -> list[Record]:
    """By key, as a dictionary has it; Python compares bytes as unsigned numbers."""
    view = {record.key: record for record in records}
    return [view[key] for key in sorted(key for key in view if key is not None)]


def listed(chunks: Iterable[RecordColumns]) -> list[Record]:
    return [record for chunk in chunks for record in records_in(chunk)]


def chunks_of(records: Sequence[Record], size: int) -> list[RecordColumns]:
    return [columns_of(records[start : start + size]) for start in range(0, len(records), size)]


@given(CHANGES)
def test_of_every_key_the_last_record_stays_in_the_order_of_its_bytes(
    changes: list[tuple[bytes, bytes | None]],
) -> None:
    records = written(changes)
    assert list(records_in(latest_per_key(columns_of(records)))) == latest(records)


@given(CHANGES, st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(1, 5))
def test_merged_runs_are_the_run_of_all_records(
    changes: list[tuple[bytes, bytes | None]], run_sizes: list[int], chunk_size: int
) -> None:
    records = written(changes)
    size = max(run_sizes)
    runs = [latest(records[start : start + size]) for start in range(0, len(records), size)]
    merged = list(merge_runs([chunks_of(run, chunk_size) for run in runs]))
    assert listed(merged) == latest(records)
    after = None
    for chunk in merged:
        assert is_run(chunk, after=after)
        after = list(records_in(chunk))[-1].key


@settings(deadline=None)
@given(CHANGES, st.integers(1, 9), st.integers(1, 600), st.integers(2, 3))
def test_changes_that_went_to_disk_are_the_same_records(
    changes: list[tuple[bytes, bytes | None]], size: int, bytes_max: int, runs_max: int
) -> None:
    records = written(changes)
    kept = Changes(bytes_max=bytes_max, runs_max=runs_max)
    for chunk in chunks_of(records, size):
        kept.add(chunk)
    assert listed(merge_runs(kept.runs())) == latest(records)
    kept.close()


def test_changes_are_on_disk_once_they_are_too_many_for_memory() -> None:
    kept = Changes(bytes_max=10_000, runs_max=4)
    records = [Record(n, b"key-%05d" % (n * 7919 % 10_000), b"value-%d" % n) for n in range(10_000)]
    for chunk in chunks_of(records, 100):
        kept.add(chunk)
        assert kept.held_bytes < 10_000
        assert kept.stored_runs < 16  # three of each of at most five levels
    assert kept.stored_runs > 3
    assert listed(merge_runs(kept.runs())) == latest(records)
    kept.close()


def test_tombstones_are_dropped_and_empty_values_are_not() -> None:
    records = [Record(1, b"a", None), Record(2, b"b", b""), Record(3, b"c", b"v")]
    assert list(records_in(without_tombstones(columns_of(records)))) == records[1:]
    assert list(records_in(without_tombstones(columns_of(records[1:])))) == records[1:]
    assert len(without_tombstones(columns_of(records[:1]))) == 0


def test_a_run_has_growing_keys_none_of_them_null() -> None:
    one = Record(5, b"k", b"v")
    assert is_run(columns_of([]), after=b"x")
    assert is_run(columns_of([one]), after=None)
    assert is_run(columns_of([one]), after=b"j")
    assert not is_run(columns_of([one]), after=b"k")
    assert not is_run(columns_of([one]), after=b"l")
    assert not is_run(columns_of([replace(one, key=None)]), after=None)
    assert not is_run(columns_of([one, one]), after=None)
    assert not is_run(columns_of([replace(one, key=b"\xff"), one]), after=None)
    assert is_run(columns_of([one, replace(one, key=b"\xff")]), after=None)


@given(CHANGES, st.integers(1, 9))
def test_runs_that_travelled_as_bytes_make_what_all_records_do(
    changes: list[tuple[bytes, bytes | None]], size: int
) -> None:
    records = written(changes)
    received = Changes(runs_max=2)
    for start in range(0, len(records), size):
        received.take_run(run_fragments([columns_of(latest(records[start : start + size]))]))
    assert listed(merge_runs(received.runs())) == latest(records)
    received.close()


def test_a_run_travels_in_pieces_of_bounded_size_however_large_a_record_is() -> None:
    large = bytes(random.Random(1).randbytes(3 * FRAGMENT_BYTES))
    records = [Record(n, b"%d" % n, large if n == 2 else b"small", headers=(), timestamp_ms=n) for n in range(5)]
    fragments = list(run_fragments([columns_of(records)]))
    assert len(fragments) > 3
    assert max(map(len, fragments)) <= FRAGMENT_BYTES
    received = Changes()
    received.take_run(fragments)
    assert listed(merge_runs(received.runs())) == records
    received.close()
