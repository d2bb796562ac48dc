"""A partition none of whose records is as late as the mirror wants: nothing is begun, and nothing is to be read."""

from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.positions import verify_names
from mirrorlake.verify.verdict import Result
from mirrorlake.verify.verification import RecordVerification
from unit.service.test_states import target_at

LATE = """
clusters: {{west: {{bootstrap-servers: "localhost:9092"}}}}
stores: {{lake: {{type: filesystem, root: "{root}"}}, other: {{type: filesystem, root: "{root}/other"}}}}
mirrors:
  - name: late
    source: {{store: lake, topics: [orders], from: "2026-11-20T12:00:00.000Z"}}
    destinations: [DESTINATION]
"""
DESTINATIONS = {
    "preserve": "{{type: kafka, cluster: west}}",
    "map": "{{type: kafka, cluster: west, offsets: map}}",
    "archive": "{{type: archive, store: other}}",
}


def nothing_is_read(task: BatchTask) -> list[LeaseRow]:
    raise AssertionError(task.description)


@pytest.mark.parametrize("level", ["names", "records"])
@pytest.mark.parametrize("destination", DESTINATIONS)
def test_a_partition_that_was_not_begun_is_equal_wherever_it_goes(tmp_path: Path, destination: str, level: str) -> None:
    (tmp_path / "other").mkdir()
    target = replace(target_at(tmp_path, LATE.replace("DESTINATION", DESTINATIONS[destination])), is_due=False)
    row = StatusRow(target=target, source_start=0, source_end=0, position=0)
    records = RecordVerification([row], run_task=nothing_is_read, tasks_at_once=1)
    (verdict,) = records.run() if level == "records" else verify_names([row])
    assert (verdict.result, verdict.offsets) == (Result.EQUAL, OffsetRange(start_offset=0, end_offset=0)), verdict.error
