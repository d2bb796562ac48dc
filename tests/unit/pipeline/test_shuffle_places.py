"""Tasks of shuffles run on executors that were looked at, or do nothing; a shuffle that finds none is repeated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from mirrorlake.errors import ExecutorUncheckedError, OutcomeUnknownError
from mirrorlake.pipeline import session as session_module
from mirrorlake.pipeline import shuffle_job
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.session import SHUFFLE_TRIES_MAX, EngineSession
from mirrorlake.pipeline.shuffle_job import Block, _MergeTask, _ReadTask

DONE: list[str] = []


def read(order: bytes) -> Iterator[Block]:
    DONE.append("read")
    yield 0, 0, 0, order


def merge(blocks: Iterator[Block], plans: Sequence[bytes]) -> Iterator[Mapping[str, object]]:
    DONE.append("merge")
    yield {"blocks": [*blocks]}


def run_read(executors: frozenset[str] | None) -> None:
    assert [*_ReadTask(f"{__name__}:read", executors)(iter([b"order"]))] == [(0, 0, 0, b"order")]


def run_merge(executors: frozenset[str] | None) -> None:
    assert len([*_MergeTask(f"{__name__}:merge", [b""], executors)(iter([(0, 0, 0, b"")]))]) == 1


@pytest.mark.parametrize("run", [run_read, run_merge])
@pytest.mark.parametrize(
    ("here", "checked", "may_run"),
    [
        ("2", {"1", "2"}, True),
        ("2", {"1"}, False),
        ("2", set(), False),
        ("2", None, True),  # no cluster: nobody looks
        ("", {"1"}, True),  # a worker that cannot tell whose it is
    ],
)
def test_a_task_of_a_shuffle_does_nothing_on_an_executor_that_was_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[frozenset[str] | None], None],
    here: str,
    checked: set[str] | None,
    may_run: bool,
) -> None:
    DONE.clear()
    monkeypatch.setattr(shuffle_job, "executor_id", lambda: here)
    allowed = None if checked is None else frozenset(checked)
    if may_run:
        run(allowed)
        assert run.__name__ == f"run_{DONE[0]}"
        assert len(DONE) == 1
    else:
        with pytest.raises(ExecutorUncheckedError, match="was not looked at yet, and did nothing"):
            run(allowed)
        assert DONE == []


class FakeWatch:
    """Knows one executor more after each wait for looks."""

    def __init__(self) -> None:
        self.checked = ["1"]
        self.waits = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def await_looks(self, seconds_max: float) -> None:
        assert seconds_max > 0
        self.waits += 1
        self.checked = [*self.checked, str(self.waits + 1)]


class Scene:
    """A session whose shuffles come to executors nobody has looked at, some times; then they bring a row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, watch: FakeWatch | None, refusals: int) -> None:
        self.allowed: list[list[str] | None] = []
        self.refusals = refusals
        self.watch = watch
        monkeypatch.setattr(session_module, "run_shuffle", self._run)
        nothing: Any = None
        given: Any = watch
        self.session = EngineSession(nothing, nothing, nothing, nothing, given, slots=2)

    def _run(self, *_: object, executors: list[str] | None, **__: object) -> list[LeaseRow]:
        self.allowed.append(executors)
        if len(self.allowed) <= self.refusals:
            raise ExecutorUncheckedError("tasks came to executors that were not looked at")
        return [{"kind": "merged"}]

    def shuffle(self) -> list[LeaseRow]:
        try:
            return self.session.run_shuffle("a:b", "c:d", [b""], plans=[b""], description="shuffle")
        finally:
            self.session._end_watch()


def test_a_shuffle_that_came_to_executors_nobody_had_looked_at_begins_again_when_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = FakeWatch()
    scene = Scene(monkeypatch, watch, refusals=2)
    assert scene.shuffle() == [{"kind": "merged"}]
    assert scene.allowed == [["1"], ["1", "2"], ["1", "2", "3"]]


def test_a_shuffle_that_never_comes_to_an_executor_that_was_looked_at_ends_after_some_tries_with_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = FakeWatch()
    scene = Scene(monkeypatch, watch, refusals=100)
    with pytest.raises(OutcomeUnknownError, match="not looked at"):
        scene.shuffle()
    assert (len(scene.allowed), watch.waits) == (SHUFFLE_TRIES_MAX, SHUFFLE_TRIES_MAX - 1)


def test_a_shuffle_on_one_machine_may_run_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, None, refusals=0)
    assert scene.shuffle() == [{"kind": "merged"}]
    assert scene.allowed == [None]
