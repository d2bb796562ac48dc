"""Streams of archives, batch by batch as Spark asks for them: the same batch again, whatever happened meanwhile."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mirrorlake.errors import ChainBrokenError, SourceTruncatedError, TopicMissingError
from mirrorlake.spark_source import streams
from mirrorlake.spark_source.options import read_options
from mirrorlake.spark_source.stream_offsets import StreamOffsets
from mirrorlake.spark_source.streams import MirrorlakeStreamReader
from support.archives import mark_archive, write_archive, write_segment
from support.spark_reads import offsets_in


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(streams, "GONE_PAUSES_SECONDS", (0.01,))


class Query:
    """A query as Spark runs it; made anew with the checkpoint of another, it is that one after a crash."""

    def __init__(self, root: Path, topics: str, *, checkpoint: list[StreamOffsets] | None = None, **more: str) -> None:
        options = {"store": root.as_uri(), "topics": topics, "columns": "topic,partition,offset", **more}
        self._reader = MirrorlakeStreamReader(read_options(options), ("topic", "partition", "offset"))
        self.checkpoint: list[StreamOffsets] = json.loads(json.dumps(checkpoint or []))

    def plan(self) -> None:
        """Notes the next batch in the checkpoint."""
        start = self.checkpoint[-1] if self.checkpoint else self._reader.initialOffset()
        self.checkpoint.append(self._reader.latestOffset(start, ReadAllAvailable()))

    def run(self) -> dict[str, list[int]]:
        """Runs the last batch of the checkpoint; the offsets by topic and partition."""
        start = self.checkpoint[-2] if len(self.checkpoint) > 1 else self._reader.initialOffset()
        rows: list[dict[str, Any]] = [
            row
            for task in self._reader.partitions(start, self.checkpoint[-1])
            for batch in self._reader.read(task)
            for row in batch.to_pylist()
        ]
        names = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
        return {
            name: offsets_in([row for row in rows if f"{row['topic']}-{row['partition']}" == name]) for name in names
        }


def retire(root: Path, partition: int, floor: int) -> None:
    """Deletes the segments below an offset, as retention does."""
    folder = root / f"orders/{partition}"
    (folder / f"_floor-{floor:020d}").touch()
    for file in folder.glob("0*.parquet"):
        if int(file.name[21:41]) < floor:
            file.unlink()


def test_a_batch_with_a_partition_that_came_is_the_same_after_a_crash_or_an_error(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 5)
    query = Query(tmp_path, "orders")
    query.plan()
    write_archive(tmp_path, "orders", 1, 5, 10)
    query.plan()

    again = Query(tmp_path, "orders", checkpoint=query.checkpoint)
    assert query.run() == again.run() == {"orders-1": [0, 1, 2, 3, 4, 5, 6, 8, 9]}
    retire(tmp_path, 1, 5)
    with pytest.raises(SourceTruncatedError, match="retention deleted the rest"):
        Query(tmp_path, "orders", checkpoint=query.checkpoint).run()

    query.plan()
    assert query.run() == {}
    write_segment(tmp_path, "orders", 1, 10, 12)
    query.plan()
    assert query.run() == {"orders-1": [10, 11]}


@pytest.mark.parametrize("starting", ["earliest", "latest", '{"orders": {"0": 5}}'])
def test_the_first_batch_is_the_same_after_a_crash_or_an_error(tmp_path: Path, starting: str) -> None:
    write_archive(tmp_path, "orders", 0, 5, 10)
    query = Query(tmp_path, "orders", startingOffsets=starting)
    query._reader.initialOffset = _once(query._reader.initialOffset())  # type: ignore[method-assign]
    write_segment(tmp_path, "orders", 0, 10, 20)
    query.plan()
    first = query.run()

    assert Query(tmp_path, "orders", startingOffsets=starting, checkpoint=query.checkpoint).run() == first
    write_segment(tmp_path, "orders", 0, 20, 30)
    assert Query(tmp_path, "orders", startingOffsets=starting, checkpoint=query.checkpoint).run() == first
    retire(tmp_path, 0, 20)
    with pytest.raises(SourceTruncatedError):
        Query(tmp_path, "orders", startingOffsets="earliest", checkpoint=query.checkpoint).run()


def _once(first: StreamOffsets) -> Any:
    return lambda: first


def test_an_idle_query_has_no_new_batch(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 5)
    query = Query(tmp_path, "orders")
    query.plan()
    query.plan()

    assert query.checkpoint[0] == query.checkpoint[1]


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("gone", ["audit", "orders/1"])
def test_what_is_gone_ends_the_query_by_expression_too(tmp_path: Path, gone: str, is_recorded: bool) -> None:
    write_archive(tmp_path, "orders", 0, 5)
    write_archive(tmp_path, "orders", 1, 5)
    write_archive(tmp_path, "audit", 0, 5)
    if is_recorded:
        mark_archive(tmp_path, {"orders": {0: 5, 1: 5}, "audit": {0: 5}})
    query = Query(tmp_path, "/.*/")
    query.plan()
    write_segment(tmp_path, "audit", 0, 5, 9)
    write_segment(tmp_path, "orders", 1, 5, 9)
    shutil.rmtree(tmp_path / gone)

    with pytest.raises(ChainBrokenError if is_recorded else TopicMissingError, match=gone.replace("/", "[-/]")):
        query.plan()


def test_a_topic_that_is_not_selected_any_more_may_go(tmp_path: Path) -> None:
    write_archive(tmp_path, "orders", 0, 5)
    write_archive(tmp_path, "audit", 0, 5)
    query = Query(tmp_path, "/.*/")
    query.plan()
    shutil.rmtree(tmp_path / "audit")
    write_segment(tmp_path, "orders", 0, 5, 7)

    again = Query(tmp_path, "/(?!audit).*/", checkpoint=query.checkpoint)
    again.plan()
    assert again.run() == {"orders-0": [5, 6]}
