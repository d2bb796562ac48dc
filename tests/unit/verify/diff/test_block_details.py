"""How much is read of blocks that differ, and what is concluded of what cannot be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mirrorlake.errors import BrokerUnreachableError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.verify.cleaned import Trace
from mirrorlake.verify.diff import block_details
from mirrorlake.verify.diff.block_details import BlockDetails, Bounds
from mirrorlake.verify.diff.ranges import Look, ranges_of
from mirrorlake.verify.diff.task import SideResult, unread_whole
from mirrorlake.verify.digest import BLOCK_OFFSETS, Block
from mirrorlake.verify.worker import DigestResult, DigestTask, SourceSide

SIDES = (
    SourceSide(
        source_work=ArchiveSourceWork(store_name="a", store=FilesystemSettings(root=Path("/a"))),
        partition=TopicPartition("t", 0),
    ),
    SourceSide(
        source_work=ArchiveSourceWork(store_name="b", store=FilesystemSettings(root=Path("/b"))),
        partition=TopicPartition("t", 0),
    ),
)


@dataclass
class TwoSides:
    """Keys by offset, on either side, and what was asked. A key that is a capital letter has no value."""

    a: Mapping[int, str]
    b: Mapping[int, str]
    unread_from: int | None = None
    asked: list[DigestTask] = field(default_factory=list)

    def ask(self, task: DigestTask) -> SideResult:
        self.asked.append(task)
        held = (self.a, self.b)[SIDES.index(task.side)]
        offsets = task.offsets
        if self.unread_from is not None and offsets.end_offset > self.unread_from:
            return unread_whole(offsets, BrokerUnreachableError("nobody answers"))
        within = {n: key for n, key in held.items() if offsets.start_offset <= n < offsets.end_offset}
        if task.latest_of:
            latest = {ord(key): n for n, key in sorted(within.items()) if ord(key) in task.latest_of}
            return SideResult(digest=DigestResult(latest=latest))
        if not task.in_detail:
            blocks = {n // BLOCK_OFFSETS: Block(records=1, digest=1) for n in within}
            return SideResult(digest=DigestResult(records=len(within), blocks=blocks))
        traces = tuple(Trace(n, ord(key), ord(key), key.isupper()) for n, key in sorted(within.items()))
        return SideResult(digest=DigestResult(traces=traces))

    def details(self, end_a: int, end_b: int, *, compacted: bool = False) -> BlockDetails:
        looks = [Look(begin=0, start=0, end=end, identity="", is_compacted=compacted) for end in (end_a, end_b)]
        bounds = Bounds(a=looks[0], b=looks[1], ranges=ranges_of(looks[0], looks[1]))
        details = BlockDetails(SIDES, bounds, ask=self.ask)
        details.run(range(-(-min(end_a, end_b) // BLOCK_OFFSETS)))
        return details


def said(details: BlockDetails) -> list[str]:
    runs = [*details.differences, *details.explained]
    return [f"{each.how} {each.offsets.start_offset}-{each.offsets.end_offset - 1} {each.why}".strip() for each in runs]


def test_a_run_over_many_parts_is_one_run() -> None:
    end = 18 * BLOCK_OFFSETS
    sides = TwoSides(dict.fromkeys(range(5, 17 * BLOCK_OFFSETS), "k"), {})
    assert said(sides.details(end, end)) == [f"only-a 5-{17 * BLOCK_OFFSETS - 1} absent"]


def test_no_more_is_read_than_it_takes_to_name_some_differences() -> None:
    end = 400 * BLOCK_OFFSETS
    sides = TwoSides({3: "k"}, {})
    details = sides.details(end, end)
    assert said(details) == ["only-a 3-3 absent"]
    assert not details.is_complete
    assert max(task.offsets.end_offset for task in sides.asked) <= 16 * 16 * BLOCK_OFFSETS


def test_the_first_of_many_differences_is_kept_also_where_it_is_settled_last() -> None:
    """Record 0 is a suspect until all that follows was looked through."""
    count = 50
    equal = {2 + 2 * n: "e" for n in range(count)}
    a = {0: "z"} | {1 + 2 * n: "k" for n in range(count)} | equal
    b = {1 + 2 * n: "l" for n in range(count)} | equal
    details = TwoSides(a, b).details(200, 200, compacted=True)
    assert len(details.differences) == 20
    assert said(details)[0] == "only-a 0-0"
    assert not details.is_complete


def test_suspects_are_settled_a_bounded_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_details, "SUSPECTS_MAX", 10)
    end = 40 * BLOCK_OFFSETS
    a = {n * BLOCK_OFFSETS: "k" for n in range(40)}
    sides = TwoSides(a, {39 * BLOCK_OFFSETS: "k"})
    assert said(sides.details(end, end, compacted=True)) == [f"only-a 0-{38 * BLOCK_OFFSETS} cleaned"]
    assert len([task for task in sides.asked if task.latest_of]) > 2


def test_a_suspect_whose_key_may_come_again_in_what_cannot_be_read_is_no_difference() -> None:
    sides = TwoSides({3: "k"}, {})
    assert said(sides.details(BLOCK_OFFSETS, BLOCK_OFFSETS, compacted=True)) == ["only-a 3-3"]
    sides = TwoSides({3: "k"}, {}, unread_from=BLOCK_OFFSETS)
    looks = [Look(begin=0, start=0, end=3 * BLOCK_OFFSETS, identity="", is_compacted=True)] * 2
    details = BlockDetails(SIDES, Bounds(a=looks[0], b=looks[1], ranges=ranges_of(looks[0], looks[1])), ask=sides.ask)
    details.run([0])
    assert said(details) == []
    assert {side for side, _ in details.unread} == {"a", "b"}


def test_what_lies_behind_the_end_of_a_side_is_looked_for_until_its_first_record() -> None:
    far = 3 * 256 * BLOCK_OFFSETS
    sides = TwoSides({}, {far + 7: "k", far + 9: "k"})
    details = sides.details(0, 5 * 256 * BLOCK_OFFSETS)
    assert said(details) == [f"only-b {far + 7}-{5 * 256 * BLOCK_OFFSETS - 1} beyond"]
    assert max(task.offsets.end_offset for task in sides.asked) == 4 * 256 * BLOCK_OFFSETS
    assert said(TwoSides({}, {}).details(0, 9)) == ["gap 0-8 beyond the end of A"]
    unread = TwoSides({}, {}, unread_from=0).details(0, 9)
    assert (said(unread), [side for side, _ in unread.unread]) == ([], ["b"])
