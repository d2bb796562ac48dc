"""The transaction session against a cluster that says what no real one can be made to say, at the moment it matters."""

import asyncio
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.destinations.transactions import session as session_module
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.errors import (
    BrokerNotReadyError,
    BrokerUnreachableError,
    MirrorlakeError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PositionMovedError,
    RequestTimeoutError,
)
from mirrorlake.kafka.control.descriptions import (
    AppendState,
    LogEnd,
    ProducerIdentity,
    ProducerState,
    TransactionState,
)
from mirrorlake.kafka.wire.error_codes import OPERATION_NOT_ATTEMPTED, error_for
from mirrorlake.offsets import TopicPartition

WHERE = TopicPartition("copy", 0)
OTHER = TopicPartition("copy", 1)
IDENTITY = ProducerIdentity(producer_id=7, producer_epoch=3)
FENCED = 47


class ScriptedConnection:
    """Answers an append with what it is given: bytes of an answer, or an error."""

    def __init__(self, answer: bytes | MirrorlakeError) -> None:
        self.answer = answer
        self.sent = 0
        self.closed_because: list[str] = []

    def send(self, *_: Any, **__: Any) -> "asyncio.Future[Any]":
        self.sent += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(self.answer, MirrorlakeError):
            future.set_exception(self.answer)
        else:
            future.set_result(ScriptedFrame(self.answer))
        return future

    def close(self, reason: str) -> None:
        self.closed_because.append(reason)


class ScriptedFrame:
    def __init__(self, answer: bytes) -> None:
        self.view = memoryview(answer)

    def __enter__(self) -> "ScriptedFrame":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class ScriptedCluster:
    """Notes what is asked of it, in order; what it answers is set by the test."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(request_timeout_seconds=0.3, name="scripted")
        self.steps: list[str] = []
        self.connection_to = ScriptedConnection(produced())
        self.failing: dict[str, MirrorlakeError] = {}
        self.refused: dict[TopicPartition, MirrorlakeError] = {}
        self.found: Iterator[TransactionState | MirrorlakeError | None] = iter(())
        self.states: Callable[[TopicPartition], AppendState | MirrorlakeError] = lambda _: state_of()
        self.connecting: Callable[[], None] = lambda: None

    def _send(self, step: str, before_send: Callable[[], None]) -> None:
        before_send()
        self.steps.append(step)
        if step in self.failing:
            raise self.failing[step]

    async def init_producer_id(
        self, _: str, *, transaction_timeout_ms: int, before_send: Callable[[], None]
    ) -> ProducerIdentity:
        self._send("own", before_send)
        return ProducerIdentity(producer_id=7, producer_epoch=4)

    async def add_partitions_to_transaction(
        self,
        _: str,
        __: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        before_send: Callable[[], None],
    ) -> dict[TopicPartition, MirrorlakeError | None]:
        self._send("add", before_send)
        return {each: self.refused.get(each) for each in partitions}

    async def end_transaction(
        self, _: str, __: ProducerIdentity, *, committed: bool, before_send: Callable[[], None]
    ) -> None:
        self._send("commit" if committed else "abort", before_send)

    async def describe_transactions(self, ids: Sequence[str]) -> dict[str, TransactionState | MirrorlakeError | None]:
        self.steps.append("describe")
        return dict.fromkeys(ids, next(self.found))

    async def append_states(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, AppendState | MirrorlakeError]:
        self.steps.append("look")
        return {each: self.states(each) for each in partitions}

    async def metadata(self, _: Sequence[str]) -> Any:
        return SimpleNamespace(partition=lambda _: SimpleNamespace(leader=1))

    async def connection(self, _: int) -> ScriptedConnection:
        self.connecting()
        return self.connection_to


def produced(partitions: Sequence[tuple[int, int]] = ((0, 0),), *, topic: str = "copy", base_offset: int = 5) -> bytes:
    """An answer to Produce 8: partitions with their error codes."""
    name = topic.encode()
    body = struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", len(partitions))
    for number, code in partitions:
        body += struct.pack(">ihqqqi", number, code, base_offset, -1, 0, 0) + struct.pack(">h", -1)
    return body + struct.pack(">i", 0)


def state_of(*, open_from: int | None = None, end: int = 10, epoch: int = 3, last_sequence: int = 4) -> AppendState:
    ours = ProducerState(
        producer_id=7,
        producer_epoch=epoch,
        last_sequence=last_sequence,
        last_timestamp_ms=0,
        coordinator_epoch=0,
        transaction_start_offset=open_from,
    )
    return AppendState(producers=(ours,), log_end=LogEnd(leader_epoch=1, end_offset=end))


def found(state: str, *, epoch: int = 3) -> TransactionState:
    return TransactionState(producer_id=7, producer_epoch=epoch, state=state, timeout_ms=1000, partitions=frozenset())


class Deadline:
    """Time that is over when the test says so."""

    def __init__(self) -> None:
        self.is_over = False

    def check(self) -> None:
        if self.is_over:
            raise OutcomeUnknownError("the time is over; nothing was sent")

    def pass_by(self) -> None:
        self.is_over = True


def owned(cluster: ScriptedCluster, before_send: Callable[[], None] = lambda: None) -> TransactionSession:
    session = TransactionSession(cluster, "id", timeout_ms=1000, before_send=before_send)  # type: ignore[arg-type]
    session.adopt(IDENTITY)
    return session


def append(session: TransactionSession) -> int:
    return asyncio.run(session.produce(WHERE, bytearray(b"batch"), what="append to copy 0"))


# --- deadlines: nothing has an effect after them ----------------------------------------------------------------


def test_an_append_whose_connection_came_too_late_is_not_sent() -> None:
    """Time is looked at when nothing is waited for any more, not before the wait for a connection."""
    cluster, deadline = ScriptedCluster(), Deadline()
    cluster.connecting = deadline.pass_by
    with pytest.raises(OutcomeUnknownError, match="nothing was sent"):
        append(owned(cluster, deadline.check))
    assert cluster.connection_to.sent == 0


@pytest.mark.parametrize("step", ["own", "add", "commit"])
def test_no_step_that_changes_something_is_sent_after_the_deadline(step: str) -> None:
    cluster, deadline = ScriptedCluster(), Deadline()
    session = owned(cluster, deadline.check)
    deadline.pass_by()
    steps: dict[str, Callable[[], Any]] = {
        "own": session.own,
        "add": lambda: session.add([WHERE]),
        "commit": lambda: session.end(committed=True),
    }
    with pytest.raises(OutcomeUnknownError):
        asyncio.run(steps[step]())
    assert cluster.steps == []


def test_a_closing_that_has_begun_is_ended_though_its_time_is_over() -> None:
    """The partition is part of the transaction: left alone it would be aborted, and what it closes was committed."""
    cluster, deadline = ScriptedCluster(), Deadline()
    cluster.states = lambda _: state_of()
    session = owned(cluster, deadline.check)
    add = cluster.add_partitions_to_transaction

    async def add_and_wait(*given: Any, **also: Any) -> Any:
        added = await add(*given, **also)
        deadline.pass_by()
        return added

    cluster.add_partitions_to_transaction = add_and_wait  # type: ignore[method-assign]
    asyncio.run(session.close([WHERE], committed=True))
    assert cluster.steps == ["add", "commit", "look"]


# --- answers that say nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage",
        produced(()),
        produced(((1, 0),)),
        produced(topic="another"),
        produced(((0, 0), (1, 0))),
    ],
    ids=["garbled", "empty", "another partition", "another topic", "more than was asked"],
)
def test_an_answer_to_an_append_that_does_not_speak_of_it_leaves_it_unknown(answer: bytes) -> None:
    cluster = ScriptedCluster()
    cluster.connection_to.answer = answer
    with pytest.raises(OutcomeUnknownError):
        append(owned(cluster))
    assert len(cluster.connection_to.closed_because) == 1, "nothing that comes from there is believed any more"


@pytest.mark.parametrize("error", [RequestTimeoutError("silent"), BrokerUnreachableError("reset")])
def test_an_append_whose_answer_is_lost_is_unknown(error: MirrorlakeError) -> None:
    cluster = ScriptedCluster()
    cluster.connection_to.answer = error
    with pytest.raises(OutcomeUnknownError):
        append(owned(cluster))


def test_an_append_that_was_answered_says_where_it_landed() -> None:
    assert append(owned(ScriptedCluster())) == 5


# --- a transaction that is given up -------------------------------------------------------------------------------


def test_a_transaction_with_a_lost_answer_is_not_aborted_by_its_own_epoch() -> None:
    """What has no answer may still come, and a marker of its own epoch would not stop it."""
    cluster = ScriptedCluster()
    cluster.connection_to.answer = RequestTimeoutError("silent")
    session = owned(cluster)
    with pytest.raises(OutcomeUnknownError):
        append(session)
    asyncio.run(session.abort())
    assert cluster.steps == []


def test_a_transaction_whose_batch_went_another_way_and_has_no_answer_is_not_aborted_either() -> None:
    cluster = ScriptedCluster()
    session = owned(cluster)
    session.lost_an_answer()
    asyncio.run(session.abort())
    assert cluster.steps == []


def test_a_transaction_that_was_refused_plainly_is_aborted() -> None:
    cluster = ScriptedCluster()
    cluster.connection_to.answer = produced(((0, FENCED),))
    session = owned(cluster)
    with pytest.raises(PositionMovedError):
        append(session)
    asyncio.run(session.abort())
    assert cluster.steps == ["abort"]


def test_nothing_is_unknown_any_more_under_a_new_epoch() -> None:
    cluster = ScriptedCluster()
    session = owned(cluster)
    session.lost_an_answer()
    asyncio.run(session.own())
    asyncio.run(session.abort())
    assert cluster.steps == ["own", "abort"]
    assert session.identity == ProducerIdentity(producer_id=7, producer_epoch=4)


def test_an_id_that_could_not_be_owned_is_not_owned_any_more() -> None:
    cluster = ScriptedCluster()
    cluster.failing["own"] = RequestTimeoutError("silent")
    session = owned(cluster)
    with pytest.raises(RequestTimeoutError):
        asyncio.run(session.own())
    assert not session.is_owned


def test_what_is_refused_of_partitions_is_named() -> None:
    cluster = ScriptedCluster()
    cluster.refused[OTHER] = BrokerNotReadyError("not now")
    session = owned(cluster)
    assert list(asyncio.run(session.add([WHERE, OTHER]))) == [OTHER]
    with pytest.raises(BrokerNotReadyError):
        asyncio.run(session.add_all([WHERE, OTHER]))


def test_of_partitions_that_are_refused_together_the_one_says_why_that_was_tried() -> None:
    """As `KafkaApis.handleAddPartitionsToTxnRequest` answers: one may not be written, the others are not attempted."""
    cluster = ScriptedCluster()
    cluster.refused[WHERE] = error_for(OPERATION_NOT_ATTEMPTED, what=f"AddPartitionsToTxn of {WHERE}")
    cluster.refused[OTHER] = error_for(29, what=f"AddPartitionsToTxn of {OTHER}", topic="copy")
    with pytest.raises(PermissionDeniedError, match="copy-1"):
        asyncio.run(owned(cluster).add_all([WHERE, OTHER]))


# --- markers ------------------------------------------------------------------------------------------------------


def test_a_marker_that_never_comes_is_told_by_a_leader_asked_after_the_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "_PATIENCE_SECONDS", 0.0)
    cluster = ScriptedCluster()
    cluster.states = lambda at: state_of(open_from=4 if at == WHERE else None)
    cluster.found = iter((found("PrepareCommit"), found("CompleteCommit")))
    assert asyncio.run(owned(cluster).until_closed([WHERE, OTHER])) == {WHERE: 4}
    assert cluster.steps[-2:] == ["describe", "look"]


def test_a_coordinator_that_cannot_be_asked_leaves_a_transaction_open() -> None:
    cluster = ScriptedCluster()
    cluster.states = lambda _: state_of(open_from=4)
    cluster.found = iter(lambda: BrokerUnreachableError("away"), None)
    with pytest.raises(BrokerNotReadyError):
        asyncio.run(owned(cluster).until_closed([WHERE]))


def test_markers_are_there_when_the_coordinator_is_done_and_every_log_ends_where_it_should(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "MARKED_SECONDS_MAX", 0.2)
    cluster = ScriptedCluster()
    cluster.found = iter((found("PrepareAbort"), found("CompleteAbort")))
    assert asyncio.run(owned(cluster).until_marked({WHERE: 10})) == {WHERE: state_of()}
    assert cluster.steps == ["describe", "look"] * 2
    cluster.found = iter(lambda: found("CompleteAbort"), None)
    with pytest.raises(OutcomeUnknownError, match="copy-0 should end at 11"):
        asyncio.run(owned(cluster).until_marked({WHERE: 11}))


@pytest.mark.parametrize(
    ("answer", "holds"),
    [
        (found("CompleteAbort"), True),
        (found("Empty"), True),
        (found("Ongoing"), False),
        (found("Empty", epoch=4), False),
        (None, False),
        (BrokerUnreachableError("away"), False),
    ],
)
def test_an_identity_still_holds_where_the_coordinator_names_it_and_nothing_is_open(
    answer: TransactionState | MirrorlakeError | None, holds: bool
) -> None:
    cluster = ScriptedCluster()
    cluster.found = iter((answer,))
    assert asyncio.run(owned(cluster).still_holds(IDENTITY)) is holds


def test_a_leader_that_cannot_be_asked_is_an_error() -> None:
    cluster = ScriptedCluster()
    cluster.states = lambda _: BrokerUnreachableError("away")
    with pytest.raises(BrokerUnreachableError):
        asyncio.run(owned(cluster).look([WHERE]))


def test_a_new_epoch_begins_at_sequence_0() -> None:
    cluster = ScriptedCluster()
    cluster.states = lambda _: state_of(epoch=2, open_from=6)
    standing = asyncio.run(owned(cluster).look([WHERE]))[WHERE]
    assert (standing.sequence, standing.open_from, standing.has_written) == (0, 6, True)
