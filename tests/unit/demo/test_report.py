from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mirrorlake.demo.loading import Content
from mirrorlake.demo.report import ArchiveSize, CopiedLeg, archive_size, closing_rows, explanation, verdicts

WEST = CopiedLeg(
    topic="orders",
    destination="west",
    content=Content(records=1000, record_bytes=4_000_000, wire_bytes=1_000_000),
    seconds=2.0,
    added=10,
    verdict="equal",
)
LAKE = CopiedLeg(
    topic="orders",
    destination="lake",
    content=Content(records=1000, record_bytes=4_000_000, wire_bytes=1_000_000),
    seconds=4.0,
    added=10,
    verdict="equal",
)


def test_speeds_are_records_and_megabytes_by_the_seconds_of_the_leg_and_of_all_together() -> None:
    assert closing_rows([WEST, LAKE], seconds=5.0) == [
        {
            "topic": "orders",
            "to": "west",
            "records": 1000,
            "mb": 4.0,
            "seconds": 2.0,
            "records/s": 500,
            "mb/s": 2.0,
            "added": 10,
            "verified": "equal",
        },
        {
            "topic": "orders",
            "to": "lake",
            "records": 1000,
            "mb": 4.0,
            "seconds": 4.0,
            "records/s": 250,
            "mb/s": 1.0,
            "added": 10,
            "verified": "equal",
        },
        {
            "topic": "all",
            "to": "",
            "records": 2000,
            "mb": 8.0,
            "seconds": 5.0,
            "records/s": 400,
            "mb/s": 1.6,
            "added": 20,
            "verified": "equal",
        },
    ]


def test_a_leg_that_was_never_seen_complete_has_no_speed() -> None:
    (row, _) = closing_rows([replace(WEST, seconds=0.0)], seconds=0.0)

    assert (row["records/s"], row["mb/s"]) == (None, None)


def test_one_leg_that_differs_makes_all_differ() -> None:
    differs = replace(LAKE, verdict="differs")

    assert closing_rows([WEST, differs], seconds=5.0)[-1]["verified"] == "differs"


def test_a_leg_is_equal_where_every_partition_is_and_every_record_was_seen() -> None:
    rows: list[Mapping[str, object]] = [
        {"topic": "orders", "destination": "west", "result": "equal", "records": 600},
        {"topic": "orders", "destination": "west", "result": "equal", "records": 410},
        {"topic": "orders", "destination": "lake", "result": "equal", "records": 600},
        {"topic": "orders", "destination": "lake", "result": "equal", "records": 400},
        {"topic": "ledger", "destination": "lake", "result": "equal", "records": 5},
        {"topic": "ledger", "destination": "lake", "result": "failed", "records": None},
    ]

    assert verdicts(rows, {"orders": 1010, "ledger": 5}) == {
        ("orders", "west"): "equal",
        ("orders", "lake"): "1000 of 1010",
        ("ledger", "lake"): "failed",
    }


def test_the_archives_size_is_that_of_its_published_files(tmp_path: Path) -> None:
    folder = tmp_path / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"12345")
    (folder / "b.parquet").write_bytes(b"123")
    (folder / "_claim-7").write_bytes(b"1")

    assert archive_size(tmp_path) == ArchiveSize(files=2, file_bytes=8)


def test_the_explanation_names_the_archives_size() -> None:
    lines = explanation([WEST, LAKE], ArchiveSize(files=3, file_bytes=1_500_000))

    assert lines[-1] == "The archive: 3 Parquet files, 1.5 MB, for 4.0 MB of records in the first run."
