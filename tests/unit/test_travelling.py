"""Values that travel between processes come out equal to what went in, whatever they inherit or hold."""

import pickle
from dataclasses import dataclass, fields

import pytest

from mirrorlake.destinations.orders import NO_ORDERS, Orders
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.travelling import travelling
from support.partition_states import kafka_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    first: int
    second: str = "two"


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Base):
    third: tuple[int, ...] = ()


def there_and_back(value: object) -> object:
    return pickle.loads(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


@pytest.mark.parametrize(
    "value",
    [
        Derived(first=1),
        Derived(first=1, second="", third=(1, 2)),
        TopicPartition("orders", 3),
        NO_ORDERS,
        Orders(last_position=7, needs_tail_check=False, own_producer_ids=frozenset({1, 2})),
        kafka_state(3).work,
        LeaseRow(
            mirror="m",
            source=TopicPartition("orders", 0),
            destination="west",
            start_offset=1,
            position=None,
            source_start=None,
            source_end=5,
            batches={"raw:dense": 2},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_out_equal_and_frozen(value: object) -> None:
    found = there_and_back(value)
    assert (found, type(found)) == (value, type(value))
    names = value._fields if isinstance(value, TopicPartition) else [each.name for each in fields(value)]  # type: ignore[arg-type]
    with pytest.raises(AttributeError):  # of a dataclass a kind of it
        setattr(found, names[0], None)


def test_what_is_the_same_object_in_two_places_is_so_afterwards() -> None:
    work = kafka_state(1).work
    assert isinstance(work, PreserveWork)
    found = there_and_back((work, work.settings.source))
    assert isinstance(found, tuple)
    assert found[0].settings.source is found[1]


def test_a_state_of_other_fields_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        Derived(first=1).__setstate__((1, 2))  # type: ignore[attr-defined]
