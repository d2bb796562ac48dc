"""The quickstart's examples of reading an archive run, beside a live writer too, and leave nothing out in silence."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fault.archive_writer import archived, write_archive, write_for_ever
from mirrorlake.stores.crash_points import no_crash
from support import doc_examples
from support.fork_server import fork_context
from support.quick_spark import quick_spark_environ

SEGMENT_OFFSETS = 3
LIBRARIES = ("pyarrow", "DuckDB", "polars", "Spark")
IN_PROCESS = LIBRARIES[:-1]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Nine offsets of which every third was compacted away, in three segments."""
    write_archive(archived(str(tmp_path), no_crash, extension="parquet"), 9, SEGMENT_OFFSETS, no_crash)
    return tmp_path


@contextmanager
def written(lake: Path, *, pause_seconds: float) -> Iterator[None]:
    """Has a process of its own append to an archive, a segment after each pause."""
    arguments = (str(lake), SEGMENT_OFFSETS, pause_seconds)
    writer = fork_context().Process(target=write_for_ever, args=arguments, daemon=True)
    writer.start()
    try:
        yield
        assert writer.is_alive(), "the writer ended before its readers"
    finally:
        writer.kill()
        writer.join()


def test_there_is_an_example_for_each_library() -> None:
    assert tuple(doc_examples.examples()) == LIBRARIES


@pytest.mark.parametrize("name", IN_PROCESS)
def test_an_example_reads_every_record(lake: Path, name: str) -> None:
    assert doc_examples.read(doc_examples.examples()[name], lake) == [(0, offset) for offset in (0, 2, 3, 5, 6, 8)]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_an_example_reads_beside_a_live_writer(lake: Path, name: str) -> None:
    code = doc_examples.examples()[name]
    with written(lake, pause_seconds=0.01):
        assert doc_examples.read_beside_a_writer(code, lake, reads=20, growths=5) == []


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_of_spark_reads_beside_a_live_writer(lake: Path) -> None:
    with written(lake, pause_seconds=4.0):
        done = subprocess.run(
            [sys.executable, doc_examples.__file__, "Spark", str(lake), "6", "3"],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env=quick_spark_environ(),
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_damaged_segment_is_an_error_and_not_left_out(lake: Path, name: str) -> None:
    segment = min((lake / "orders/0").glob("*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-20])
    with pytest.raises(Exception, match=r"(?i)parquet|magic|footer|out of specification"):
        doc_examples.read(doc_examples.examples()[name], lake)
