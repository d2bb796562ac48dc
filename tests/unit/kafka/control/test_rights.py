"""What a broker tells of a user's rights to the cluster, and what it does not tell."""

import pytest

from mirrorlake.kafka.control.rights import cluster_rights_request

ALTER, DESCRIBE = 1 << 7, 1 << 8
NOT_ASKED = -(1 << 31)


def answer(operations: int, error_code: int = 0) -> memoryview:
    """DescribeCluster's, version 0: of a cluster `c` without brokers."""
    head = bytes(4) + error_code.to_bytes(2, "big") + b"\x00" + b"\x02c" + (1).to_bytes(4, "big") + b"\x01"
    return memoryview(head + operations.to_bytes(4, "big", signed=True) + b"\x00")


def test_rights_are_asked_for() -> None:
    assert bytes(cluster_rights_request().message(0).encode(version=0)) == b"\x01\x00"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (ALTER | DESCRIBE, {"ALTER", "DESCRIBE"}),
        (DESCRIBE, {"DESCRIBE"}),
        (DESCRIBE | 1 << 13, {"DESCRIBE"}),  # one that is newer than this client
        (0, None),
        (ALTER, None),
        (NOT_ASKED, None),
    ],
)
def test_who_may_not_describe_a_cluster_is_told_nothing_of_it(operations: int, expected: set[str] | None) -> None:
    assert cluster_rights_request().decode(answer(operations), 0, peer="east") == expected


def test_a_refusal_tells_nothing() -> None:
    assert cluster_rights_request().decode(answer(ALTER | DESCRIBE, error_code=31), 0, peer="east") is None
