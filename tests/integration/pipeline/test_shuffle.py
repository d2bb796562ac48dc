"""Shuffles on Spark: all blocks of a bucket come together in their order, whatever workers die."""

from pathlib import Path

import pytest

from mirrorlake.errors import ExecutorUncheckedError, OutcomeUnknownError
from mirrorlake.pipeline.session import EngineSession
from mirrorlake.pipeline.shuffle_job import run_shuffle, shuffled_in_process

WORKS = "shuffle_works"


def shuffle(engine: EngineSession, work: str, *orders: bytes, buckets: int = 3) -> dict[object, object]:
    plans = [b"plan %d" % bucket for bucket in range(buckets)]
    rows = engine.run_shuffle(f"{WORKS}:{work}", f"{WORKS}:listed", orders, plans=plans, description=f"shuffle {work}")
    assert [row["plan"] for row in rows] == [b"plan %s" % str(row["bucket"]).encode() for row in rows]
    return {row["bucket"]: row["names"] for row in rows}


@pytest.mark.slow
def test_the_blocks_of_each_bucket_come_together_in_their_order(engine: EngineSession) -> None:
    found = shuffle(engine, "spread", b"0", b"1", b"2")
    assert found == {
        bucket: [f"{bucket}.{part}.{minor}" for part in range(3) for minor in range(4)] for bucket in range(3)
    }


def test_a_worker_that_dies_half_way_is_made_up_for_and_nothing_comes_twice(
    engine: EngineSession, tmp_path: Path
) -> None:
    mark = tmp_path / "died"
    assert shuffle(engine, "dies_once", str(mark).encode(), buckets=2) == {0: ["half"], 1: ["whole"]}
    assert mark.exists()


def test_work_that_raises_gives_the_job_up_with_its_words(engine: EngineSession) -> None:
    with pytest.raises(OutcomeUnknownError, match="cannot read"):
        shuffle(engine, "fails", b"this")


def test_a_shuffle_that_spark_gives_up_as_nobody_had_looked_at_its_executors_says_so(engine: EngineSession) -> None:
    works = f"{WORKS}:comes_to_a_stranger", f"{WORKS}:listed"
    with pytest.raises(ExecutorUncheckedError, match="was not looked at yet"):
        run_shuffle(engine.jobs, *works, [b"this"], plans=[b""], description="shuffle", executors=["1"])


def test_without_spark_it_is_the_same() -> None:
    here = f"integration.pipeline.{WORKS}"
    rows = shuffled_in_process(f"{here}:spread", f"{here}:listed", [b"1", b"0"], plans=[b""] * 3)
    assert {row["bucket"]: row["names"] for row in rows} == {
        bucket: [f"{bucket}.{part}.{minor}" for part in range(2) for minor in range(4)] for bucket in range(3)
    }
