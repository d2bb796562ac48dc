"""An archive that is asked for the schema ids of its records: what segments say of themselves, and what is read.

The segments here say what is not so, which nothing but reading them whole can tell: an answer shows where it is from.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts, Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.opening import open_store
from support.archived_source import BARE_NDJSON, held_records, mark, settings_at, source_at, write_segment
from support.reading import source_context
from support.records import build_batch, simple_records

WHERE = TopicPartition("orders", 0)
VALUES = 0b10


def read(count: int, first: int) -> SchemaIdCounts:
    """What the records of this suite have: values that name no schema."""
    return {"value": SideCounts(nameless={Framing.NOT_FRAMED: Seen(count, first)}, names={})}


def said(count: int, first: int, *sides: str) -> SchemaIdCounts:
    """What segments say of theirs."""
    return dict.fromkeys(sides or ("value",), SideCounts(nameless={}, names={4242: Seen(count, first)}))


def told(
    folder: Path,
    run_async: RunAsync,
    form: str,
    segments: Sequence[tuple[int, SchemaIdCounts | None]],
    wanted: OffsetRange,
) -> list[SchemaIdCounts]:
    """What an archive of these segments, by their ends (exclusive), says of a range."""
    folder.mkdir(exist_ok=True)
    place = settings_at(folder)
    store, start = open_store(place), 0
    content = held_records([(base, build_batch(simple_records(30)[base : base + 5])) for base in range(0, 30, 5)])
    for end, counts in segments:
        write_segment(store, WHERE, content, start, end, form=form, schema_ids=counts)
        start = end
    mark(store, WHERE, start, form=form)

    answers: list[SchemaIdCounts] = []

    async def ask() -> None:
        async with source_context() as context:
            log = source_at(place).log(WHERE, context.connections)
            answers.extend([each async for each in log.schema_ids(wanted, VALUES)])
            await context.stop()

    run_async(ask())
    return answers


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
def test_segments_that_tell_are_not_read_and_the_others_are(tmp_path: Path, run_async: RunAsync, form: str) -> None:
    segments = [(10, said(10, 0)), (20, None), (30, said(10, 20, "key", "value"))]
    assert told(tmp_path, run_async, form, segments, OffsetRange(start_offset=0, end_offset=30)) == [
        said(10, 0),
        read(10, 10),
        said(10, 20),
    ]


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
def test_a_segment_of_which_a_part_is_asked_for_is_read(tmp_path: Path, run_async: RunAsync, form: str) -> None:
    segments = [(10, said(10, 0)), (20, said(10, 10)), (30, said(10, 20))]
    assert told(tmp_path, run_async, form, segments, OffsetRange(start_offset=7, end_offset=29)) == [
        read(3, 7),
        said(10, 10),
        read(9, 20),
    ]


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
def test_a_segment_that_tells_of_another_side_is_read(tmp_path: Path, run_async: RunAsync, form: str) -> None:
    segments = [(30, said(30, 0, "key"))]
    assert told(tmp_path, run_async, form, segments, OffsetRange(start_offset=0, end_offset=30)) == [read(30, 0)]


@pytest.mark.parametrize("form", ["mirror-v3", BARE_NDJSON])
def test_files_of_mirror_v3_are_read(tmp_path: Path, run_async: RunAsync, form: str) -> None:
    assert told(tmp_path, run_async, form, [(30, None)], OffsetRange(start_offset=0, end_offset=30)) == [read(30, 0)]


def test_a_snapshot_tells_of_its_view(tmp_path: Path, run_async: RunAsync) -> None:
    whole = OffsetRange(start_offset=0, end_offset=30)
    (counts,) = told(tmp_path / "silent", run_async, "snapshot", [(30, None)], whole)
    seen = counts["value"].nameless[Framing.NOT_FRAMED]
    assert told(tmp_path / "telling", run_async, "snapshot", [(30, said(*seen))], whole) == [said(*seen)]
