"""What is shown of the schedules of archives: as metrics, and to who asks the service."""

from prometheus_client import CollectorRegistry, generate_latest

from mirrorlake.errors import ChainBrokenError
from mirrorlake.service.archives.scheduled import KeepingOutcome, KeepingResult
from mirrorlake.service.sight.keeping_board import KeepingBoard

MERGE = ("trade", "lake", "merge")
LABELS = 'destination="lake",mirror="trade",work="merge"'


def series(board: KeepingBoard) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(board)
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for line in lines if line[0] != "#" for name, _, value in [line.rpartition(" ")]}


def test_without_a_schedule_there_is_nothing() -> None:
    board = KeepingBoard()
    assert series(board) == {}
    assert board.rows() == []


def test_before_its_first_run_only_the_next_one_is_known() -> None:
    board = KeepingBoard()
    board.planned(MERGE, 1_700_000_900.0)
    found = series(board)
    assert found[f"mirrorlake_archive_next_run_timestamp_seconds{{{LABELS}}}"] == 1_700_000_900.0
    assert not [name for name in found if "last_run" in name or "last_success" in name]
    (row,) = board.rows()
    assert (row["ended"], row["result"], row["files"], row["next"]) == (None, None, None, "2023-11-14T22:28:20Z")


def test_runs_add_up_and_a_failed_one_leaves_the_last_success_where_it_was() -> None:
    board = KeepingBoard()
    done = KeepingOutcome(files=5, size_bytes=500, made=1, made_bytes=400)
    failed = KeepingOutcome(
        result=KeepingResult.FAILED, files=2, size_bytes=20, failures=3, error=ChainBrokenError("orders/0 is broken")
    )
    for outcome, now in ((done, 100.0), (done, 200.0), (failed, 300.0)):
        board.began(MERGE, now - 1.5)
        assert board.rows()[0]["is_running"] is True
        board.ended(MERGE, outcome, now_seconds=now, seconds=1.5)
    found = series(board)
    for name, value in (
        ("last_run_timestamp_seconds", 300.0),
        ("last_success_timestamp_seconds", 200.0),
        ("run_seconds", 1.5),
        ("files_total", 12),
        ("bytes_total", 1020),
        ("made_bytes_total", 800),
        ("failures_total", 3),
    ):
        assert found[f"mirrorlake_archive_{name}{{{LABELS}}}"] == value, name
    runs = {
        result: found[
            f'mirrorlake_archive_runs_total{{destination="lake",mirror="trade",result="{result}",work="merge"}}'
        ]
        for result in ("done", "failed", "stopped")
    }
    assert runs == {"done": 2, "failed": 1, "stopped": 0}
    (row,) = board.rows()
    assert (row["is_running"], row["result"], row["failures"], row["error"]) == (
        False,
        "failed",
        3,
        "orders/0 is broken",
    )
