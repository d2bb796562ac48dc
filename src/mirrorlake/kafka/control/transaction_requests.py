"""Requests that find coordinators, and those to transaction coordinators: what is sent, and what the answers say."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

from mirrorlake.kafka.control.control_requests import ControlRequest, Refused, by_topic
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.protocol_classes import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from mirrorlake.offsets import TopicPartition


class KeyType(IntEnum):
    """What is coordinated, by Kafka's numbers (``FindCoordinatorRequest.CoordinatorType``)."""

    GROUP = 0
    TRANSACTION = 1


_NEW_PRODUCER = -1
_MANY_KEYS_VERSION = 4
"""From which on FindCoordinator takes many keys (KIP-699)."""


def find_coordinators_request(
    keys: Sequence[str], key_type: KeyType = KeyType.TRANSACTION
) -> ControlRequest[dict[str, int | Refused]]:
    """Asks which brokers coordinate transactional ids, or groups; at least one.

    A broker before Kafka 3.0 is asked about the first alone (KIP-699): ask again about those left out.
    """

    def message(version: int) -> Any:
        if version < _MANY_KEYS_VERSION:
            return FindCoordinatorRequest(key_type=key_type, key=keys[0], version=version)
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys), version=version)

    def read(answer: Any) -> dict[str, int | Refused]:
        if answer.version < _MANY_KEYS_VERSION:
            return {keys[0]: Refused(answer.error_code, answer.error_message) if answer.error_code else answer.node_id}
        return {
            found.key: Refused(found.error_code, found.error_message) if found.error_code else found.node_id
            for found in answer.coordinators
        }

    return ControlRequest(api=Api.FIND_COORDINATOR, message=message, answer=FindCoordinatorResponse, read=read)


def init_producer_id_request(
    transactional_id: str | None, *, transaction_timeout_ms: int
) -> ControlRequest[ProducerIdentity | Refused]:
    """Asks for a producer id: a new one with None, else the transactional id's, with the next epoch."""

    def message(version: int) -> Any:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            producer_id=_NEW_PRODUCER,
            producer_epoch=_NEW_PRODUCER,
            version=version,
        )

    def read(answer: Any) -> ProducerIdentity | Refused:
        if answer.error_code:
            return Refused(answer.error_code)
        return ProducerIdentity(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

    return ControlRequest(api=Api.INIT_PRODUCER_ID, message=message, answer=InitProducerIdResponse, read=read)


def describe_transactions_request(
    transactional_ids: Sequence[str],
) -> ControlRequest[dict[str, TransactionState | Refused]]:
    """Asks a coordinator what it knows of transactional ids; changes nothing."""

    def message(version: int) -> Any:
        return DescribeTransactionsRequest(transactional_ids=list(transactional_ids), version=version)

    def read(answer: Any) -> dict[str, TransactionState | Refused]:
        return {
            state.transactional_id: Refused(state.error_code) if state.error_code else _read_transaction(state)
            for state in answer.transaction_states
        }

    return ControlRequest(
        api=Api.DESCRIBE_TRANSACTIONS, message=message, answer=DescribeTransactionsResponse, read=read
    )


def _read_transaction(state: Any) -> TransactionState:
    return TransactionState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
        ),
    )


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> ControlRequest[dict[TopicPartition, Refused | None]]:
    """Asks to make partitions part of the transaction; None for those that are now. Adding again changes nothing."""
    topics = by_topic(partitions)

    def message(version: int) -> Any:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[topic(name=name, partitions=numbers) for name, numbers in topics.items()],
            version=version,
        )

    def read(answer: Any) -> dict[TopicPartition, Refused | None]:
        return {
            TopicPartition(topic.name, result.partition_index): Refused(result.partition_error_code)
            if result.partition_error_code
            else None
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }

    return ControlRequest(api=Api.ADD_PARTITIONS_TO_TXN, message=message, answer=AddPartitionsToTxnResponse, read=read)


def end_transaction_request(
    transactional_id: str, identity: ProducerIdentity, *, committed: bool
) -> ControlRequest[Refused | None]:
    """Asks to commit or abort the transaction; None for done."""

    def message(version: int) -> Any:
        return EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=committed,
            version=version,
        )

    def read(answer: Any) -> Refused | None:
        return Refused(answer.error_code) if answer.error_code else None

    return ControlRequest(api=Api.END_TXN, message=message, answer=EndTxnResponse, read=read)
