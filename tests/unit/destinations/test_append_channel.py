"""Which answer of a Produce request belongs to which sink."""

from dataclasses import dataclass

from mirrorlake.destinations.append_channel import Append, answers_by_append
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.produce import ProducedPartition


@dataclass(frozen=True, slots=True)
class Sink:
    """The part of a sink that counts here: its name."""

    topic: str
    partition: int

    def next_append(self) -> Append | None:
        return None

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        raise AssertionError(f"{append} {answer}")

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        raise AssertionError(f"{append} {error}")


SINKS = (Sink("a", 0), Sink("a", 1), Sink("b", 0))


def answer(topic: str, partition: int, base_offset: int) -> ProducedPartition:
    return ProducedPartition(topic, partition, 0, base_offset, -1, 0, None)


def test_answers_in_the_order_of_the_request_go_to_their_sinks() -> None:
    answers = [answer("a", 0, 10), answer("a", 1, 20), answer("b", 0, 30)]
    assert list(answers_by_append(answers, SINKS)) == answers


def test_answers_in_another_order_go_to_their_sinks() -> None:
    first, second, third = answer("a", 0, 10), answer("a", 1, 20), answer("b", 0, 30)
    assert list(answers_by_append([third, second, first], SINKS)) == [first, second, third]


def test_a_partition_that_was_left_out_has_no_answer() -> None:
    first, third = answer("a", 0, 10), answer("b", 0, 30)
    assert list(answers_by_append([first, third], SINKS)) == [first, None, third]


def test_an_answer_for_an_unknown_partition_takes_nobodys_place() -> None:
    first, unknown, third = answer("a", 0, 10), answer("b", 7, 20), answer("b", 0, 30)
    assert list(answers_by_append([first, unknown, third], SINKS)) == [first, None, third]
