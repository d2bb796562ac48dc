"""The right that is missing, by what was asked and what the broker answered."""

import pytest

from mirrorlake.errors import PermissionDeniedError
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.permissions import missing_right


@pytest.mark.parametrize(
    ("what", "right"),
    [
        ("Metadata of topic orders", "DESCRIBE"),
        ("ListOffsets of orders-0", "DESCRIBE"),
        ("Producers of orders-0", "READ"),
        ("fetch of source orders-0 at offset 5", "READ"),
        ("append to destination orders-0 at offset 5", "WRITE"),
        ("AddPartitionsToTxn of orders-0", "WRITE"),
        ("CreateTopics of orders", "CREATE"),
        ("CreatePartitions of orders", "ALTER"),
        ("DeleteRecords of orders-0", "DELETE"),
        ("DescribeConfigs of orders", "DESCRIBE_CONFIGS"),
    ],
)
def test_a_topics_right_is_named(what: str, right: str) -> None:
    expected = f"grant {right} on topic orders to this user"
    assert missing_right(29, what=what, facts={"topic": "orders"}) == expected
    assert missing_right(29, what=what, facts={"partition": "orders-0"}) == expected


@pytest.mark.parametrize("what", ["FindCoordinator of 'a'", "InitProducerId of 'a'", "EndTxn of 'a'"])
def test_a_transactional_ids_right_is_the_one_that_includes_all(what: str) -> None:
    expected = "grant WRITE on transactional id a to this user"
    assert missing_right(53, what=what, facts={"transactional_id": "a"}) == expected


def test_a_clusters_right_is_named() -> None:
    assert (
        missing_right(31, what="CreateTopics of t", facts={"topic": "t"}) == "grant CREATE on the cluster to this user"
    )


@pytest.mark.parametrize(("code", "what"), [(29, "Something of t"), (3, "Metadata of t"), (0, "")])
def test_nothing_is_guessed(code: int, what: str) -> None:
    assert missing_right(code, what=what, facts={"topic": "t"}) == ""


def test_a_denied_request_nobody_foresaw_still_has_a_hint() -> None:
    error = error_for(29, what="Something of t", topic="t")
    assert isinstance(error, PermissionDeniedError)
    assert error.hint.startswith("grant on the topic")
