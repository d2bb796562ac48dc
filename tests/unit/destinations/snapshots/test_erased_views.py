"""A mirror of snapshots beside an eraser: the next view is made of what was left, and of what the source has."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.clock import ManualClock
from mirrorlake.destinations.snapshots.view import OpenSnapshot
from support.snapshots import snapshots
from unit.destinations.snapshots.test_sink import DELETED, Bench, record


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A view of three keys."""
    with ThreadPoolExecutor(1) as pool:
        bench = Bench(tmp_path, pool)
        bench.log.append(record(b"a", b"1"), record(b"gone", b"secret"), record(b"z", b"1"))
        bench.lease()
        yield bench


def erase(bench: Bench, key: bytes = b"gone", token: str = "token") -> None:
    folder = snapshots(bench.root, "users")
    SnapshotErase(
        folder=folder,
        snapshot=folder.snapshots()[-1],
        keys={key},
        compression="zstd-1",
        writer="eraser",
        token=token,
        salt=b"",
        clock=ManualClock(),
    ).run()


def test_the_next_view_is_without_the_key(bench: Bench) -> None:
    erase(bench)
    assert bench.ranges() == ["1-2"]
    bench.log.append(record(b"a", b"2"))
    bench.lease()
    assert bench.ranges() == ["1-2", "3-3"]
    assert bench.held() == {b"a": b"2", b"z": b"1"}


def test_a_later_record_of_the_source_brings_the_key_again(bench: Bench) -> None:
    erase(bench)
    bench.log.append(record(b"gone", b"again"))
    bench.lease()
    assert bench.held() == {b"a": b"1", b"gone": b"again", b"z": b"1"}


def test_a_view_that_is_built_anew_is_what_the_source_has(bench: Bench) -> None:
    """More than half of `delete.retention.ms` has passed, and the log has lost an offset since."""
    erase(bench)
    bench.clock.advance(60.0)
    bench.log.append(record(b"a", b"2"), record(b"a", b"3"))
    bench.log.clean()
    bench.lease()
    assert bench.held() == {b"a": b"3", b"gone": b"secret", b"z": b"1"}


def test_a_late_mirror_of_a_dense_log_does_not_bring_it_back(bench: Bench) -> None:
    erase(bench)
    bench.clock.advance(60.0)
    bench.log.append(record(b"a", b"2"))
    bench.lease()
    assert bench.held() == {b"a": b"2", b"z": b"1"}


@pytest.mark.parametrize("before", [True, False], ids=["before it is read", "after it was read"])
def test_a_view_that_was_being_made_of_the_old_one_is_made_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    bench.rule = DELETED
    original = OpenSnapshot._write_view
    seen: list[str] = []

    def erased_meanwhile(self: OpenSnapshot, *arguments: object, **options: object) -> object:
        if before and not seen:
            erase(bench)
        seen.append("written")
        try:
            return original(self, *arguments, **options)  # type: ignore[arg-type]
        finally:
            if not before and len(seen) == 1:
                erase(bench)

    monkeypatch.setattr(OpenSnapshot, "_write_view", erased_meanwhile)
    bench.log.append(record(b"a", b"2"))
    bench.lease()
    assert len(seen) == 2
    assert bench.held() == {b"a": b"2", b"z": b"1"}
    assert bench.ranges() == ["1-2", "3-3"]
