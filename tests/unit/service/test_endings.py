"""What is left when a run ends, in words."""

import pytest

from mirrorlake.service.lifecycle.endings import _left
from support.partition_states import kafka_state


@pytest.mark.parametrize(
    ("position", "end", "said"),
    [
        (5, 10, "offsets 5 to 9"),
        (10, 10, "nothing left"),
        (None, 10, "offsets up to 9, position unknown"),
        (5, None, "offsets from 5 on, source's end unknown"),
        (None, None, "offsets unknown"),
    ],
)
def test_offsets_that_are_left_are_said_in_words(position: int | None, end: int | None, said: str) -> None:
    state = kafka_state(0)
    state.position, state.once_end = position, end
    assert _left(state) == f"{state.mirror}: {state.source} to {state.destination}, {said}"
