"""What a destination cluster of some version cannot do, and which mode remains."""

import pytest

from mirrorlake.config.destinations.kafka import OffsetMode
from mirrorlake.errors import UnsupportedError
from mirrorlake.kafka.wire.apis import VERSION_CAPS, Api, lacks
from mirrorlake.topics.destination_versions import NEEDED_APIS, refusal

Versions = dict[int, tuple[int, int]]

# As brokers of these versions answer ApiVersions about the APIs a destination may need.
KAFKA_2_4: Versions = {Api.INIT_PRODUCER_ID: (0, 2), Api.ADD_PARTITIONS_TO_TXN: (0, 1), Api.END_TXN: (0, 1)}
KAFKA_2_8: Versions = {
    Api.INIT_PRODUCER_ID: (0, 4),
    Api.ADD_PARTITIONS_TO_TXN: (0, 3),
    Api.END_TXN: (0, 3),
    Api.DESCRIBE_PRODUCERS: (0, 0),
}
KAFKA_3_0: Versions = {**KAFKA_2_8, Api.DESCRIBE_TRANSACTIONS: (0, 0)}


def refused(versions: Versions, mode: OffsetMode) -> UnsupportedError | None:
    lacking = {
        api: UnsupportedError(f"{api.title} is needed", hint=f"upgrade for {api.title}", api=api.title)
        for api in NEEDED_APIS[OffsetMode.PRESERVE]
        if lacks(versions, api)
    }
    return refusal(lacking, mode=mode, cluster="west")


@pytest.mark.parametrize(
    ("versions", "mode"),
    [(KAFKA_3_0, OffsetMode.PRESERVE), (KAFKA_3_0, OffsetMode.MAP), (KAFKA_2_8, OffsetMode.MAP)],
    ids=["preserve-3.0", "map-3.0", "map-2.8"],
)
def test_a_cluster_that_knows_what_a_mode_needs_is_no_error(versions: Versions, mode: OffsetMode) -> None:
    assert refused(versions, mode) is None


def test_without_describe_transactions_mapped_offsets_remain() -> None:
    error = refused(KAFKA_2_8, OffsetMode.PRESERVE)

    assert str(error) == (
        "cluster west cannot be a destination with `offsets: preserve`: DescribeTransactions is needed. "
        "(use `offsets: map`, which does without; or upgrade the brokers: upgrade for DescribeTransactions)"
    )
    assert error is not None
    assert error.facts == {"api": "DescribeTransactions", "cluster": "west"}


def test_without_describe_producers_the_archive_remains() -> None:
    assert str(refused(KAFKA_2_4, OffsetMode.MAP)) == (
        "cluster west cannot be a destination with `offsets: map`: DescribeProducers is needed. "
        "(only an archive destination remains; or upgrade the brokers: upgrade for DescribeProducers)"
    )
    assert str(refused(KAFKA_2_4, OffsetMode.PRESERVE)) == (
        "cluster west cannot be a destination with `offsets: preserve`: DescribeProducers is needed. "
        "DescribeTransactions is missing too. "
        "(only an archive destination remains; or upgrade the brokers: upgrade for DescribeTransactions)"
    )


def test_without_transactions_the_archive_remains() -> None:
    error = refused({}, OffsetMode.MAP)

    assert error is not None
    assert "InitProducerId is needed. AddPartitionsToTxn is missing too. EndTxn is missing too." in error.message
    assert "only an archive destination remains" in error.hint


@pytest.mark.parametrize(
    ("known", "is_lacking"),
    [
        ((0, 3), False),
        ((0, 99), False),
        ((1, 1), False),
        ((0, 0), True),  # nothing that carries what is needed
        ((VERSION_CAPS[Api.END_TXN] + 1, 99), True),  # nothing we would ever send
    ],
)
def test_an_api_is_lacking_where_no_version_is_known_to_both(known: tuple[int, int], is_lacking: bool) -> None:
    assert lacks({Api.END_TXN: known}, Api.END_TXN) is is_lacking
