"""Transactional ids and the brokers that coordinate them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

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
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.control.transaction_requests import (
    add_partitions_request,
    describe_transactions_request,
    end_transaction_request,
    find_coordinators_request,
    init_producer_id_request,
)
from mirrorlake.kafka.wire.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_MOVES,
    TRANSACTIONAL_ID_NOT_FOUND,
    error_for,
)
from mirrorlake.offsets import TopicPartition

T = TypeVar("T")

BeforeSend = Callable[[], None]
"""Called right before a request that changes something goes out, each time; raises where it must not any more."""


def at_any_time() -> None:
    """Lets every request go out."""


_PATIENCE_CODES = COORDINATOR_MOVES | {CONCURRENT_TRANSACTIONS}
_PAUSE_SECONDS_MIN = 0.002
"""A marker is written in a few milliseconds; CONCURRENT_TRANSACTIONS ends then."""
_PAUSE_SECONDS_MAX = 0.25


class Coordinators:
    """Finds coordinators, remembers them, and asks them; forgets one that says it is not, or cannot be reached."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._broker_ids: dict[str, int] = {}

    async def init_producer_id(
        self, transactional_id: str | None, *, transaction_timeout_ms: int, before_send: BeforeSend = at_any_time
    ) -> ProducerIdentity:
        """See `ClusterClient.init_producer_id`."""
        request = init_producer_id_request(transactional_id, transaction_timeout_ms=transaction_timeout_ms)

        async def ask() -> ProducerIdentity | Refused:
            if transactional_id is None:
                return await self._brokers.ask_any(request)
            return await self._ask(transactional_id, request, before_send)

        answer = await self._patiently(ask)
        if isinstance(answer, Refused):
            raise self._error(answer, "InitProducerId", transactional_id)
        return answer

    async def describe(self, transactional_ids: Sequence[str]) -> dict[str, TransactionState | MirrorlakeError | None]:
        """See `ClusterClient.describe_transactions`."""
        results: dict[str, TransactionState | MirrorlakeError | None] = {}
        todo = list(dict.fromkeys(transactional_ids))
        for _ in range(2):
            moved: list[str] = []
            for transactional_id, answer in (await self._describe_once(todo)).items():
                if not isinstance(answer, Refused):
                    results[transactional_id] = answer
                    continue
                if answer.code in COORDINATOR_MOVES and self._broker_ids.pop(transactional_id, None) is not None:
                    moved.append(transactional_id)
                is_unknown = answer.code == TRANSACTIONAL_ID_NOT_FOUND
                error = self._error(answer, "DescribeTransactions", transactional_id)
                results[transactional_id] = None if is_unknown else error
            if not moved:
                break
            todo = moved
        return results

    async def _describe_once(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionState | Refused | MirrorlakeError]:
        results: dict[str, TransactionState | Refused | MirrorlakeError] = {}
        by_broker: dict[int, list[str]] = {}
        for transactional_id, found in (await self._find(transactional_ids)).items():
            if isinstance(found, int):
                by_broker.setdefault(found, []).append(transactional_id)
            else:
                results[transactional_id] = found

        async def ask(broker_id: int, ids: list[str]) -> None:
            try:
                answers = await self._brokers.ask(broker_id, describe_transactions_request(ids))
            except MirrorlakeError as error:
                for transactional_id in ids:
                    self._broker_ids.pop(transactional_id, None)
                    results[transactional_id] = error
            else:
                for transactional_id in ids:
                    results[transactional_id] = answers.get(transactional_id, _NO_ANSWER)

        async with asyncio.TaskGroup() as group:
            for broker_id, ids in by_broker.items():
                group.create_task(ask(broker_id, ids))
        return results

    async def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        *,
        before_send: BeforeSend = at_any_time,
    ) -> dict[TopicPartition, MirrorlakeError | None]:
        """See `ClusterClient.add_partitions_to_transaction`."""
        wanted = tuple(partitions)
        request = add_partitions_request(transactional_id, identity, wanted)

        async def ask() -> dict[TopicPartition, Refused | None] | Refused:
            found = await self._ask_unrepeatable(transactional_id, request, "AddPartitionsToTxn", before_send)
            # One that the answer leaves out is not known to be part of anything.
            answers = {partition: found.get(partition, _NO_ANSWER) for partition in wanted}
            waits = [answer for answer in answers.values() if answer and answer.code in _PATIENCE_CODES]
            return waits[0] if waits else answers

        answers = await self._patiently(ask, transactional_id)
        if isinstance(answers, Refused):
            raise self._error(answers, "AddPartitionsToTxn", transactional_id)
        return {
            partition: answer
            and self._error(answer, f"AddPartitionsToTxn of {partition}", transactional_id, topic=partition.topic)
            for partition, answer in answers.items()
        }

    async def end_transaction(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        *,
        committed: bool,
        before_send: BeforeSend = at_any_time,
    ) -> None:
        """See `ClusterClient.end_transaction`."""
        request = end_transaction_request(transactional_id, identity, committed=committed)
        answer = await self._ask_unrepeatable(transactional_id, request, "EndTxn", before_send)
        if answer is not None:
            if answer.code in COORDINATOR_MOVES:
                self._broker_ids.pop(transactional_id, None)
            raise self._error(answer, "EndTxn", transactional_id)

    # -- finding and asking ---------------------------------------------------------------------------------

    async def _find(self, transactional_ids: Sequence[str]) -> dict[str, int | MirrorlakeError]:
        """Returns broker ids; waits with bounded patience while the coordinators load."""
        unknown = [each for each in transactional_ids if each not in self._broker_ids]
        found: dict[str, int | MirrorlakeError] = {
            each: self._broker_ids[each] for each in transactional_ids if each in self._broker_ids
        }

        async def ask() -> Refused | None:
            # A broker before 3.0 answers about one id at a time.
            answers: dict[str, int | Refused] = {}
            while left := [each for each in unknown if each not in answers]:
                more = await self._brokers.ask_any(find_coordinators_request(left))
                if answers.keys() >= more.keys():
                    break
                answers |= more
            waiting: Refused | None = None
            for transactional_id in tuple(unknown):
                answer = answers.get(transactional_id, _NO_ANSWER)
                if isinstance(answer, int):
                    self._broker_ids[transactional_id] = found[transactional_id] = answer
                    unknown.remove(transactional_id)
                    continue
                found[transactional_id] = self._error(answer, "FindCoordinator", transactional_id)
                waiting = answer if answer.code in COORDINATOR_MOVES else waiting
            return waiting

        if unknown:
            await self._patiently(ask)
        return found

    async def _coordinator(self, transactional_id: str) -> int:
        found = (await self._find((transactional_id,)))[transactional_id]
        if isinstance(found, MirrorlakeError):
            raise found
        return found

    async def _ask(
        self, transactional_id: str, request: ControlRequest[T | Refused], before_send: BeforeSend
    ) -> T | Refused:
        broker_id = await self._coordinator(transactional_id)
        try:
            connection = await self._brokers.connection(broker_id, CONTROL)
            before_send()
            answer = await request.ask(connection, timeout_seconds=self._brokers.settings.request_timeout_seconds)
        except MirrorlakeError:
            self._broker_ids.pop(transactional_id, None)
            raise
        if isinstance(answer, Refused) and answer.code in COORDINATOR_MOVES:
            self._broker_ids.pop(transactional_id, None)
        return answer

    async def _ask_unrepeatable(
        self, transactional_id: str, request: ControlRequest[T], name: str, before_send: BeforeSend
    ) -> T:
        """Asks the coordinator; once the request is on its way, no answer means that nothing is known."""
        broker_id = await self._coordinator(transactional_id)
        try:
            connection = await self._brokers.connection(broker_id, CONTROL)
        except MirrorlakeError:
            self._broker_ids.pop(transactional_id, None)
            raise
        before_send()
        try:
            return await request.ask(connection, timeout_seconds=self._brokers.settings.request_timeout_seconds)
        except (BrokerUnreachableError, RequestTimeoutError, CorruptBatchError) as error:
            self._broker_ids.pop(transactional_id, None)
            raise OutcomeUnknownError(
                f"the answer to {name} of {transactional_id!r} was lost: {error.message}",
                hint="fence with InitProducerId and read the destination again",
                transactional_id=transactional_id,
            ) from error

    async def _patiently(
        self, ask: Callable[[], Awaitable[T | Refused]], transactional_id: str | None = None
    ) -> T | Refused:
        """Asks again while the coordinator loads, moves or is busy, for as long as a request may take."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._brokers.settings.request_timeout_seconds
        pause_seconds = _PAUSE_SECONDS_MIN
        while True:
            answer = await ask()
            if not isinstance(answer, Refused) or answer.code not in _PATIENCE_CODES:
                return answer
            if transactional_id is not None and answer.code in COORDINATOR_MOVES:
                self._broker_ids.pop(transactional_id, None)
            if loop.time() + pause_seconds > deadline:
                return answer
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(_PAUSE_SECONDS_MAX, pause_seconds * 2)

    def _error(self, answer: Refused, what: str, transactional_id: str | None, **facts: Fact) -> MirrorlakeError:
        cluster = self._brokers.settings.name
        return error_for(
            answer.code,
            what=f"{what} of {transactional_id!r} in cluster {cluster!r}",
            message=answer.message,
            cluster=cluster,
            transactional_id=transactional_id,
            **facts,
        )


_NO_ANSWER = Refused(-1, "the broker left it out of its answer")
