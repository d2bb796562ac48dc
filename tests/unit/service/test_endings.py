"""What is left when a run ends, in words."""

import pytest

from mirrorlake.errors import TopicRecreatedError
from mirrorlake.service.lifecycle.endings import _left, _offsets_left
from support.partition_states import kafka_state


@pytest.mark.parametrize(
    ("position", "end", "said"),
    [
        (5, 10, "offsets 5 to 9"),
        (10, 10, "nothing left"),
        (10, 7, "nothing left, as the source ends at 7 and the position is 10"),
        (None, 10, "offsets up to 9, position unknown"),
        (5, None, "offsets from 5 on, source's end unknown"),
        (None, None, "offsets unknown"),
    ],
)
def test_offsets_that_are_left_are_said_in_words(position: int | None, end: int | None, said: str) -> None:
    state = kafka_state(0)
    state.position, state.once_end = position, end
    assert _left(state) == f"{state.mirror}: {state.source} to {state.destination}, {said}"


def test_of_a_topic_that_was_made_again_all_is_left_wherever_the_one_before_ended() -> None:
    state = kafka_state(0)
    state.position, state.source_end, state.error = 10, 10, TopicRecreatedError("another topic now")
    assert _left(state).endswith(", all of the source topic that is there now")
    state.once_end = 10
    assert _offsets_left([state]) == "unknown"
