"""What ``status`` says below its table."""

from mirrorlake.cli.output import Row
from mirrorlake.cli.status import failing_copies, stale_copies, waiting_copies


def row(name: str, partition: int, **more: str) -> Row:
    return {"name": name, "topic": "orders", "partition": partition, "destination": "west", **more}


def test_stale_copies_are_counted_by_mirror_and_destination_and_some_are_named() -> None:
    stale = [row("trade", n, stale=f"behind its source for {n}0 s") for n in range(1, 6)]
    one = row("pay", 0, stale="may be behind: its source has not told its end for 70 s")
    assert stale_copies([row("trade", 0), *stale, one]) == [
        "trade → west: stale copies of 5 partition(s): orders-1 (behind its source for 10 s), "
        "orders-2 (behind its source for 20 s), orders-3 (behind its source for 30 s), …",
        "pay → west: stale copies of 1 partition(s): "
        "orders-0 (may be behind: its source has not told its end for 70 s)",
    ]
    assert stale_copies([row("trade", 0)]) == []


def test_partitions_that_are_tried_again_are_counted_with_what_they_fail_at() -> None:
    full = [row("trade", n, failing="no space") for n in range(1, 6)]
    assert failing_copies([row("trade", 0), *full, row("pay", 0, failing="no server answered")]) == [
        "trade → west: tries again after a failure: 5 partition(s): orders-1 (no space), orders-2 (no space), "
        "orders-3 (no space), …",
        "pay → west: tries again after a failure: 1 partition(s): orders-0 (no server answered)",
    ]
    assert failing_copies([row("trade", 0)]) == []


def test_what_waits_is_said_in_a_line_for_each_mirror_and_destination() -> None:
    waits = [row("trade", n, waiting=f"schema ids 5 from offset {n} on are not known yet") for n in range(1, 3)]
    assert waiting_copies([row("trade", 0), *waits]) == [
        "trade → west: waits, with nothing wrong, in 2 partition(s): orders-1 (schema ids 5 from offset 1 on are not "
        "known yet), orders-2 (schema ids 5 from offset 2 on are not known yet)"
    ]
    assert waiting_copies([row("trade", 0)]) == []
