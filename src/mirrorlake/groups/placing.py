"""What is done about each group at a destination, and why not more. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from mirrorlake.archive.groups.content import ArchivedOffset
from mirrorlake.clock import utc_text
from mirrorlake.errors import MirrorlakeError
from mirrorlake.groups.translation import Placed, Translation, Unknown
from mirrorlake.kafka.control.descriptions import EMPTY_GROUP_STATES, CommittedOffset
from mirrorlake.offsets import TopicPartition


class GroupAction(StrEnum):
    """What is done about one group and one partition."""

    COMMIT = "commit"
    DONE = "committed"
    LATER = "after the restore"
    NOTHING = "stands there"
    LEFT = "left alone"
    UNKNOWN = "unknown"


class Standing(NamedTuple):
    """How a group stands at the destination.

    ``state`` is Kafka's name, empty where it is not told; ``committed`` what it has committed of the partition, None
    for nothing; an error where either could not be read.
    """

    state: str = ""
    committed: CommittedOffset | None = None
    error: MirrorlakeError | None = None


class GroupRow(NamedTuple):
    """One group and one source partition. ``place`` None is not known yet, as the records are not there.

    A tuple, as what it holds is: a thousand groups have fifty thousand of them.
    """

    group: str
    source: TopicPartition
    destination: TopicPartition
    archived: ArchivedOffset
    place: Translation | None
    standing: Standing
    action: GroupAction
    reason: str = ""

    @property
    def offset(self) -> int | None:
        """The offset the group gets, or would get; None where it is unknown."""
        return None if self.place is None or isinstance(self.place, Unknown) else self.place.offset

    @property
    def is_placed(self) -> bool:
        """True where the group stands, or will stand, where it should."""
        return self.action not in (GroupAction.LEFT, GroupAction.UNKNOWN)

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row as ``restore --format json`` has it; ``offset`` is null where it is unknown."""
        committed = self.standing.committed
        return {
            "group": self.group,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "archived": self.archived.offset,
            "archived_at": utc_text(self.archived.seen_at_ms),
            "to": str(self.destination),
            "offset": self.offset,
            "had": committed.offset if committed is not None else None,
            "action": self.action.value,
            "note": self.reason or None,
        }


def decide(
    *,
    group: str,
    source: TopicPartition,
    destination: TopicPartition,
    archived: ArchivedOffset,
    place: Translation | None,
    standing: Standing,
    has_others: bool,
    is_forced: bool,
    option: str = "--force-groups",
) -> GroupRow:
    """Returns what is done about one group and one partition.

    Args:
        group: its name.
        source: the partition it read.
        destination: the partition it is to read on.
        archived: what it had committed.
        place: where it goes on; None where that is known only once the records are there.
        standing: how it stands at the destination.
        has_others: whether other writers' records may lie between where the group stands there and its place: then it
            would be taken past records it has not read.
        is_forced: moves a group all the same that has an offset there.
        option: of the command line that asks for that.
    """
    action, reason = _decided(archived, place, standing, has_others=has_others, is_forced=is_forced, option=option)
    return GroupRow(group, source, destination, archived, place, standing, action, reason)


def _decided(
    archived: ArchivedOffset,
    place: Translation | None,
    standing: Standing,
    *,
    has_others: bool,
    is_forced: bool,
    option: str,
) -> tuple[GroupAction, str]:
    """Returns what is done, and why not more or what is not as it was. Arguments as of `decide`."""
    if isinstance(place, Unknown):
        return GroupAction.UNKNOWN, place.why
    if standing.error is not None:
        return GroupAction.LEFT, str(standing.error)
    if place is None:
        return GroupAction.LATER, ""
    committed = standing.committed
    if committed is not None and committed.offset == place.offset:
        return GroupAction.NOTHING, place.note
    if standing.state and standing.state not in EMPTY_GROUP_STATES:
        return GroupAction.LEFT, f"the group has members there ({standing.state}): stop its consumers"
    if committed is not None and not is_forced:
        if committed.offset > place.offset:
            return GroupAction.LEFT, f"it has read up to {committed.offset} there; {option} takes it back"
        if has_others:
            why = f"it stands at {committed.offset} there, and others may write between; {option} moves it"
            return GroupAction.LEFT, why
    missing = archived.missing_since_ms
    if missing is None:
        return GroupAction.COMMIT, place.note
    gone = f"the source had no offset of it any more at {utc_text(missing)}"
    return GroupAction.COMMIT, f"{place.note}; {gone}" if place.note else gone


def commits_of(rows: Sequence[GroupRow]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Returns what is to be committed, by group.

    Leader epochs are left out: those of the source mean nothing at another cluster, and a consumer there would take its
    own cluster's for old ones.
    """
    commits: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for group, _, destination, archived, place, _, action, _ in rows:
        if action is GroupAction.COMMIT and isinstance(place, Placed):
            committed = CommittedOffset(place.offset, metadata=archived.metadata)
            commits.setdefault(group, {})[destination] = committed
    return commits


def after_commit(
    row: GroupRow, found: CommittedOffset | MirrorlakeError | None, error: MirrorlakeError | None
) -> GroupRow:
    """Returns a row that was to be committed, once it was read back.

    Args:
        row: what was to be done.
        found: what the group has committed there now.
        error: why the commit failed, or is not known to have happened; what is found decides.
    """
    if isinstance(found, CommittedOffset) and (found.offset, found.metadata) == (row.offset, row.archived.metadata):
        return GroupRow(*row[:6], GroupAction.DONE, row.reason)
    if error is not None:
        reason = str(error)
    elif isinstance(found, MirrorlakeError):
        reason = f"whether it was committed is not known: {found}"
    else:
        reason = f"another client has committed {found.offset if found else 'nothing'}"
    return row._replace(action=GroupAction.LEFT, reason=reason)
