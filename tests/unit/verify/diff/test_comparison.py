"""What was seen first must still be there, and what a task did not tell is not known."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.verify.diff.comparison import side_result, unmoved, without_repeats
from mirrorlake.verify.diff.looks import archive_work
from mirrorlake.verify.diff.ranges import Look
from mirrorlake.verify.diff.side import Pair, Place, alone
from mirrorlake.verify.diff.values import Difference, How, Result, Unread
from mirrorlake.verify.diff.verdict import Verdict, result_of
from mirrorlake.verify.worker import SourceSide

OFFSETS = OffsetRange(start_offset=5, end_offset=9)


def place(name: str) -> Place:
    work = ArchiveSourceWork(store_name=name, store=FilesystemSettings(root=Path(f"/{name}")))
    return Place(work=work, topic="orders")


PAIR = Pair(a=place("one"), b=place("two"), partition=0)
EQUAL = Verdict(a="one:orders", b="two:orders", partition=0, result=Result.EQUAL)


def look(end: int, identity: str = "x", begin: int = 0) -> Look:
    return Look(begin=begin, start=begin, end=end, identity=identity)


@pytest.mark.parametrize(
    ("after", "result", "text"),
    [
        (look(10), "equal", ""),
        (look(12, begin=9), "equal", ""),  # it has grown, and retention has taken what was read
        (look(9), "unknown", "ends at 9 now, and did at 10"),
        (look(10, "y"), "unknown", "is another one now"),
        (BrokerUnreachableError("nobody answers"), "unknown", "nobody answers"),
    ],
)
def test_a_side_that_is_not_what_it_was_makes_nothing_known(
    after: Look | MirrorlakeError, result: str, text: str
) -> None:
    a, b = PAIR.sides
    for side in (a, b):
        found = unmoved(EQUAL, PAIR, {a: look(10), b: look(10)}, {a: look(10), b: look(10)} | {side: after})
        assert (found.result, text in str(found.error)) == (result, True)


def test_a_task_is_not_told_of_other_topics() -> None:
    (side, _) = PAIR.sides
    many = replace(side, source_work=archive_work(side.source_work, ["orders", "payments"]))  # type: ignore[arg-type]
    assert folders_of(alone(many)) == {"orders": "orders"}
    assert alone(many).partition == side.partition


def folders_of(side: SourceSide) -> Mapping[str, str]:
    assert isinstance(side.source_work, ArchiveSourceWork)
    return side.source_work.folders


def test_a_task_that_was_lost_or_has_failed_has_read_nothing() -> None:
    for outcome in ([], [{"kind": "lost"}], BrokerUnreachableError("nobody answers")):
        (unread,) = side_result(outcome, OFFSETS).unread  # type: ignore[arg-type]
        assert unread.offsets == OFFSETS


def test_what_several_looks_could_not_read_is_said_once() -> None:
    whole = Unread(offsets=OFFSETS, error=MirrorlakeError("gone"))
    part = Unread(offsets=OffsetRange(start_offset=6, end_offset=7), error=MirrorlakeError("gone"))
    assert without_repeats([("b", whole), ("b", part), ("a", part), ("b", whole)]) == (("b", whole), ("a", part))


def test_a_difference_counts_more_than_what_is_not_known_and_that_more_than_all_else() -> None:
    run = Difference(OFFSETS, 4, How.ONLY_A, "retired")
    unread = [("a", Unread(offsets=OFFSETS, error=MirrorlakeError("gone")))]

    def result(*, is_nothing: bool = False, differs: bool = False, known: bool = True, explained: bool = False) -> str:
        return result_of(
            is_nothing_compared=is_nothing,
            differences=[run] if differs else [],
            explained=[run] if explained else [],
            unread=[] if known else unread,
        )

    assert result(is_nothing=True, differs=True, known=False, explained=True) == "differs"
    assert result(is_nothing=True, known=False, explained=True) == "unknown"
    assert result(is_nothing=True, explained=True) == "empty"
    assert result(explained=True) == "explained"
    assert result() == "equal"
