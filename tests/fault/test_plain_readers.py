"""Readers that know nothing of mirrorlake see every offset once: after a kill, and beside a live writer."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from fault.archive_writer import archived, die_at_each_of_another_segment, write_archive, write_for_ever
from mirrorlake.stores.crash_points import no_crash
from support.fork_server import exit_codes, fork_context

READS = 325
GROWTHS = 20
"""So often each reader must have found more than before: it read beside a writer, not after it."""
SEGMENT_OFFSETS = 3

Offsets = Sequence[int]


def pyarrow_table(root: Path) -> Offsets:
    return pq.read_table(root / "orders/0", columns=["offset"])["offset"].to_pylist()  # type: ignore[no-any-return]


def pyarrow_dataset(root: Path) -> Offsets:
    found = ds.dataset(root / "orders", format="parquet").to_table(columns=["offset"])
    return found["offset"].to_pylist()  # type: ignore[no-any-return]


def pyarrow_glob(root: Path) -> Offsets:
    files = [str(path) for path in root.glob("orders/*/*.parquet")]
    return ds.dataset(files, format="parquet").to_table(columns=["offset"])["offset"].to_pylist()  # type: ignore[no-any-return]


def duckdb_glob(root: Path) -> Offsets:
    with duckdb.connect() as database:
        return [row[0] for row in database.sql(f"select \"offset\" from '{root}/orders/*/*.parquet'").fetchall()]


def polars_glob(root: Path) -> Offsets:
    import polars

    return polars.scan_parquet(f"{root}/orders/*/*.parquet").select("offset").collect()["offset"].to_list()  # type: ignore[no-any-return]


READERS = [pyarrow_table, pyarrow_dataset, pyarrow_glob, duckdb_glob, polars_glob]


def expected(end_offset: int) -> list[int]:
    """The offsets of `source_records`: every third is compacted away."""
    return [offset for offset in range(end_offset) if offset % 3 != 1]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """Archives of one whole segment, whose writer was killed at each step of the second one; the last one was not."""
    root = tmp_path_factory.mktemp("killed")
    (deaths,) = exit_codes([(die_at_each_of_another_segment, (str(root), SEGMENT_OFFSETS))])
    assert deaths == 14
    return [root / str(life) for life in range(deaths + 1)]


@pytest.mark.parametrize("read", READERS)
def test_after_a_kill_at_any_step_every_offset_is_read_once(
    killed: Sequence[Path], read: Callable[[Path], Offsets]
) -> None:
    for root in killed:
        assert sorted(read(root)) in (expected(SEGMENT_OFFSETS), expected(2 * SEGMENT_OFFSETS)), root


def test_after_a_kill_at_any_step_a_partition_holds_nothing_but_segments_and_claims(killed: Sequence[Path]) -> None:
    for root in killed:
        names = [path.name for path in root.glob("orders/0/*")]
        assert [name for name in names if not name.endswith(".parquet") and not name.startswith("_claim-")] == []
        others = [path.name for path in root.rglob("*") if path.is_file() and not path.name.endswith(".parquet")]
        assert [name for name in others if not name.startswith("_")] == []


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """An archive that a process of its own appends small segments to, without end."""
    write_archive(archived(str(tmp_path), no_crash, extension="parquet"), SEGMENT_OFFSETS, SEGMENT_OFFSETS, no_crash)
    writer = fork_context().Process(target=write_for_ever, args=(str(tmp_path), SEGMENT_OFFSETS), daemon=True)
    writer.start()
    try:
        yield tmp_path
        assert writer.is_alive(), "the writer ended before its readers"
    finally:
        writer.kill()
        writer.join()


@pytest.mark.parametrize("read", READERS)
def test_beside_a_live_writer_every_read_succeeds_and_sees_no_offset_twice(
    live: Path, read: Callable[[Path], Offsets]
) -> None:
    seen: list[int] = []
    reads = growths = 0
    while reads < READS // len(READERS) or growths < GROWTHS:
        found = sorted(read(live))
        # Of what is published meanwhile a folder's listing may show some; what was there before, it shows all.
        assert found[: len(seen)] == seen
        assert len(found) == len(set(found))
        reads += 1
        growths += len(found) > len(seen)
        seen = found
