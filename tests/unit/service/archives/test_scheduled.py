"""One run of a schedule over a real folder: whose partitions it takes, what it leaves alone, and what it adds up."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, StoreUnusableError
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchStoppedError
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archives.scheduled import Folder, KeepingOutcome, KeepingResult, ScheduledKeeping, jobs_of
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings
from support.archives import mark_archive, write_archive
from support.golden import segment_name

MERGE = "merge: {every: 1h, steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0}"
RETAIN = "retain: {every: 1h, max-bytes: 1}"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    root.mkdir()
    write_archive(root, "orders", 0, 10, 20, 30, 40)
    write_archive(root, "orders", 1, 10, 20, 30, 40)
    write_archive(root, "bills", 0, 10, 20, 30, 40)
    write_archive(root, "orders.1", 0, 10, 20, 30, 40)
    mark_archive(root, {"orders": {0: 40, 1: 40}, "bills": {0: 40, 1: 40}})
    return root


def keep(
    lake: Path,
    settings: str,
    *,
    gone: dict[StoreSettings, MirrorlakeError] | None = None,
    left_alone: frozenset[Folder] = frozenset(),
    is_stopping: Callable[[], bool] = bool,
    mirrors: str = "",
) -> list[KeepingOutcome]:
    """Does every job of a configuration once."""
    text = f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: archive, store: lake, {settings}}}]
{mirrors}
"""
    config = parse_configuration(text.encode(), file="mirror.yaml", environ={})
    engine = InProcessEngine(SessionSettings(lanes=1, batch_slots=1))
    try:
        keeping = ScheduledKeeping(
            config=config,
            clock=SystemClock(),
            jobs=BatchJobs(engine, slots=lambda: 2, is_stopping=is_stopping),
            gone_roots=lambda: gone or {},
            left_alone=lambda: left_alone,
            is_stopping=is_stopping,
        )
        return [keeping.do(job) for job in jobs_of(config)]
    finally:
        engine.stop()


def files(lake: Path, name: str, partition: int = 0) -> list[str]:
    return sorted(file.name for file in (lake / name / str(partition)).glob("*.parquet"))


ALL = [segment_name(start, start + 9) for start in (0, 10, 20, 30)]
MERGED = [segment_name(0, 29), segment_name(30, 39)]


def test_every_partition_of_the_mirror_is_merged_its_generations_too_and_no_other(lake: Path) -> None:
    (outcome,) = keep(lake, MERGE)
    assert (outcome.result, outcome.files, outcome.made) == (KeepingResult.DONE, 9, 3)
    assert outcome.made_bytes > 0
    assert outcome.size_bytes > 0
    assert [files(lake, "orders", n) for n in (0, 1)] == [MERGED, MERGED]
    assert (files(lake, "orders.1"), files(lake, "bills")) == (MERGED, ALL)
    (again,) = keep(lake, MERGE)
    assert again == KeepingOutcome()
    assert not again.did_something


def test_retention_adds_up_what_went(lake: Path) -> None:
    (outcome,) = keep(lake, RETAIN)
    assert (outcome.result, outcome.files) == (KeepingResult.DONE, 6)
    assert files(lake, "orders.1") == ALL, "nothing says whose it is"
    assert outcome.doubts == (
        ("orders.1/0", "nothing recorded says whose records it holds: `run` mirror trade once, which records it"),
    )
    assert files(lake, "orders") == ALL[3:]


def test_a_partition_that_is_parked_or_paused_is_left_alone(lake: Path) -> None:
    store = FilesystemSettings(root=lake)
    (outcome,) = keep(lake, MERGE, left_alone=frozenset({(store, "orders/1")}))
    assert outcome.made == 2
    assert files(lake, "orders", 1) == ALL


def test_of_two_mirrors_that_share_a_topic_each_keeps_its_own_partitions(lake: Path) -> None:
    shared = f"""
  - name: rest
    source: {{cluster: east, topics: [bills], partitions: [0]}}
    destinations: [{{type: archive, store: lake, {MERGE}}}]
  - name: more
    source: {{cluster: east, topics: [bills], partitions: [1]}}
    destinations: [{{type: archive, store: lake, {RETAIN}}}]
"""
    write_archive(lake, "bills", 1, 10, 20, 30, 40)
    _, rest, more = keep(lake, MERGE, mirrors=shared)
    assert (rest.made, more.files) == (1, 3)
    assert (files(lake, "bills", 0), files(lake, "bills", 1)) == (MERGED, ALL[3:])


def test_what_fails_is_counted_with_its_first_error_and_the_rest_is_done(lake: Path) -> None:
    damaged = lake / "orders" / "0" / ALL[0]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (outcome,) = keep(lake, MERGE)
    assert (outcome.result, outcome.failures, outcome.made) == (KeepingResult.FAILED, 1, 2)
    assert isinstance(outcome.error, ChainBrokenError)
    assert files(lake, "orders") == ALL


@pytest.mark.parametrize("is_all_gone", [False, True])
def test_a_partition_whose_end_is_gone_fails_is_not_merged_and_keeps_its_topic_from_retention(
    lake: Path, is_all_gone: bool
) -> None:
    (lake / "orders" / "1" / ALL[3]).unlink()
    if is_all_gone:
        shutil.rmtree(lake / "orders" / "1")
    before = [files(lake, "orders", 0), files(lake, "orders", 1)]
    (retained,) = keep(lake, RETAIN)
    assert (retained.result, retained.failures, retained.files) == (KeepingResult.FAILED, 1, 0)
    assert isinstance(retained.error, ChainBrokenError)
    assert "had reached offset 40" in retained.error.message
    assert [files(lake, "orders", 0), files(lake, "orders", 1)] == before
    (merged,) = keep(lake, MERGE)
    assert (merged.result, merged.failures, merged.made) == (KeepingResult.FAILED, 1, 2)
    assert [files(lake, "orders", 0), files(lake, "orders", 1)] == [MERGED, before[1]]


def test_a_root_that_is_another_archive_now_is_not_touched(lake: Path) -> None:
    error = StoreUnusableError("another archive is mounted")
    with pytest.raises(StoreUnusableError, match="another archive"):
        keep(lake, RETAIN, gone={FilesystemSettings(root=lake): error})
    assert files(lake, "orders") == ALL


@pytest.mark.parametrize("settings", [MERGE, RETAIN])
def test_a_stop_ends_it_and_leaves_the_rest_to_the_next_run(lake: Path, settings: str) -> None:
    asked = 0

    def is_stopping() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    with pytest.raises(BatchStoppedError):
        keep(lake, settings, is_stopping=is_stopping)
    (outcome,) = keep(lake, settings)
    assert outcome.result is KeepingResult.DONE
    assert len(files(lake, "orders")) < len(ALL)
