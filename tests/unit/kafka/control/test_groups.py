"""Coordinators of groups that are asked about many: how many commits are under way, and what becomes of each."""

import asyncio
import struct
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from mirrorlake.errors import BrokerNotReadyError, BrokerUnreachableError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.brokers import CONTROL
from mirrorlake.kafka.control.control_requests import Refused
from mirrorlake.kafka.control.descriptions import CommittedOffset, ListedGroup
from mirrorlake.kafka.control.groups import COMMITS_AT_ONCE, COMMITS_PER_CONNECTION, Groups
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.error_codes import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from mirrorlake.offsets import TopicPartition

PLACE = TopicPartition("t", 0)
OFFSETS = {PLACE: CommittedOffset(offset=5)}


def committed(code: int = 0) -> bytes:
    """An answer to OffsetCommit 7 about ``t-0``."""
    return struct.pack(">ii", 0, 1) + struct.pack(">h1si", 1, b"t", 1) + struct.pack(">ih", 0, code)


class Line:
    """A connection, which answers one request at a time, as a broker does."""

    def __init__(self, brokers: "TwoBrokers", broker_id: int, use: str) -> None:
        self._brokers = brokers
        self._broker_id = broker_id
        self._use = use
        self.is_busy = False

    def knows(self, api: Api, version: int) -> bool:
        return (api, version) == (Api.OFFSET_COMMIT, 7)

    async def request(self, api: Api, version: int, body: Sequence[bytes], **_: object) -> "Answer":
        assert (api, version) == (Api.OFFSET_COMMIT, 7)
        (length,) = struct.unpack_from(">h", body[0])
        group = bytes(body[0][2 : 2 + length]).decode()
        assert not self.is_busy, "a second request on a connection waits for the first"
        self.is_busy = True
        self._brokers.begin(self._broker_id, self._use)
        await asyncio.sleep(0.001)
        self.is_busy = False
        self._brokers.under_way[self._broker_id] -= 1
        return Answer(self._brokers.answer(group, self._broker_id))


class Answer:
    def __init__(self, body: bytes) -> None:
        self.view = memoryview(body)

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class TwoBrokers:
    """Broker 1 coordinates groups whose names end in an even digit, broker 2 the others."""

    def __init__(
        self,
        *,
        moved: Sequence[str] = (),
        lost: Sequence[str] = (),
        unknown: Sequence[str] = (),
        loads: int = 0,
        late: Sequence[str] = (),
        late_behind: int = 0,
        timeout_seconds: float = 5.0,
    ) -> None:
        self.settings = SimpleNamespace(request_timeout_seconds=timeout_seconds, name="scripted")
        self._moved, self._lost, self._unknown = {*moved}, {*lost}, {*unknown}
        self._loads, self._late, self._late_behind = loads, {*late}, late_behind
        self.finds = 0
        self._lines: dict[tuple[int, str], Line] = {}
        self.under_way: Counter[int] = Counter()
        self.most: Counter[int] = Counter()
        self.uses: set[tuple[int, str]] = set()
        self.answered: list[tuple[str, int]] = []

    async def ask_any(self, request: object) -> dict[str, int | Refused]:
        self.finds += 1
        if self.finds <= self._loads:
            return {f"g{number}": Refused(COORDINATOR_NOT_AVAILABLE) for number in range(200)}
        if len(self.answered) < self._late_behind:
            return await self._found() | dict.fromkeys(self._late, Refused(COORDINATOR_NOT_AVAILABLE))
        return await self._found()

    async def ask(self, broker_id: int, request: object) -> tuple[ListedGroup, ...]:
        """Lists the groups of a broker, of forty."""
        return tuple(
            ListedGroup(group=f"g{number}", protocol_type="", state="Empty")
            for number in range(40)
            if 1 + number % 2 == broker_id
        )

    async def _found(self) -> dict[str, int | Refused]:
        return {f"g{number}": Refused(30) if f"g{number}" in self._unknown else 1 + number % 2 for number in range(200)}

    async def connection(self, broker_id: int, use: str) -> Line:
        return self._lines.setdefault((broker_id, use), Line(self, broker_id, use))

    def begin(self, broker_id: int, use: str) -> None:
        self.under_way[broker_id] += 1
        self.most[broker_id] = max(self.most[broker_id], self.under_way[broker_id])
        self.uses.add((broker_id, use))

    def answer(self, group: str, broker_id: int) -> bytes:
        self.answered.append((group, broker_id))
        if group in self._lost:
            raise BrokerUnreachableError("gone")
        if group in self._moved:
            self._moved.remove(group)
            return committed(NOT_COORDINATOR)
        return committed()


def commit_all(brokers: TwoBrokers, groups: int) -> dict[str, dict[TopicPartition, MirrorlakeError | None]]:
    asked = {f"g{number}": OFFSETS for number in range(groups)}
    return asyncio.run(asyncio.wait_for(Groups(brokers).commit_all(asked), 20))  # type: ignore[arg-type]


def test_sixteen_commits_are_under_way_at_each_coordinator_each_on_a_connection_of_its_own() -> None:
    brokers = TwoBrokers()
    done = commit_all(brokers, 200)
    assert done == {f"g{number}": {PLACE: None} for number in range(200)}
    assert brokers.most == {1: COMMITS_AT_ONCE, 2: COMMITS_AT_ONCE}
    assert len(brokers.uses) == 2 * COMMITS_AT_ONCE
    assert sorted(brokers.answered) == sorted((f"g{number}", 1 + number % 2) for number in range(200))


@pytest.mark.parametrize("groups", [1, 2 * COMMITS_PER_CONNECTION])
def test_few_commits_need_no_connection_more(groups: int) -> None:
    brokers = TwoBrokers()
    assert len(commit_all(brokers, groups)) == groups
    assert {use for _, use in brokers.uses} == {CONTROL}


def test_a_commit_that_fails_is_its_groups_error_and_the_others_go_on() -> None:
    brokers = TwoBrokers(lost=["g4"], unknown=["g7"])
    done = commit_all(brokers, 40)
    assert isinstance(done["g4"][PLACE], OutcomeUnknownError)
    assert isinstance(done["g7"][PLACE], MirrorlakeError)
    assert {group for group, found in done.items() if found != {PLACE: None}} == {"g4", "g7"}
    assert [group for group, _ in brokers.answered].count("g4") == 1, "a lost answer is not asked for again"


def test_a_group_whose_coordinator_moves_is_committed_for_once_more() -> None:
    brokers = TwoBrokers(moved=["g3"])
    assert commit_all(brokers, 10)["g3"] == {PLACE: None}
    assert [group for group, _ in brokers.answered].count("g3") == 2


def test_coordinators_that_are_not_there_yet_are_waited_for_by_all_groups_together() -> None:
    # A cluster that never had a group makes the topic of their offsets when it is asked for a coordinator.
    brokers = TwoBrokers(loads=4)
    done = commit_all(brokers, 200)
    assert done == {f"g{number}": {PLACE: None} for number in range(200)}
    assert brokers.finds == 5, "one request about two hundred groups each time"
    assert brokers.most == {1: COMMITS_AT_ONCE, 2: COMMITS_AT_ONCE}


def test_groups_whose_coordinator_does_not_come_are_not_committed_for_and_say_so() -> None:
    brokers = TwoBrokers(loads=1 << 30, timeout_seconds=0.1)
    done = commit_all(brokers, 200)
    assert len(done) == 200
    assert {type(found[PLACE]) for found in done.values()} == {BrokerNotReadyError}
    assert "OffsetCommit of 'g7'" in str(done["g7"][PLACE])
    assert brokers.answered == []


def test_what_has_its_coordinator_does_not_wait_for_what_has_none_yet() -> None:
    # Who waits for the coordinator of g5 first waits for ever: it comes when all others are committed for.
    brokers = TwoBrokers(late=["g5"], late_behind=39, timeout_seconds=20.0)
    done = commit_all(brokers, 40)
    assert done == {f"g{number}": {PLACE: None} for number in range(40)}
    assert brokers.answered[-1][0] == "g5"


def test_nothing_is_asked_where_nothing_is_to_be_committed() -> None:
    brokers = TwoBrokers()
    assert commit_all(brokers, 0) == {}
    assert brokers.answered == []


def test_a_broker_that_lists_a_group_is_its_coordinator() -> None:
    brokers = TwoBrokers()
    asked = {f"g{number}": OFFSETS for number in range(40)}

    async def scenario() -> dict[str, dict[TopicPartition, MirrorlakeError | None]]:
        groups = Groups(brokers)  # type: ignore[arg-type]
        assert len((await groups.list((1, 2))).groups) == 40
        return await groups.commit_all(asked)

    assert asyncio.run(scenario()) == {group: {PLACE: None} for group in asked}
    assert brokers.finds == 0, "nobody was asked for what the lists say"


def test_a_group_that_has_moved_since_it_was_listed_is_asked_for_again() -> None:
    brokers = TwoBrokers(moved=["g4"])

    async def scenario() -> dict[str, dict[TopicPartition, MirrorlakeError | None]]:
        groups = Groups(brokers)  # type: ignore[arg-type]
        await groups.list((1, 2))
        return await groups.commit_all({"g4": OFFSETS, "g5": OFFSETS})

    assert asyncio.run(scenario()) == {"g4": {PLACE: None}, "g5": {PLACE: None}}
    assert brokers.finds == 1
