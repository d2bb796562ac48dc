"""Every error code of a broker becomes one of our errors, with its name in the text."""

import pickle
from typing import Any

import pytest
from kafka import errors as kafka_python

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake import errors
from mirrorlake.errors import MirrorlakeError, PermanentError, TransientError
from mirrorlake.kafka.wire.error_codes import COORDINATOR_MOVES, ERROR_NAMES, STALE_METADATA, error_for

ALL_CODES = [-1, *range(1, 134)]

# Kafka's Errors.java of 4.3.0 marks these as retriable. Some are not tried again here, and some others are.
RETRIABLE_IN_KAFKA = {
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89),
    *(100, 103, 106, 122, 123, 133),
}
NOT_TRIED_AGAIN_HERE = {
    2,  # the same bytes would be damaged again
    3,  # the topic is missing, not late: creating it waits until it is there
    100,  # the same by id
    103,  # another topic of the same name
}

EXPECTED = {
    -1: errors.BrokerNotReadyError,
    1: errors.SourceTruncatedError,
    2: errors.CorruptBatchError,
    3: errors.TopicMissingError,
    5: errors.BrokerNotReadyError,
    6: errors.BrokerNotReadyError,
    7: errors.OutcomeUnknownError,
    10: errors.RecordTooLargeError,
    13: errors.BrokerUnreachableError,
    14: errors.BrokerNotReadyError,
    15: errors.BrokerNotReadyError,
    16: errors.BrokerNotReadyError,
    18: errors.RecordTooLargeError,
    19: errors.BrokerNotReadyError,
    20: errors.OutcomeUnknownError,
    29: errors.PermissionDeniedError,
    30: errors.PermissionDeniedError,
    31: errors.PermissionDeniedError,
    32: errors.RecordRefusedError,
    35: errors.UnsupportedError,
    38: errors.UnsupportedError,
    40: errors.UnsupportedError,
    44: errors.PermissionDeniedError,
    45: errors.PositionMovedError,
    46: errors.PositionMovedError,
    47: errors.PositionMovedError,
    48: errors.PositionMovedError,
    49: errors.PositionMovedError,
    51: errors.BrokerNotReadyError,
    53: errors.PermissionDeniedError,
    56: errors.BrokerNotReadyError,
    58: errors.PermissionDeniedError,
    59: errors.PositionMovedError,
    74: errors.BrokerNotReadyError,
    75: errors.BrokerNotReadyError,
    87: errors.RecordRefusedError,
    89: errors.BrokerNotReadyError,
    90: errors.PositionMovedError,
    100: errors.TopicMissingError,
    120: errors.PositionMovedError,
}


def test_all_codes_of_kafka_have_a_name() -> None:
    assert sorted(ERROR_NAMES) == ALL_CODES


def test_the_names_are_those_of_kafka_python_where_it_knows_the_code() -> None:
    kinds: list[Any] = [kind for kind in vars(kafka_python).values() if isinstance(kind, type)]
    theirs = {
        kind.errno: kind.message for kind in kinds if issubclass(kind, kafka_python.BrokerResponseError) and kind.errno
    }
    renamed = {
        -1: "UNKNOWN_SERVER_ERROR",
        6: "NOT_LEADER_OR_FOLLOWER",
        10: "MESSAGE_TOO_LARGE",
        17: "INVALID_TOPIC_EXCEPTION",
        39: "INVALID_REPLICA_ASSIGNMENT",
    }

    assert len(theirs) > 90
    assert {code: ERROR_NAMES[code] for code in theirs if code in ERROR_NAMES} == {
        code: renamed.get(code, name) for code, name in theirs.items() if code in ERROR_NAMES
    }


@pytest.mark.parametrize("code", ALL_CODES)
def test_every_code_becomes_an_error_that_names_it(code: int) -> None:
    error = error_for(code, what="Produce to orders-3", partition="orders-3")

    assert isinstance(error, TransientError | PermanentError)
    assert error.message == f"Produce to orders-3 was answered with {ERROR_NAMES[code]} ({code})"
    assert error.facts == {"code": code, "code_name": ERROR_NAMES[code], "partition": "orders-3"}


@pytest.mark.parametrize(("code", "kind"), EXPECTED.items())
def test_a_code_becomes_the_error_that_says_what_to_do(code: int, kind: type[MirrorlakeError]) -> None:
    assert type(error_for(code, what="x")) is kind


@pytest.mark.parametrize("code", sorted(RETRIABLE_IN_KAFKA - NOT_TRIED_AGAIN_HERE))
def test_what_kafka_calls_retriable_is_transient(code: int) -> None:
    assert isinstance(error_for(code, what="x"), TransientError)


@pytest.mark.parametrize("code", sorted(NOT_TRIED_AGAIN_HERE))
def test_what_another_try_cannot_help_is_permanent(code: int) -> None:
    assert isinstance(error_for(code, what="x"), PermanentError)


@pytest.mark.parametrize("code", [134, 999, -2, 32767])
def test_an_unknown_code_is_permanent_and_says_so(code: int) -> None:
    error = error_for(code, what="Fetch")

    assert type(error) is errors.UnsupportedError
    assert error.message == f"Fetch was answered with an unknown code ({code})"
    assert "newer" in error.hint


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (10, "max.message.bytes"),
        (29, "WRITE"),
        (30, "READ and DESCRIBE on the group"),
        (31, "IDEMPOTENT_WRITE"),
        (32, "message.timestamp"),
        (53, "transactional id"),
        (87, "without key"),
    ],
)
def test_a_hint_names_the_remedy(code: int, remedy: str) -> None:
    assert remedy in str(error_for(code, what="x"))


def test_the_brokers_own_words_are_kept() -> None:
    assert "INVALID_CONFIG (40): Unknown topic config name: x.y" in str(
        error_for(40, what="x", message="Unknown topic config name: x.y")
    )


def test_errors_cross_process_borders() -> None:
    error = pickle.loads(pickle.dumps(error_for(45, what="x", topic="t")))

    assert (type(error), error.facts["code"], error.facts["topic"]) == (errors.PositionMovedError, 45, "t")


def test_codes_that_only_mean_a_move_are_transient() -> None:
    assert {6, 74, 75} == STALE_METADATA
    assert {14, 15, 16} == COORDINATOR_MOVES
    assert all(isinstance(error_for(code, what="x"), TransientError) for code in STALE_METADATA | COORDINATOR_MOVES)
