"""The file in which a lease says how far it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.mirror.told_progress import TELL_SECONDS, ProgressTeller, ToldProgress, read_told
from mirrorlake.offsets import TopicPartition

FIRST = ToldProgress("m", TopicPartition("orders", 0), "west", position=10, records=10, raw_bytes=100)
SECOND = replace(FIRST, position=20, records=18, raw_bytes=180)


def test_what_has_moved_is_told_every_second_and_as_a_whole(tmp_path: Path) -> None:
    clock, file = ManualClock(), tmp_path / "progress-7"
    done = [FIRST]
    teller = ProgressTeller(str(file), clock, lambda: done)
    teller.turn()
    assert read_told(str(file)) == ()
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert read_told(str(file)) == (FIRST,)
    done[0] = SECOND
    teller.turn()
    assert read_told(str(file)) == (FIRST,)
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert read_told(str(file)) == (SECOND,)
    assert list(tmp_path.iterdir()) == [file]


def test_a_lease_that_does_nothing_writes_nothing(tmp_path: Path) -> None:
    clock, file = ManualClock(), tmp_path / "progress-7"
    done: list[ToldProgress] = []
    teller = ProgressTeller(str(file), clock, lambda: done)
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert list(tmp_path.iterdir()) == []
    done.append(FIRST)
    clock.advance(TELL_SECONDS)
    teller.turn()
    file.unlink()
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_costs_what_would_be_told_and_nothing_else(tmp_path: Path) -> None:
    clock, file = ManualClock(), tmp_path / "gone" / "progress-7"
    teller = ProgressTeller(str(file), clock, lambda: [FIRST])
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert read_told(str(file)) == ()
    file.parent.mkdir()
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert read_told(str(file)) == (FIRST,)


def test_where_nobody_could_read_it_nothing_is_told() -> None:
    clock = ManualClock()

    def never() -> list[ToldProgress]:
        raise AssertionError

    teller = ProgressTeller("", clock, never)
    clock.advance(TELL_SECONDS)
    teller.turn()
    assert read_told("") == ()


@pytest.mark.parametrize("content", [b"", b"\x80", b"garbage"])
def test_a_file_with_anything_else_in_it_tells_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "progress-7"
    file.write_bytes(content)
    assert read_told(str(file)) == ()
