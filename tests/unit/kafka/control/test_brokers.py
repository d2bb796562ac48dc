"""Several attempts of which the first to bring something wins: nothing is left running, nothing is left open."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mirrorlake.errors import BrokerUnreachableError, ConfigurationError, MirrorlakeError
from mirrorlake.kafka.control.brokers import first_result, none_answered

Attempt = Callable[[], Coroutine[Any, Any, str | None]]


def after(turns: float, result: str | None, started: list[str | None]) -> Attempt:
    async def attempt() -> str | None:
        started.append(result)
        await asyncio.sleep(turns)
        return result

    return attempt


def run(attempts: list[Attempt], *, next_after_seconds: float = 60.0) -> tuple[str | None, list[str]]:
    discarded: list[str] = []

    async def scenario() -> str | None:
        found = await first_result(attempts, next_after_seconds=next_after_seconds, discard=discarded.append)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    return asyncio.run(scenario()), discarded


def test_a_failure_starts_the_next_attempt_at_once() -> None:
    started: list[str | None] = []

    assert run([after(0, None, started), after(0, "second", started), after(0, "third", started)]) == ("second", [])
    assert started == [None, "second"]


def test_a_silent_attempt_does_not_hold_up_the_next() -> None:
    started: list[str | None] = []

    found, _ = run([after(60, "silent", started), after(0, "quick", started)], next_after_seconds=0.01)

    assert found == "quick"
    assert started == ["silent", "quick"]


def test_nothing_comes_of_attempts_that_all_fail() -> None:
    started: list[str | None] = []

    assert run([after(0, None, started), after(0.01, None, started)]) == (None, [])
    assert run([]) == (None, [])


def test_of_two_results_one_is_discarded() -> None:
    found, discarded = asyncio.run(two_at_once())

    assert sorted([found, *discarded]) == ["first", "second"]


async def two_at_once() -> tuple[str, list[str]]:
    discarded: list[str] = []
    gate = asyncio.Event()

    async def first() -> str | None:
        await gate.wait()
        return "first"

    async def second() -> str | None:
        gate.set()
        return "second"

    found = await first_result([first, second], next_after_seconds=0.01, discard=discarded.append)
    assert found is not None
    return found, discarded


def test_cancelling_ends_all_attempts() -> None:
    started: list[str | None] = []

    async def scenario() -> None:
        attempts = [after(60, "a", started), after(60, "b", started)]
        waiting = asyncio.create_task(first_result(attempts, next_after_seconds=0.01, discard=started.append))
        while len(started) < 2:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_file_that_cannot_be_read_is_said_once_and_is_no_server_that_did_not_answer() -> None:
    failure = ConfigurationError("the secret's file /nope cannot be read: No such file or directory", hint="correct it")
    error = none_answered("east", {"a:1": failure, "b:1": failure})
    assert isinstance(error, ConfigurationError)
    assert error.message == (
        "no server of cluster 'east' can be used: the secret's file /nope cannot be read: No such file or directory"
    )
    assert error.hint == "correct it"


def test_servers_that_were_not_reached_did_not_answer() -> None:
    failures: dict[str, MirrorlakeError] = {
        "a:1": BrokerUnreachableError("a:1 is down", hint="x"),
        "b:1": BrokerUnreachableError("b:1 is down"),
    }
    error = none_answered("east", failures)
    assert error.message == "no server of cluster 'east' answered: a:1 is down; b:1 is down"
    assert error.hint == "check bootstrap_servers, the network and the brokers"
