"""`verify` of a filtered copy: what the filter keeps of the source is compared; the log cleaner is asked about all."""

from pathlib import Path

from mirrorlake.destinations.filtering import PartitionFilter, PartitionProjection
from mirrorlake.destinations.transform import Transform
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.projection import Projection, parse_value
from mirrorlake.kinds.copies import ArchiveSide
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.verify.cleaned import Compacted, compare, key_hash, traces_of
from mirrorlake.verify.worker import Collector, DigestResult, DigestTask, SourceSide
from support.records import settings_of
from unit.kafka.records.record_samples import Sample, columns_of

KEEPS = Transform(keeps=PartitionFilter(wanted=parse_filter("value = 'wanted'"), partition=0))
RECORDS = columns_of([Sample(0, key=b"a", value=b"wanted"), Sample(1, key=b"b"), Sample(2, key=b"a", value=b"not")])
SOURCE = SourceSide(
    source_work=KafkaSourceWork(cluster=settings_of("localhost:1")), partition=TopicPartition("orders", 0)
)
COPY = ArchiveSide(
    store=FilesystemSettings(root=Path("/nowhere")),
    destination_name="orders",
    partition=0,
    extension="parquet",
)
OFFSETS = OffsetRange(start_offset=0, end_offset=3)


def collected(side: SourceSide | ArchiveSide, *, latest_of: frozenset[int] = frozenset()) -> Collector:
    in_detail = not latest_of
    task = DigestTask(side=side, offsets=OFFSETS, in_detail=in_detail, latest_of=latest_of, transform=KEEPS)
    collector = Collector(task)
    collector.add(RECORDS)
    return collector


def test_of_the_source_only_what_the_filter_keeps_is_compared() -> None:
    assert [trace.offset for trace in collected(SOURCE).result().traces] == [0]


def test_of_the_copy_all_that_it_holds_is_compared() -> None:
    assert [trace.offset for trace in collected(COPY).result().traces] == [0, 1, 2]


def test_the_later_record_that_made_the_cleaner_take_one_away_may_be_one_that_was_left_out() -> None:
    asked = frozenset({key_hash(b"a")})
    assert collected(SOURCE, latest_of=asked).result().latest == {key_hash(b"a"): 2}


STRICT = PartitionProjection(
    wanted=Projection(
        key=parse_value("key || X'2D'"),
        value=parse_value("CASE WHEN value = 'not' THEN raise_error('not that') ELSE value END"),
    ),
    source=TopicPartition("orders", 0),
)
"""Has no value for the last of the records."""


def strictly(side: SourceSide | ArchiveSide, *, latest_of: frozenset[int] = frozenset()) -> DigestResult:
    transform = Transform(projects=STRICT, keeps=KEEPS.keeps if latest_of else None)
    task = DigestTask(side=side, offsets=OFFSETS, in_detail=not latest_of, latest_of=latest_of, transform=transform)
    collector = Collector(task)
    collector.add(RECORDS)
    return collector.result()


def test_a_record_that_select_has_no_value_for_is_one_that_the_copy_does_not_hold() -> None:
    found = compare(strictly(SOURCE).traces, (), Compacted(source=True, copy=False))
    assert found.difference == (0, "missing")
    source, copy = strictly(SOURCE).traces, traces_of(STRICT.made(RECORDS.slice(0, 2)))
    assert compare(source, copy, Compacted(source=False, copy=False)).difference == (2, "missing")
    as_it_is = [*copy, *traces_of(RECORDS.slice(2, 3))]
    assert compare(source, as_it_is, Compacted(source=False, copy=False)).difference == (2, "different")


def test_the_later_record_may_be_one_that_is_left_out_and_that_select_has_no_value_for() -> None:
    asked = frozenset({key_hash(b"a-")})
    assert strictly(SOURCE, latest_of=asked).latest == {key_hash(b"a-"): 2}
