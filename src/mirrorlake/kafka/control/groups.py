"""Consumer groups of one cluster: which there are, what they have committed, and committing for them."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from mirrorlake.errors import (
    BrokerUnreachableError,
    CorruptBatchError,
    Fact,
    MirrorlakeError,
    OutcomeUnknownError,
    RequestTimeoutError,
)
from mirrorlake.kafka.control.brokers import CONTROL, Brokers
from mirrorlake.kafka.control.control_requests import ControlRequest, Refused
from mirrorlake.kafka.control.descriptions import CommittedOffset, GroupListing, ListedGroup
from mirrorlake.kafka.control.group_requests import (
    Offsets,
    commit_offsets_request,
    describe_groups_request,
    fetch_offsets_request,
    list_groups_request,
)
from mirrorlake.kafka.control.transaction_requests import KeyType, find_coordinators_request
from mirrorlake.kafka.wire.error_codes import COORDINATOR_MOVES, UNSTABLE_OFFSET_COMMIT, error_for
from mirrorlake.offsets import TopicPartition
from mirrorlake.together import all_of

T = TypeVar("T")

GROUPS_PER_REQUEST = 100
"""A group of a thousand partitions is answered with some 50 KB; so an answer stays a few megabytes."""

NAMES_PER_REQUEST = 1000
"""How many groups a broker is asked about whose answers are of a few bytes each: where their coordinators are."""

UNSTABLE_SECONDS_MAX = 3.0
"""How long is waited for transactions that would commit offsets: most end within a moment."""

REQUESTS_AT_ONCE = 2
"""How many questions about groups one coordinator has: it looks for the next answer while the last one is read."""

COMMITS_AT_ONCE = 16
"""How many groups are committed for at a time at one coordinator, each on a connection of its own.

A broker takes the next request of a connection when it has answered the one before, which for a commit is when all
replicas have it, and from Kafka 4.0 on some milliseconds later still (``group.coordinator.append.linger.ms``).
"""

COMMITS_PER_CONNECTION = 4
"""For so many commits a connection more is worth its making: with TLS and a login that takes several round trips."""

_PAUSE_SECONDS_MIN = 0.02
_PAUSE_SECONDS_MAX = 0.5

_NO_ANSWER = Refused(-1, "the broker left it out of its answer")

GroupOffsets = Mapping[TopicPartition, CommittedOffset | MirrorlakeError | None]
"""What a group has committed; None for partitions that were asked for by name and have no offset."""


class Groups:
    """Asks the coordinators of groups, which it finds and remembers; waits for one that loads or moves.

    Results hold an error as value for each group that failed.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._broker_ids: dict[str, int] = {}

    async def list(self, broker_ids: Collection[int] | None = None) -> GroupListing:
        """Returns the groups of every broker, those of them this user may describe; refused ones are left out there.

        A broker lists the groups it coordinates, so each of them has its coordinator found by that.

        Args:
            broker_ids: of all brokers, by metadata of this moment; None to ask for it.

        Raises:
            MirrorlakeError: the brokers are not known.
        """
        if broker_ids is None:
            broker_ids = (await self._brokers.metadata((), refresh=True)).brokers
        answers = await all_of(map(self._list_of, broker_ids))
        unread: dict[int, MirrorlakeError] = {}
        groups: dict[str, ListedGroup] = {}
        for broker_id, answer in zip(broker_ids, answers, strict=True):
            if isinstance(answer, MirrorlakeError):
                unread[broker_id] = answer
            else:
                groups |= {each.group: each for each in answer}
                self._broker_ids |= {each.group: broker_id for each in answer}
        return GroupListing(groups=groups, unread=unread)

    async def _list_of(self, broker_id: int) -> tuple[ListedGroup, ...] | MirrorlakeError:
        pauses = _Pauses(self._brokers.settings.request_timeout_seconds)
        while True:
            try:
                answer = await self._brokers.ask(broker_id, list_groups_request())
            except MirrorlakeError as error:
                return error
            if not isinstance(answer, Refused):
                return answer
            if answer.code not in COORDINATOR_MOVES or not await pauses.next():
                return self._error(answer, f"ListGroups of broker {broker_id}", broker=broker_id)

    async def states(self, groups: Sequence[str]) -> dict[str, str | MirrorlakeError]:
        """Returns the state of each group by Kafka's names, as DescribeGroups has it.

        ``Dead`` stands for one that is not there, and for one of KIP-848's protocol: `list` tells that.
        """
        return await self._ask(groups, describe_groups_request, what="DescribeGroups")

    async def offsets(
        self, groups: Mapping[str, Sequence[TopicPartition] | None], *, is_stable: bool = False
    ) -> dict[str, GroupOffsets | MirrorlakeError]:
        """Returns what groups have committed; nothing of transactions that have not ended.

        Args:
            groups: the partitions to ask for, by group. None for all that it has offsets of; then partitions of topics
                this user may not describe are left out without a word.
            is_stable: asks again for `UNSTABLE_SECONDS_MAX` where a transaction that has not ended would commit an
                offset; such a partition has an error then (KIP-447). Who is to commit asks so: an offset committed
                meanwhile stands behind that of the transaction, which is lost.
        """

        def request(asked: Sequence[str]) -> ControlRequest[dict[str, Offsets | Refused]]:
            return fetch_offsets_request({group: groups[group] for group in asked}, is_stable=is_stable)

        answers: dict[str, Offsets | MirrorlakeError] = {}
        pauses, todo = _Pauses(UNSTABLE_SECONDS_MAX), [*groups]
        while todo:
            asked: dict[str, Offsets | MirrorlakeError] = await self._ask(todo, request, what="OffsetFetch")
            answers |= asked
            unstable = [group for group in todo if _is_unstable(answers[group])]
            todo = unstable if unstable and await pauses.next() else []
        return {
            group: answer if isinstance(answer, MirrorlakeError) else self._read(group, answer)
            for group, answer in answers.items()
        }

    def _read(self, group: str, offsets: Offsets) -> GroupOffsets:
        if not _has_refused(offsets):
            return cast(GroupOffsets, offsets)
        return {
            partition: self._error(found, f"OffsetFetch of {group!r}", group=group, topic=partition.topic)
            if isinstance(found, Refused)
            else found
            for partition, found in offsets.items()
        }

    async def commit_all(
        self, commits: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
    ) -> dict[str, dict[TopicPartition, MirrorlakeError | None]]:
        """Commits offsets of groups that have no members, `COMMITS_AT_ONCE` at a time at each coordinator.

        None for each that is committed; an error where it is not, or is not known to be. Idempotent.

        Args:
            commits: the offsets by group.
        """
        done: dict[str, dict[TopicPartition, MirrorlakeError | None]] = {}

        async def follow(todo: Iterator[str], use: str) -> None:
            for group in todo:
                try:
                    done[group] = await self.commit(group, commits[group], use=use)
                except MirrorlakeError as error:
                    done[group] = dict.fromkeys(commits[group], error)

        def begin(found: Mapping[str, int | Refused | MirrorlakeError]) -> None:
            lanes: dict[object, list[str]] = {}
            for group, coordinator in found.items():
                if isinstance(coordinator, Refused) and coordinator.code in COORDINATOR_MOVES:
                    done[group] = dict.fromkeys(commits[group], self._error(coordinator, _what(group), group=group))
                else:
                    # Those without a coordinator ask for it again, and say why there is none.
                    lanes.setdefault(coordinator if isinstance(coordinator, int) else None, []).append(group)
            for theirs in lanes.values():
                todo = iter(theirs)
                for number in range(min(COMMITS_AT_ONCE, -(-len(theirs) // COMMITS_PER_CONNECTION))):
                    tasks.create_task(follow(todo, f"commits {number}" if number else CONTROL))

        found = await self._find([*commits])
        moving = [group for group, coordinator in found.items() if _is_moving(coordinator)]
        async with asyncio.TaskGroup() as tasks:
            begin({group: coordinator for group, coordinator in found.items() if not _is_moving(coordinator)})
            begin(await self._find_there(moving))
        return done

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, use: str = CONTROL
    ) -> dict[TopicPartition, MirrorlakeError | None]:
        """Commits offsets of a group that has no members; None for each that is committed. Idempotent.

        Args:
            group: its name.
            offsets: by partition.
            use: of the connection, see `ClusterClient.connection`.

        Raises:
            BrokerNotReadyError: ``code`` is one of `GROUP_HAS_MEMBERS`: the broker refuses, nothing was committed. Or
                the coordinator still loads or moves after the request timeout.
            OutcomeUnknownError: the answer was lost.
            MirrorlakeError: the coordinator could not be asked.
        """
        pauses = _Pauses(self._brokers.settings.request_timeout_seconds)
        while True:
            answers = await self._commit_once(group, offsets, use)
            refusals = [each for each in answers.values() if each is not None]
            if not refusals:
                return dict.fromkeys(offsets)
            if not any(each.code in COORDINATOR_MOVES for each in refusals):
                break
            self._broker_ids.pop(group, None)
            if not await pauses.next():
                break
        whole = {each.code for each in refusals}
        if len(refusals) == len(offsets) and len(whole) == 1 and refusals[0].code not in _OF_A_PARTITION:
            raise self._error(refusals[0], _what(group), group=group)
        return {
            each: answer and self._error(answer, _what(group), group=group, topic=each.topic)
            for each, answer in answers.items()
        }

    async def _commit_once(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], use: str
    ) -> dict[TopicPartition, Refused | None]:
        found = (await self._find([group]))[group]
        if isinstance(found, MirrorlakeError):
            raise found
        if isinstance(found, Refused):
            return dict.fromkeys(offsets, found)
        try:
            connection = await self._brokers.connection(found, use)
        except MirrorlakeError:
            self._broker_ids.pop(group, None)
            raise
        request = commit_offsets_request(group, offsets)
        try:
            answers = await request.ask(connection, timeout_seconds=self._brokers.settings.request_timeout_seconds)
        except (BrokerUnreachableError, RequestTimeoutError, CorruptBatchError) as error:
            self._broker_ids.pop(group, None)
            raise OutcomeUnknownError(
                f"the answer to {_what(group)} was lost: {error.message}",
                hint="read what the group has committed, then decide",
                group=group,
            ) from error
        return {each: answers.get(each, _NO_ANSWER) for each in offsets}

    # -- finding and asking ---------------------------------------------------------------------------------

    async def _ask(
        self,
        groups: Sequence[str],
        request: Callable[[Sequence[str]], ControlRequest[dict[str, T | Refused]]],
        *,
        what: str,
    ) -> dict[str, T | MirrorlakeError]:
        """Asks the coordinators of all groups; again those that load or move, for as long as a request may take."""
        results: dict[str, T | MirrorlakeError] = {}
        pauses = _Pauses(self._brokers.settings.request_timeout_seconds)
        todo = list(dict.fromkeys(groups))
        while todo:
            moving = []
            for group, answer in (await self._ask_once(todo, request)).items():
                if not isinstance(answer, Refused):
                    results[group] = answer
                    continue
                results[group] = self._error(answer, f"{what} of {group!r}", group=group)
                if answer.code in COORDINATOR_MOVES:
                    self._broker_ids.pop(group, None)
                    moving.append(group)
            todo = moving if moving and await pauses.next() else []
        return results

    async def _ask_once(
        self, groups: Sequence[str], request: Callable[[Sequence[str]], ControlRequest[dict[str, T | Refused]]]
    ) -> dict[str, T | Refused | MirrorlakeError]:
        results: dict[str, T | Refused | MirrorlakeError] = {}
        by_broker: dict[int, list[str]] = {}
        for group, found in (await self._find(groups)).items():
            if isinstance(found, int):
                by_broker.setdefault(found, []).append(group)
            else:
                results[group] = found

        async def ask(broker_id: int, parts: Iterator[list[str]]) -> None:
            for asked in parts:
                try:
                    answered = await self._until_answered(broker_id, asked, request)
                except MirrorlakeError as error:
                    for group in asked:
                        self._broker_ids.pop(group, None)
                        results[group] = error
                else:
                    results.update(answered)

        async with asyncio.TaskGroup() as tasks:
            for broker_id, theirs in by_broker.items():
                parts = _parts(theirs, GROUPS_PER_REQUEST)
                for _ in range(REQUESTS_AT_ONCE):
                    tasks.create_task(ask(broker_id, parts))
        return results

    async def _until_answered(
        self,
        broker_id: int | None,
        asked: Sequence[str],
        request: Callable[[Sequence[str]], ControlRequest[dict[str, T | Refused]]],
    ) -> dict[str, T | Refused]:
        """Asks one broker, or any, about every group: older ones answer about one at a time."""
        answers: dict[str, T | Refused] = {}
        while left := [each for each in asked if each not in answers]:
            ask = request(left)
            more = await (self._brokers.ask_any(ask) if broker_id is None else self._brokers.ask(broker_id, ask))
            more = {group: answer for group, answer in more.items() if group in left}
            if not more:
                break
            answers |= more
        return {each: answers.get(each, _NO_ANSWER) for each in asked}

    async def _find(self, groups: Sequence[str]) -> dict[str, int | Refused | MirrorlakeError]:
        def request(asked: Sequence[str]) -> ControlRequest[dict[str, int | Refused]]:
            return find_coordinators_request(asked, KeyType.GROUP)

        found: dict[str, int | Refused | MirrorlakeError] = {}
        unknown = [each for each in groups if each not in self._broker_ids]
        for asked in _parts(unknown, NAMES_PER_REQUEST):
            try:
                answers = await self._until_answered(None, asked, request)
            except MirrorlakeError as error:
                found |= dict.fromkeys(asked, error)
                continue
            found |= answers
            self._broker_ids |= {group: answer for group, answer in answers.items() if isinstance(answer, int)}
        return {each: found[each] if each in found else self._broker_ids[each] for each in groups}

    async def _find_there(self, groups: Sequence[str]) -> dict[str, int | Refused | MirrorlakeError]:
        """As `_find`, of groups whose coordinators load, move or are only being made: waits for them.

        All groups together: each by itself, a thousand of them would ask a thousand times.
        """
        found: dict[str, int | Refused | MirrorlakeError] = {}
        pauses = _Pauses(self._brokers.settings.request_timeout_seconds)
        moving = groups
        while moving and await pauses.next():
            found |= await self._find(moving)
            moving = [each for each in groups if _is_moving(found[each])]
        return found

    def _error(self, answer: Refused, what: str, **facts: Fact) -> MirrorlakeError:
        cluster = self._brokers.settings.name
        return error_for(
            answer.code, what=f"{what} in cluster {cluster!r}", message=answer.message, cluster=cluster, **facts
        )


def _parts(groups: Sequence[str], count: int) -> Iterator[list[str]]:
    """Yields groups, so many at a time."""
    for start in range(0, len(groups), count):
        yield [*groups[start : start + count]]


def _what(group: str) -> str:
    return f"OffsetCommit of {group!r}"


def _is_moving(answer: int | Refused | MirrorlakeError) -> bool:
    return isinstance(answer, Refused) and answer.code in COORDINATOR_MOVES


def _is_unstable(answer: Offsets | MirrorlakeError) -> bool:
    if isinstance(answer, MirrorlakeError) or not _has_refused(answer):
        return False
    return any(isinstance(each, Refused) and each.code == UNSTABLE_OFFSET_COMMIT for each in answer.values())


def _has_refused(offsets: Offsets) -> bool:
    """Tells whether any partition was refused; no line of Python runs for each of them."""
    return Refused in {*map(type, offsets.values())}


_OF_A_PARTITION = frozenset({-1, 3, 12, 29})
"""Codes that are about one partition of a commit; by all others the whole of it is refused."""


class _Pauses:
    """Growing pauses that end when a time is over."""

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._seconds = _PAUSE_SECONDS_MIN

    async def next(self) -> bool:
        """Waits; returns False at once where the time would be over then."""
        if asyncio.get_running_loop().time() + self._seconds > self._deadline:
            return False
        await asyncio.sleep(self._seconds)
        self._seconds = min(_PAUSE_SECONDS_MAX, self._seconds * 2)
        return True
