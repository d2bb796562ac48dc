"""Running a question to its end."""

import asyncio
import gc
import threading

import pytest

from mirrorlake.cli.start import ask
from mirrorlake.freed_memory import OBJECTS_PER_COLLECTION


class Answer:
    """Says when somebody writes it out."""

    written = 0

    def __repr__(self) -> str:
        Answer.written += 1
        return "answer"


def test_the_result_is_returned_and_written_out_by_nobody() -> None:
    assert threading.current_thread() is threading.main_thread()  # where Python handles SIGINT
    answer = Answer()

    async def question() -> Answer:
        await asyncio.sleep(0)
        return answer

    assert ask(question()) is answer
    assert Answer.written == 0


def test_collections_are_as_often_as_before_when_it_has_ended() -> None:
    before = gc.get_threshold()

    async def question() -> int:
        return gc.get_threshold()[0]

    assert ask(question()) == OBJECTS_PER_COLLECTION
    assert gc.get_threshold() == before


def test_what_the_question_raises_is_raised() -> None:
    async def question() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ask(question())
