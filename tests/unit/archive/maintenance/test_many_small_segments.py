"""Many small segments become few, and hold what they held."""

import time
from pathlib import Path

import numpy as np
import pytest

from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merge_plan import MergeRules, MergeStep, plan_merge
from mirrorlake.archive.maintenance.merging import GroupMerge
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.clock import SystemClock
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import write_archive

RULES = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=64 << 20),), bytes_min=0)


@pytest.mark.parametrize("count", [120, pytest.param(10_000, marks=pytest.mark.soak)])
def test_small_segments_are_merged_and_read_back(tmp_path: Path, count: int) -> None:
    write_archive(tmp_path, "orders", 0, *range(10, 10 * count + 1, 10))
    archived = ArchivedPartition(FilesystemStore(tmp_path), destination_name="orders", partition=0, extension="parquet")
    plan = plan_merge(look_at(archived), RULES, now_seconds=time.time())
    for number, group in enumerate(plan.groups):
        merge = GroupMerge(
            archived,
            group.inputs,
            compression="zstd-1",
            writer="merger",
            token=f"t{number}",
            clock=SystemClock(),
        )
        assert merge.run(deletes_inputs=True).deleted == len(group.inputs)
    assert len(look_at(archived).chain) == len(plan.groups) + 1 == -(-(count - 1) // RULES.files_max) + 1
    assert not look_at(archived).covered
    read = read_archived_range(archived, OffsetRange(start_offset=0, end_offset=10 * count))
    offsets = np.concatenate([columns.offsets for columns in read])
    assert offsets.tolist() == [offset for offset in range(10 * count) if offset % 10 != 7]
    assert check_archived_content(archived) == len(plan.groups) + 1
