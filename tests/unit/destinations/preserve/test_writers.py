"""Whose producers a copy's partition may remember."""

import pytest

from mirrorlake.destinations.preserve.look import check_writers
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.transactions.claim import PartitionClaim
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import TopicPartition


@pytest.mark.parametrize(
    ("own_id", "said"),
    [(7, "producer id 2, ours is 7"), (-1, "producer id 2, and this mirror has never written there")],
)
def test_another_writer_is_named_and_may_be_another_mirror(own_id: int, said: str) -> None:
    orders = TopicPartition("orders", 0)
    settings = PreserveSettings(
        source=orders, destination=orders, transactional_id="mirrorlake.orders.0", batch_bytes_max=1 << 20
    )
    claim = PartitionClaim(
        leader=1,
        producer_id=own_id,
        producer_epoch=0,
        next_sequence=0,
        state_is_known=True,
        end_offset=9,
        other_producer_ids=(2,),
    )
    with pytest.raises(DestinationForeignError) as refused:
        check_writers(settings, claim, frozenset({own_id}))
    assert refused.value.message.endswith(said)
    assert "`--rename` of `restore`" in refused.value.hint
    check_writers(settings, claim, frozenset({2}))
