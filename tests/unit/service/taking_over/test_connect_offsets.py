"""Positions as Connect's offsets topics hold them; the texts are those the programs write."""

import pytest

from mirrorlake.offsets import TopicPartition
from mirrorlake.service.taking_over.connect_offsets import Convention, stored_positions

MM2 = Convention(connector=None, cluster="east", next_minus_stored=1)
MIRUS = Convention(connector="orders-mirror", cluster=None, next_minus_stored=0)
ORDERS = TopicPartition("orders", 3)
MM2_KEY = b'["MirrorSourceConnector",{"cluster":"east","partition":3,"topic":"orders"}]'
MIRUS_KEY = b'["orders-mirror",{"partition":3,"topic":"orders"}]'


def positions(*records: tuple[bytes | None, bytes | None], convention: Convention = MM2) -> dict[TopicPartition, int]:
    found = stored_positions(records, convention)
    return {partition: each.only for partition, each in found.items() if each.only is not None}


def test_mirror_maker_stores_the_last_record_copied_and_mirus_the_next_one() -> None:
    assert positions((MM2_KEY, b'{"offset":41}')) == {ORDERS: 42}
    assert positions((MIRUS_KEY, b'{"offset":41}'), convention=MIRUS) == {ORDERS: 41}


def test_the_order_of_the_fields_says_nothing() -> None:
    key = b'[ "any", {"topic": "orders", "partition": 3, "cluster": "east"} ]'

    assert positions((key, b'{"offset":41}')) == {ORDERS: 42}


def test_the_newest_record_of_a_partition_counts() -> None:
    assert positions((MM2_KEY, b'{"offset":41}'), (MM2_KEY, b'{"offset":7}')) == {ORDERS: 8}


@pytest.mark.parametrize("value", [None, b"null", b"", b'{"offset":null}', b'{"offset":-1}', b'{"offset":true}', b"[]"])
def test_an_offset_that_was_taken_back_is_none(value: bytes | None) -> None:
    assert stored_positions([(MM2_KEY, b'{"offset":41}'), (MM2_KEY, value)], MM2) == {}


def test_zero_is_an_offset() -> None:
    assert positions((MM2_KEY, b'{"offset":0}')) == {ORDERS: 1}
    assert positions((MIRUS_KEY, b'{"offset":0}'), convention=MIRUS) == {ORDERS: 0}


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"orders",
        b"\xff",
        b"[" * 100_000,
        b'["MirrorSourceConnector",{"cluster":"south","partition":3,"topic":"orders"}]',
        b'["MirrorCheckpointConnector",{"group":"g","partition":3,"topic":"orders"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"east","targetClusterAlias":"west"}]',
        b'["MirrorSourceConnector",{"cluster":"east","partition":"3","topic":"orders"}]',
        b'["MirrorSourceConnector",{"cluster":"east","partition":3,"topic":null}]',
        b'["MirrorSourceConnector",{"cluster":"east","partition":true,"topic":"orders"}]',
        MIRUS_KEY,
    ],
)
def test_keys_of_other_connectors_and_other_sources_are_passed_over(key: bytes | None) -> None:
    assert stored_positions([(key, b'{"offset":41}')], MM2) == {}


def test_a_connector_of_another_name_is_another_one_where_the_name_is_known() -> None:
    assert stored_positions([(b'["other",{"partition":3,"topic":"orders"}]', b'{"offset":41}')], MIRUS) == {}


def test_two_connectors_that_say_where_they_stood_are_both_returned() -> None:
    other = b'["second",{"cluster":"east","partition":3,"topic":"orders"}]'

    (found,) = stored_positions([(MM2_KEY, b'{"offset":41}'), (other, b'{"offset":50}')], MM2).values()

    assert found.next_offsets == {"MirrorSourceConnector": 42, "second": 51}
    assert found.only is None
