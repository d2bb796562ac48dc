"""Which snapshots may go: those that newer ones have followed long enough, once the newest was read back."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.maintenance.holds import RETIRE_SECONDS_MAX
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.followed import GRACE_SECONDS, followed_snapshots, remove_followed
from mirrorlake.errors import ChainBrokenError
from support.snapshots import names, snapshots, view
from unit.destinations.snapshots.test_sink import Bench, record

ORIGIN = Origin(cluster_id="cluster", topic="users", topic_id="topic", partition=0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three snapshots, made one right after the other."""
    with ThreadPoolExecutor(1) as executor:
        bench = Bench(tmp_path, executor)
        for number in range(3):
            bench.log.append(record(b"k%d" % number, b"v"), record(b"k", b"%d" % number))
            bench.lease()
        yield bench


def ranges(bench: Bench) -> list[str]:
    return ["-".join(str(int(part)) for part in name.split(".")[0].split("-")) for name in names(bench.root, "users")]


def remove(bench: Bench, *, kept: int = 1, origin: Origin = ORIGIN, age_seconds: float = GRACE_SECONDS) -> list[str]:
    """Removes what may go; returns what stays."""
    folder, now = snapshots(bench.root, "users"), bench.clock.now_seconds() + age_seconds
    planned = followed_snapshots(folder, kept=kept, origin=origin, now_seconds=now)
    assert remove_followed(folder, kept=kept, origin=origin, now_seconds=now) == planned
    return ranges(bench)


def test_the_newest_stays_and_the_others_go(bench: Bench) -> None:
    held = bench.held()
    assert remove(bench) == ["4-5"]
    assert bench.held() == held == {b"k0": b"v", b"k1": b"v", b"k2": b"v", b"k": b"2"}
    assert remove(bench) == ["4-5"]


def test_the_next_view_goes_on_from_what_stays(bench: Bench) -> None:
    remove(bench)
    bench.log.append(record(b"k", b"3"))
    bench.lease()
    assert bench.held() == {b"k0": b"v", b"k1": b"v", b"k2": b"v", b"k": b"3"}
    assert ranges(bench) == ["4-5", "6-6"]


@pytest.mark.parametrize(
    ("kept", "stay"), [(2, ["2-3", "4-5"]), (3, ["0-1", "2-3", "4-5"]), (9, ["0-1", "2-3", "4-5"])]
)
def test_as_many_stay_as_are_to_be_kept(bench: Bench, kept: int, stay: list[str]) -> None:
    assert remove(bench, kept=kept) == stay


def test_nothing_goes_before_a_later_one_has_been_there_for_a_while(bench: Bench) -> None:
    assert remove(bench, age_seconds=GRACE_SECONDS - 1) == ["0-1", "2-3", "4-5"]


def test_old_ones_go_also_where_new_ones_come_faster_than_any_gets_old(bench: Bench) -> None:
    """Whoever listed the folder before the one that has been there for ten minutes has had as long to read it."""
    bench.clock.advance(GRACE_SECONDS)
    for number in range(3, 6):
        bench.log.append(record(b"k%d" % number, b"v"), record(b"k", b"%d" % number))
        bench.lease()
    held = bench.held()
    assert remove(bench, age_seconds=0) == ["4-5", "6-7", "8-9", "10-11"]
    assert remove(bench, age_seconds=GRACE_SECONDS - 1) == ["4-5", "6-7", "8-9", "10-11"]
    assert remove(bench, kept=2, age_seconds=GRACE_SECONDS) == ["8-9", "10-11"]
    assert bench.held() == held


def test_the_one_that_has_been_there_stays_with_as_many_as_are_kept(bench: Bench) -> None:
    bench.clock.advance(GRACE_SECONDS)
    bench.log.append(record(b"new", b"v"))
    bench.lease()
    assert remove(bench, kept=3, age_seconds=0) == ["2-3", "4-5", "6-6"]


def test_nothing_goes_where_the_newest_cannot_be_read_back(bench: Bench) -> None:
    newest = bench.root / "users/0" / names(bench.root, "users")[-1]
    data = bytearray(newest.read_bytes())
    data[20] ^= 1
    newest.write_bytes(bytes(data))
    with pytest.raises(ChainBrokenError, match=newest.name):
        remove(bench)
    assert ranges(bench) == ["0-1", "2-3", "4-5"]


def test_nothing_of_another_source_goes_and_nothing_beside_its_newest(bench: Bench) -> None:
    assert remove(bench, origin=replace(ORIGIN, topic_id="recreated")) == ["0-1", "2-3", "4-5"]


def test_what_does_not_say_that_it_is_a_snapshot_stays(bench: Bench) -> None:
    """It may be mirror-v3's, a segment of every record, or damaged."""
    first = bench.root / "users/0" / names(bench.root, "users")[0]
    first.write_bytes(b"PAR1 or not")
    assert remove(bench) == ["0-1", "4-5"]


def test_a_view_is_whole_while_older_ones_go(bench: Bench) -> None:
    folder = snapshots(bench.root, "users")
    chain = folder.read_chain()
    remove(bench)
    assert chain.tail is not None
    assert folder.read_end(chain.tail).position == 6
    assert len(view(bench.root, "users")) == 4


@pytest.mark.parametrize("hold", ["_hold-case", "_hold-case.0", f"_hold-case.0.{0:020}-{1:020}", "_hold-case.odd"])
def test_all_stay_while_anything_of_the_partition_is_held(bench: Bench, hold: str) -> None:
    held = bench.root / "users" / hold
    held.write_bytes(b"")
    assert remove(bench) == ["0-1", "2-3", "4-5"]
    held.unlink()
    (bench.root / "users" / "_hold-case.1").write_bytes(b"")
    assert remove(bench) == ["4-5"]


@pytest.mark.parametrize("is_held", [False, True])
def test_what_a_dead_run_announced_goes_also_where_nothing_else_does(bench: Bench, is_held: bool) -> None:
    if is_held:
        (bench.root / "users" / "_hold-case").write_bytes(b"")
    folder, now = bench.root / "users" / "0", bench.clock.now_seconds()
    for name, age in (("dead", RETIRE_SECONDS_MAX + 1), ("live", 0)):
        announced = folder / f"_retire-{6:020}-{name}"
        announced.write_bytes(b"")
        os.utime(announced, (now - age, now - age))
    assert remove_followed(snapshots(bench.root, "users"), kept=9, origin=ORIGIN, now_seconds=now) == ()
    assert [file.name for file in folder.glob("_retire-*")] == [f"_retire-{6:020}-live"]


def test_a_hold_that_comes_after_the_plan_is_seen_before_anything_goes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held_meanwhile(*_: object) -> None:
        (bench.root / "users" / "_hold-case").write_bytes(b"")

    monkeypatch.setattr("mirrorlake.archive.snapshots.followed.check_snapshot_content", held_meanwhile)
    folder, now = snapshots(bench.root, "users"), bench.clock.now_seconds() + GRACE_SECONDS
    assert remove_followed(folder, kept=1, origin=ORIGIN, now_seconds=now) == ()
    assert ranges(bench) == ["0-1", "2-3", "4-5"]
    assert not list((bench.root / "users" / "0").glob("_retire-*"))
