"""What becomes of a program without executors, by what its master says of it."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import structlog.testing

from mirrorlake.pipeline.cluster.master import (
    SAY_SECONDS,
    WITHOUT_SECONDS,
    MasterWatch,
    Standing,
    is_reachable,
    is_standalone,
)


class Program:
    """Executors, a master and a clock, all in hand."""

    def __init__(self) -> None:
        self.has_executors = True
        self.standing = Standing.KNOWN
        self.asked = 0
        self.ended = 0
        self.now = 100.0
        self.watch = MasterWatch(
            lambda: self.has_executors, self._standing, self._end, elapsed_seconds=lambda: self.now, seconds=3600.0
        )

    def _standing(self) -> Standing:
        self.asked += 1
        return self.standing

    def _end(self) -> None:
        self.ended += 1

    def look(self, after_seconds: float = 0.0) -> None:
        self.now += after_seconds
        self.watch._round()


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


@pytest.fixture
def program(said: list[Any]) -> Program:
    program = Program()
    program.look()
    program.has_executors = False
    program.look()
    return program


def test_a_master_is_asked_only_where_there_were_no_executors_for_a_while(program: Program) -> None:
    program.look(WITHOUT_SECONDS - 0.1)
    assert program.asked == 0
    program.has_executors = True
    program.look(0.2)
    program.has_executors = False
    program.look()
    program.look(WITHOUT_SECONDS - 0.1)
    assert program.asked == 0
    program.look(0.2)
    assert program.asked == 1


def test_a_program_that_its_master_has_forgotten_is_ended_once(program: Program, said: list[Any]) -> None:
    program.standing = Standing.UNKNOWN
    program.look(WITHOUT_SECONDS)
    program.look(WITHOUT_SECONDS)
    assert program.ended == 1
    assert [line["event"] for line in said] == [
        "Spark's master no longer knows this program, which has no executors: Spark is started again"
    ]


@pytest.mark.parametrize("standing", [Standing.KNOWN, Standing.UNREACHABLE])
def test_it_is_not_ended_where_workers_or_the_master_are_away(program: Program, standing: Standing) -> None:
    program.standing = standing
    for _ in range(100):
        program.look(WITHOUT_SECONDS)
    assert program.ended == 0


def test_why_there_are_none_is_said_now_and_then(program: Program, said: list[Any]) -> None:
    program.look(WITHOUT_SECONDS)
    program.look(SAY_SECONDS - 0.1)
    assert [(line["event"], line["seconds"]) for line in said] == [("Spark has no executors, nothing is copied", 20)]
    assert said[0]["why"] == "its master gives none: no worker has the free cores and memory for one"
    program.standing = Standing.UNREACHABLE
    program.look(0.2)
    assert [line["why"] for line in said[1:]] == ["its master cannot be reached"]


def test_an_executor_that_comes_while_the_master_is_asked_keeps_the_program(program: Program) -> None:
    def late() -> Standing:
        program.has_executors = True
        return Standing.UNKNOWN

    set_standing: Callable[[], Standing] = late
    program.watch._standing = set_standing
    program.look(WITHOUT_SECONDS)
    assert program.ended == 0


def test_one_of_several_addresses_of_a_master_will_do() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_server(("127.0.0.1", 0))) as b,
    ):
        port, gone = server.getsockname()[1], b.getsockname()[1]
        b.close()
        assert is_reachable(f"spark://127.0.0.1:{port}")
        assert is_reachable(f"spark://127.0.0.1:{gone},127.0.0.1:{port}")
        assert not is_reachable(f"spark://127.0.0.1:{gone}")


@pytest.mark.parametrize(
    ("master", "expected"),
    [("spark://h:7077", True), ("k8s://h", False), ("yarn", False), ("local[2]", False), (None, False)],
)
def test_only_a_standalone_master_forgets_programs(master: str | None, expected: bool) -> None:
    assert is_standalone(master) is expected
