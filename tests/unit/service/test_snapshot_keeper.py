"""The thread that removes followed snapshots: what it leaves alone, and what it says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.snapshots.followed import GRACE_SECONDS, remove_followed
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.offsets import TopicPartition
from mirrorlake.service import snapshot_keeper
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Selection
from mirrorlake.service.snapshot_keeper import SnapshotKeeper
from support.leases import as_snapshots
from support.snapshots import names, snapshots
from unit.destinations.snapshots.test_sink import Bench as Views
from unit.destinations.snapshots.test_sink import record
from unit.service.test_supervisor import Bench, archive_state


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Views]:
    """Two snapshots."""
    with ThreadPoolExecutor(1) as executor:
        bench = Views(tmp_path, executor)
        for number in range(2):
            bench.log.append(record(b"k", b"%d" % number))
            bench.lease()
        yield bench


def state_of(views: Views, *, kept: int | None, number: int = 0) -> PartitionState:
    state = archive_state(number)
    assert isinstance(state.work, ArchiveWork)
    settings = replace(
        state.work.settings,
        source=TopicPartition("users", 0),
        cluster_id="cluster",
        topic_id="topic",
        snapshots_kept=kept,
    )
    state.work = as_snapshots(replace(state.work, settings=settings), SnapshotRule())
    state.archived = snapshots(views.root, "users")
    return state


def look(views: Views, state: PartitionState) -> int:
    """Looks once when the newest has been there for a while; returns how many snapshots are left."""
    clock = ManualClock(views.clock.now_seconds() + GRACE_SECONDS)
    SnapshotKeeper(Bench(state).table, seconds=1.0, clock=clock).look_at_all()
    return len(names(views.root, "users"))


def test_views_that_were_followed_go(views: Views) -> None:
    assert look(views, state_of(views, kept=1)) == 1


def test_all_stay_where_the_form_keeps_all_and_where_the_partition_is_parked(views: Views) -> None:
    assert look(views, state_of(views, kept=None)) == 2
    state = state_of(views, kept=1)
    state.is_parked = True
    assert look(views, state) == 2


def test_all_stay_while_the_partition_is_paused(views: Views) -> None:
    table = Bench(state_of(views, kept=1)).table
    keeper = SnapshotKeeper(table, seconds=1.0, clock=ManualClock(views.clock.now_seconds() + GRACE_SECONDS))
    for is_paused, left in ((True, 2), (False, 1)):
        table.set_paused(Selection(mirror="m"), is_paused=is_paused)
        keeper.look_at_all()
        assert len(names(views.root, "users")) == left


def test_a_newest_view_that_is_damaged_stops_its_partition_and_nothing_goes(views: Views) -> None:
    newest = views.root / "users/0" / names(views.root, "users")[-1]
    data = bytearray(newest.read_bytes())
    data[20] ^= 1
    newest.write_bytes(bytes(data))
    state = state_of(views, kept=1)
    assert look(views, state) == 2
    assert state.is_parked
    assert newest.name in str(state.error)


def test_an_unforeseen_error_at_one_partition_keeps_no_other_from_being_looked_at(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, state = state_of(views, kept=1), state_of(views, kept=1, number=1)

    def remove(folder: SnapshotPartition, **more: Any) -> tuple[Segment, ...]:
        if folder is broken.archived:
            raise RuntimeError("a bug")
        return remove_followed(folder, **more)

    monkeypatch.setattr(snapshot_keeper, "remove_followed", remove)
    clock = ManualClock(views.clock.now_seconds() + GRACE_SECONDS)
    SnapshotKeeper(Bench(broken, state).table, seconds=1.0, clock=clock).look_at_all()
    assert len(names(views.root, "users")) == 1
