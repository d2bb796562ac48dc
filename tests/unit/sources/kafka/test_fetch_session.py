"""What a fetch session is told, by what its partitions want. Pure."""

from dataclasses import dataclass
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.descriptions import format_topic_id, parse_topic_id
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.kafka.wire.fetch_by_id import SessionStep
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.fetch_session import FetchSession
from mirrorlake.sources.kafka.read_partition import PinnedAnswer

ORDERS, PAYMENTS = format_topic_id(UUID(int=1)), format_topic_id(UUID(int=2))
IDS = {"orders": parse_topic_id(ORDERS)}


@dataclass(eq=False)
class Wanted:
    """A partition that wants to be read from an offset on."""

    source: TopicPartition
    fetch_offset: int
    topic_id: str = ORDERS
    wants_fetch: bool = True
    leader_epoch: int = -1
    is_over: bool = False
    is_at_end: bool = True
    is_steady: bool = True

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        raise AssertionError("nothing is fetched here")

    def fetch_failed(self, error: MirrorlakeError) -> None:
        raise AssertionError("nothing is fetched here")


def opened(*partitions: Wanted) -> FetchSession:
    return FetchSession(77, [(each, each.fetch_offset) for each in partitions], ids=IDS, share_bytes=1 << 20)


def orders(number: int, offset: int = 5) -> Wanted:
    return Wanted(TopicPartition("orders", number), offset)


def test_what_has_not_changed_is_not_said_again() -> None:
    first, second = orders(0), orders(1)
    session = opened(first, second)
    second.fetch_offset = 9
    assert session.changes([first, second]).asked == [second]
    assert session.changes([first, second]).asked == []


def test_requests_are_counted_from_one_on_and_after_the_largest_number_again() -> None:
    session = opened(orders(0))
    assert [session.changes([]).step for _ in range(2)] == [SessionStep(77, 1), SessionStep(77, 2)]
    session._epoch = (1 << 31) - 2
    assert [session.changes([]).step.epoch for _ in range(2)] == [(1 << 31) - 1, 1]


def test_who_wants_nothing_goes_and_comes_back_when_it_does() -> None:
    waiting, over = orders(0), orders(1)
    session = opened(waiting, over, orders(2))
    waiting.wants_fetch, over.is_over = False, True
    changes = session.changes([waiting, over])
    assert (changes.asked, changes.forgotten, len(session)) == ([], [("orders", 0), ("orders", 1)], 1)
    assert session.partition("orders", 0) is None
    waiting.wants_fetch = True
    changes = session.changes([waiting, over])
    assert (changes.asked, changes.forgotten, len(session)) == ([waiting], [], 2)
    assert session.partition("orders", 0) is waiting


def test_a_topic_comes_in_with_its_id_and_under_no_other_one() -> None:
    session = opened(orders(0))
    payments = Wanted(TopicPartition("payments", 0), 0, topic_id=PAYMENTS)
    assert session.admits(orders(7))
    assert not session.admits(Wanted(TopicPartition("orders", 7), 0, topic_id=PAYMENTS))
    assert not session.admits(Wanted(TopicPartition("payments", 0), 0, topic_id=""))
    assert session.admits(payments)
    changes = session.changes([payments])
    assert changes.asked == [payments]
    assert changes.ids == {"orders": UUID(int=1).bytes, "payments": UUID(int=2).bytes}
    assert session.names[UUID(int=2).bytes] == "payments"
    assert not session.admits(Wanted(TopicPartition("payments", 1), 0, topic_id=ORDERS))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=30))
def test_a_broker_that_does_as_it_is_told_asks_for_what_is_wanted(steps: list[tuple[int, int, bool]]) -> None:
    partitions = [orders(number) for number in range(4)]
    session = opened(*partitions)
    at_broker = {each.source: each.fetch_offset for each in partitions}
    for number, offset, wants in steps:
        partitions[number].fetch_offset, partitions[number].wants_fetch = offset, wants
        changes = session.changes([partitions[number]])
        # As ``FetchSession.update`` does: first what is asked for, then what is forgotten.
        at_broker |= {each.source: each.fetch_offset for each in changes.asked}
        for topic, forgotten in changes.forgotten:
            del at_broker[TopicPartition(topic, forgotten)]
        assert at_broker == {each.source: each.fetch_offset for each in partitions if each.wants_fetch}
