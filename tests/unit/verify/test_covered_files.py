"""What lies beside an archive's chain, and other readers of the folder read: `verify` looks at its name too."""

from pathlib import Path

import pytest

from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.digest import Block
from mirrorlake.verify.digest_tasks import WORK
from mirrorlake.verify.positions import verify_checksums, verify_names
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import DigestResult
from support.archives import write_archive
from support.golden import segment_name
from unit.service.test_states import NATIVE, target_at


def same_on_both_sides(task: BatchTask) -> list[LeaseRow]:
    """The digests of ten records, whichever side is asked."""
    assert task.work == WORK
    blocks = {0: Block(records=10, digest=1)}
    return [{"kind": "digest", "result": DigestResult(records=10, covered=10, blocks=blocks)}]


def by_records(rows: list[StatusRow]) -> list[Verdict]:
    return RecordVerification(rows, run_task=same_on_both_sides, tasks_at_once=1).run()


LEVELS = {
    "names": verify_names,
    "checksums": lambda rows: verify_checksums(rows, progressed=lambda _: None),
    "records": by_records,
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_copy_beside_which_a_renamed_file_lies_is_not_equal(tmp_path: Path, level: str) -> None:
    _, newest = write_archive(tmp_path, "orders", 0, 5, 10)
    row = StatusRow(target=target_at(tmp_path, NATIVE), source_start=0, source_end=10, position=10)
    (verdict,) = LEVELS[level]([row])
    assert (verdict.result, verdict.offsets) == (Result.EQUAL, OffsetRange(start_offset=0, end_offset=10))
    (newest.parent / segment_name(5, 7)).write_bytes(newest.read_bytes())
    (verdict,) = LEVELS[level]([row])
    assert verdict.result is not Result.EQUAL
    assert segment_name(5, 7) in str(verdict.error)
