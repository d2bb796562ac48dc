"""What comes into an archive while it is checked is not said to be missing; what is gone is."""

import shutil
from pathlib import Path

import pytest

from mirrorlake.service.archives.missing import find_missing
from mirrorlake.service.archives.places import Filters, places_below
from mirrorlake.service.archives.reports import read_names
from support.archives import mark_archive, write_archive, write_segment


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write_archive(tmp_path, "orders", 0, 20)
    mark_archive(tmp_path, {"orders": {0: 20}})
    return tmp_path


@pytest.mark.parametrize("is_lost_again", [False, True])
def test_what_a_writer_adds_and_records_after_the_look_is_missing_only_where_it_is_gone(
    lake: Path, is_lost_again: bool
) -> None:
    survey = places_below(lake, Filters())
    reports = read_names(survey.places)
    added = [write_segment(lake, "orders", 0, 20, 30), write_segment(lake, "orders", 1, 0, 10)]
    write_segment(lake, "bills", 0, 0, 10)
    mark_archive(lake, {"orders": {0: 30, 1: 10}, "bills": {0: 10}})
    if is_lost_again:
        for segment in added:
            segment.unlink()
        shutil.rmtree(lake / "bills")

    missing = find_missing(survey, reports)

    assert [(each.name, each.partition) for each in missing] == (
        [("bills", None), ("orders", 1)] if is_lost_again else []
    )
    (report,) = reports
    assert len(report.names.problems) == is_lost_again
