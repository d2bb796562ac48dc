"""What is done about a group at a destination: nothing it has there is lost, and what is left alone is said."""

import pytest

from mirrorlake.archive.groups.content import ArchivedOffset
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.groups.placing import GroupAction, GroupRow, Standing, after_commit, commits_of, decide
from mirrorlake.groups.translation import Placed, Translation, Unknown
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition

SOURCE, THERE = TopicPartition("orders", 2), TopicPartition("orders.back", 2)
ARCHIVED = ArchivedOffset(offset=50, leader_epoch=7, metadata="mine", seen_at_ms=1_700_000_000_000)
AT_50 = Placed(offset=50)


def decided(
    place: Translation | None = AT_50,
    *,
    had: int | None = None,
    state: str = "Empty",
    error: MirrorlakeError | None = None,
    has_others: bool = False,
    is_forced: bool = False,
    archived: ArchivedOffset = ARCHIVED,
) -> GroupRow:
    committed = None if had is None else CommittedOffset(offset=had)
    return decide(
        group="billing",
        source=SOURCE,
        destination=THERE,
        archived=archived,
        place=place,
        standing=Standing(state=state, committed=committed, error=error),
        has_others=has_others,
        is_forced=is_forced,
    )


@pytest.mark.parametrize("state", ["", "Empty", "Dead"])
def test_a_group_that_is_not_there_is_committed(state: str) -> None:
    assert decided(state=state).action is GroupAction.COMMIT


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"])
@pytest.mark.parametrize("is_forced", [False, True])
def test_a_group_with_members_is_left_alone_whatever_is_asked(state: str, is_forced: bool) -> None:
    row = decided(state=state, is_forced=is_forced)
    assert (row.action, row.is_placed) == (GroupAction.LEFT, False)
    assert "stop its consumers" in row.reason


@pytest.mark.parametrize("state", ["Empty", "Stable"])
@pytest.mark.parametrize("has_others", [False, True])
def test_a_group_that_stands_there_already_needs_nothing(state: str, has_others: bool) -> None:
    row = decided(had=50, state=state, has_others=has_others)
    assert (row.action, row.is_placed) == (GroupAction.NOTHING, True)


def test_a_group_is_taken_back_only_where_that_is_asked_for() -> None:
    row = decided(had=51)
    assert (row.action, row.is_placed) == (GroupAction.LEFT, False)
    assert row.reason == "it has read up to 51 there; --force-groups takes it back"
    assert decided(had=51, is_forced=True).action is GroupAction.COMMIT


def test_a_group_is_taken_on_but_not_past_what_others_may_have_written() -> None:
    assert decided(had=49).action is GroupAction.COMMIT
    row = decided(had=49, has_others=True)
    assert (row.action, row.is_placed) == (GroupAction.LEFT, False)
    assert decided(had=49, has_others=True, is_forced=True).action is GroupAction.COMMIT


def test_what_cannot_be_told_is_said_and_never_a_number() -> None:
    row = decided(Unknown(why="so it is"))
    assert (row.action, row.offset, row.reason, row.is_placed) == (GroupAction.UNKNOWN, None, "so it is", False)
    assert row.as_json()["offset"] is None


def test_a_group_that_could_not_be_looked_at_is_left_alone() -> None:
    row = decided(error=BrokerNotReadyError("no"))
    assert (row.action, row.reason, row.is_placed) == (GroupAction.LEFT, "no", False)


def test_before_mapped_records_are_there_the_place_is_open() -> None:
    row = decided(None)
    assert (row.action, row.offset, row.is_placed) == (GroupAction.LATER, None, True)


def test_a_group_that_the_source_had_no_offset_of_any_more_comes_back_and_that_is_said() -> None:
    gone = ArchivedOffset(offset=50, seen_at_ms=0, missing_since_ms=1_700_000_000_000)
    row = decided(archived=gone)
    assert row.action is GroupAction.COMMIT
    assert row.reason == "the source had no offset of it any more at 2023-11-14T22:13:20Z"


def test_metadata_is_committed_and_the_sources_leader_epoch_is_not() -> None:
    rows = [decided(), decided(had=60), decided(Unknown(why=""))]
    assert commits_of(rows) == {"billing": {THERE: CommittedOffset(offset=50, leader_epoch=-1, metadata="mine")}}


LOST = OutcomeUnknownError("lost")


@pytest.mark.parametrize("error", [None, LOST])
def test_what_is_read_back_decides_whether_it_was_committed(error: MirrorlakeError | None) -> None:
    done = after_commit(decided(), CommittedOffset(offset=50, leader_epoch=3, metadata="mine"), error)
    assert (done.action, done.is_placed) == (GroupAction.DONE, True)


@pytest.mark.parametrize(
    ("found", "error", "reason"),
    [
        (None, LOST, "lost"),
        (CommittedOffset(offset=50), None, "another client has committed 50"),
        (CommittedOffset(offset=51, metadata="mine"), None, "another client has committed 51"),
        (None, None, "another client has committed nothing"),
        (LOST, None, "whether it was committed is not known: lost"),
    ],
)
def test_what_is_not_read_back_is_not_placed(
    found: CommittedOffset | MirrorlakeError | None, error: MirrorlakeError | None, reason: str
) -> None:
    row = after_commit(decided(), found, error)
    assert (row.action, row.reason, row.is_placed) == (GroupAction.LEFT, reason, False)
