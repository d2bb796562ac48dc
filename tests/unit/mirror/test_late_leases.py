"""A lease that comes to its worker after the time by which it must begin: it touches nothing and says so."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import LeaseLateError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.moments import Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.mark import SourceMark
from support.leases import archive_work, as_snapshots, kafka_work, lease_plan, map_work

SOURCE = TopicPartition("orders", 3)


class Listener:
    """A server that takes connections and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.0)
        self.address = "{}:{}".format(*self._socket.getsockname())

    def was_connected(self) -> bool:
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def works(server: Listener, lake: Path) -> dict[str, DestinationWork]:
    archive = archive_work(lake, SOURCE, end=10)
    return {
        "preserve": kafka_work(server.address, SOURCE),
        "map": map_work(server.address, SOURCE),
        "archive": archive,
        "snapshots": as_snapshots(archive, SnapshotRule()),
    }


@pytest.mark.parametrize("late_seconds", [0.001, 60.0, -60.0])
@pytest.mark.parametrize("kind", ["preserve", "map", "archive", "snapshots"])
def test_a_lease_asks_and_writes_nothing_if_and_only_if_it_is_late(
    kind: str, late_seconds: float, server: Listener, tmp_path: Path
) -> None:
    work = works(server, tmp_path / "lake")[kind]
    begins_by = Moment.of(SystemClock(), in_seconds=-late_seconds)
    plan = replace(lease_plan(server.address, [(SOURCE, [work])], end=10, seconds=0.3), begins_by=begins_by)
    worker = Worker()
    try:
        (row,) = worker.run(plan)
    finally:
        worker.close()
    assert (row.mirror, row.source, row.destination) == ("test", SOURCE, work.destination)
    assert row.position is None
    is_late = late_seconds > 0
    assert isinstance(row.error, LeaseLateError) == is_late
    if is_late:
        assert not server.was_connected()
        assert not (tmp_path / "lake").exists()


def test_a_late_row_keeps_what_is_known_of_the_source(server: Listener) -> None:
    mark = SourceMark(epoch=4, offset=17, leader_epoch=4)
    (partition,) = lease_plan(server.address, [(SOURCE, [kafka_work(server.address, SOURCE)])], end=10).partitions
    plan = replace(
        lease_plan(server.address, [], end=10),
        partitions=(replace(partition, marks=(mark,)),),
        begins_by=Moment.of(SystemClock(), in_seconds=-1.0),
    )
    worker = Worker()
    try:
        (row,) = worker.run(plan)
    finally:
        worker.close()
    assert row.mark == mark
