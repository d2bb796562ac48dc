"""Segments that are merged away while an archive is checked are no fault; what is gone or damaged is one."""

from pathlib import Path

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.inspection import check_segment
from mirrorlake.service.archives import reports as module
from mirrorlake.service.archives.places import Filters, places_below
from mirrorlake.service.archives.reports import check_contents, read_names
from support.archives import mark_archive, write_segment


@pytest.mark.parametrize(
    ("merged_to", "is_damaged", "problems"),
    [
        pytest.param(30, False, [], id="merged"),
        pytest.param(30, True, ["00000000000000000000-00000000000000000029.parquet"], id="merged and damaged"),
        pytest.param(20, False, ["expected a segment from 20"], id="one of them is lost"),
    ],
)
def test_segments_that_go_after_they_were_listed_are_looked_for_in_what_took_their_place(
    merged_to: int, is_damaged: bool, problems: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write_segment(tmp_path, "orders", 0, start, start + 10) for start in (0, 10, 20, 30)]
    mark_archive(tmp_path, {"orders": {0: 40}})
    is_first = True

    def check(archived: PartitionFolder, segment: Segment) -> SegmentFooter | None:
        nonlocal is_first
        if is_first:
            is_first = False
            merged = write_segment(tmp_path, "orders", 0, 0, merged_to)
            if is_damaged:
                merged.write_bytes(merged.read_bytes().replace(b"value", b"vague", 1))
            for each in files[:3]:
                each.unlink()
        return check_segment(archived, segment)

    found = read_names(places_below(tmp_path, Filters()).places)
    monkeypatch.setattr(module, "READS_AT_ONCE", 1)
    monkeypatch.setattr(module, "check_segment", check)

    check_contents(found, progressed=lambda _: None)

    said = [each.message for report in found for each in report.names.problems]
    assert len(said) == len(problems), said
    for one, wanted in zip(said, problems, strict=True):
        assert wanted in one
