"""The bytes of progress records and of pages of offset maps: golden, read back, and refused where they are not ours."""

from dataclasses import replace

import pytest

from mirrorlake.destinations.map.offset_map import FullPage, MappedRun, OpenPage, add_runs
from mirrorlake.destinations.map.progress import (
    SHARDS_KEY,
    MapPage,
    MapProgress,
    PageKey,
    ProgressKey,
    decode_page,
    decode_page_key,
    decode_progress,
    decode_progress_key,
    decode_shards,
    encode_page,
    encode_page_key,
    encode_progress,
    encode_progress_key,
    encode_shards,
)
from mirrorlake.destinations.map.transaction_outcome import was_data_committed
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange, TopicPartition

KEY = ProgressKey(destination_topic="copy", source=TopicPartition("orders", 3))
_, PAGE = add_runs(OpenPage.at(10), [MappedRun(start_offset=12, length=4, destination_offset=300)])
PROGRESS = MapProgress(
    source_cluster_id="east",
    source_topic_id="idS",
    destination_topic_id="idD",
    leader_epoch=7,
    offsets=OffsetRange(start_offset=11, end_offset=20),
    destination_partition=3,
    destination_offset=300,
    destination_end=304,
    page=PAGE,
    start_offset=4,
)
KEY_BYTES = bytes.fromhex("50010004636f707900066f726465727300000003")
PROGRESS_BYTES = bytes.fromhex(
    "01" "000465617374" "0003696453" "0003696444"
    "00000007" "000000000000000b" "0000000000000014" "00000003"
    "000000000000012c" "0000000000000130" "000000000000000a" "0000000000000004" "0204ac02"
)  # fmt: skip
PAGE_KEY = PageKey(progress=KEY, source_topic_id="idS", start_offset=10)
FULL = MapPage(
    page=FullPage(offsets=OffsetRange(start_offset=10, end_offset=16), encoded=PAGE.encoded), destination_partition=3
)
PAGE_KEY_BYTES = bytes.fromhex("4d010004636f707900066f7264657273000000030003696453000000000000000a")
PAGE_BYTES = bytes.fromhex("010000000000000010000000030204ac02")


def test_progress_has_these_bytes() -> None:
    assert encode_progress_key(KEY) == KEY_BYTES
    assert encode_progress(PROGRESS) == PROGRESS_BYTES


def test_progress_is_read_from_these_bytes() -> None:
    assert decode_progress_key(KEY_BYTES) == KEY
    assert decode_progress(PROGRESS_BYTES) == PROGRESS
    assert decode_progress(PROGRESS_BYTES).position == 20


def test_a_full_page_has_these_bytes_and_is_read_from_them() -> None:
    assert encode_page_key(PAGE_KEY) == PAGE_KEY_BYTES
    assert encode_page(FULL) == PAGE_BYTES
    assert decode_page_key(PAGE_KEY_BYTES) == PAGE_KEY
    assert decode_page(PAGE_KEY, PAGE_BYTES) == FULL


def test_a_later_page_has_these_bytes_and_a_key_of_its_own_by_its_place() -> None:
    later = replace(PAGE_KEY, later_at=300)
    as_bytes = bytes.fromhex("4c010004636f707900066f7264657273000000030003696453000000000000000a000000000000012c")

    assert encode_page_key(later) == as_bytes
    assert decode_page_key(as_bytes) == later
    assert FULL.runs == [MappedRun(start_offset=12, length=4, destination_offset=300)]
    with pytest.raises(DestinationForeignError):
        decode_page_key(as_bytes[:-1])


def test_the_number_of_shards_has_these_bytes_and_is_read_from_them() -> None:
    assert bytes.fromhex("5301") == SHARDS_KEY
    assert encode_shards(3) == bytes.fromhex("0100000003")
    assert decode_shards(bytes.fromhex("0100000010")) == 16


@pytest.mark.parametrize("foreign", ["", "01000000", "010000000300", "0200000003", "0100000000", "01ffffffff"])
def test_a_number_of_shards_that_is_not_ours_is_refused(foreign: str) -> None:
    with pytest.raises(DestinationForeignError):
        decode_shards(bytes.fromhex(foreign))


def test_a_version_that_knows_no_number_of_shards_refuses_to_go_on() -> None:
    with pytest.raises(DestinationForeignError):
        decode_progress_key(SHARDS_KEY)


def test_a_range_without_records_says_so() -> None:
    nothing = replace(PROGRESS, destination_offset=None, destination_end=0, page=OpenPage.at(11), leader_epoch=-1)
    assert decode_progress(encode_progress(nothing)) == nothing


def test_newer_progress_of_the_same_partition_has_the_same_key_so_that_compaction_keeps_the_newest() -> None:
    sources = [TopicPartition("orders", 3), TopicPartition("orders", 4), TopicPartition("order", 3)]
    keys = {
        encode_progress_key(ProgressKey(destination_topic=topic, source=source))
        for topic in ("copy", "other")
        for source in sources
    }
    assert len(keys) == 6
    assert encode_progress_key(KEY) == encode_progress_key(replace(KEY))


def test_pages_have_keys_of_their_own_so_that_compaction_keeps_all() -> None:
    keys = {
        encode_page_key(replace(PAGE_KEY, start_offset=start, source_topic_id=topic_id))
        for start in (10, 266)
        for topic_id in ("idS", "another")
    }
    assert len(keys) == 4


BEFORE_THE_RUN = len(PROGRESS_BYTES) - 4  # a page without runs is a page


@pytest.mark.parametrize("length", sorted(set(range(len(PROGRESS_BYTES))) - {BEFORE_THE_RUN}))
def test_progress_cut_inside_a_field_is_refused_as_foreign(length: int) -> None:
    with pytest.raises(DestinationForeignError):
        decode_progress(PROGRESS_BYTES[:length])


@pytest.mark.parametrize(
    "foreign",
    [b"", b"P", b"not ours", KEY_BYTES[:-1], KEY_BYTES + b"x", b"M" + KEY_BYTES[1:], b"P\x02" + KEY_BYTES[2:]],
)
def test_a_key_that_is_not_ours_is_refused(foreign: bytes) -> None:
    with pytest.raises(DestinationForeignError):
        decode_progress_key(foreign)


def test_a_value_of_a_newer_format_is_refused_by_its_number() -> None:
    with pytest.raises(DestinationForeignError, match="format 2"):
        decode_progress(b"\x02" + PROGRESS_BYTES[1:])
    with pytest.raises(DestinationForeignError, match="format 2"):
        decode_page(PAGE_KEY, b"\x02" + PAGE_BYTES[1:])


def test_records_of_one_batch_keep_their_order() -> None:
    columns = columns_of([(b"a", b"1"), (b"b", b"2")], 1234)
    assert columns.keys.to_pylist() == [b"a", b"b"]
    assert columns.values.to_pylist() == [b"1", b"2"]
    assert columns.timestamps.tolist() == [1234, 1234]


@pytest.mark.parametrize(
    ("open_from", "committed"),
    [(303, True), (304, False), (500, False)],
    ids=["progress ends behind it", "progress ends before it", "far behind all progress"],
)
def test_open_data_was_committed_exactly_if_progress_reaches_past_its_first_offset(
    open_from: int, committed: bool
) -> None:
    known = {KEY: PROGRESS}
    assert was_data_committed(known, TopicPartition("copy", 3), open_from) is committed
    assert was_data_committed(known, TopicPartition("copy", 4), open_from) is False
    assert was_data_committed(known, TopicPartition("other", 3), open_from) is False
