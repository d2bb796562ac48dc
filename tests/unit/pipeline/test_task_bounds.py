"""How long tasks of batch work may take: for ever none, and far longer than any that works."""

import dataclasses

from mirrorlake.archive.maintenance.merge_plan import MERGED_BYTES_MAX
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.verify.slices import SLICE_OFFSETS


def test_the_largest_merge_may_take_two_hours_and_a_terabyte_twelve_days() -> None:
    assert seconds_for(size_bytes=MERGED_BYTES_MAX) == 3600 + 4096
    assert 12 < seconds_for(size_bytes=1 << 40) / 86400 < 13


def test_a_slice_of_the_largest_records_may_come_at_ten_megabytes_a_second() -> None:
    assert seconds_for(offsets=SLICE_OFFSETS) == 3600 + SLICE_OFFSETS / 10


def test_no_task_of_batch_work_may_take_for_ever() -> None:
    (seconds_max,) = [each for each in dataclasses.fields(BatchTask) if each.name == "seconds_max"]
    assert seconds_max.default is dataclasses.MISSING, "whoever makes one says how long it may take"
