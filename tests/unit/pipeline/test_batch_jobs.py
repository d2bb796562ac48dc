"""Batch tasks: a bounded number at one time, each run again when it is lost, all of them ended or said to be not."""

import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.pipeline import batch_jobs
from mirrorlake.pipeline.batch_jobs import (
    BatchJobs,
    BatchStoppedError,
    BatchTask,
    BatchTaskFailedError,
    all_slots,
    slots_beside,
)
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.lease_job import EngineDiedError, LeaseRow
from mirrorlake.pipeline.settings import SessionSettings
from support.copies import wait_until

Answer = Callable[[bytes], list[LeaseRow]]


class ScriptedEngine(InProcessEngine):
    """Answers as a test says, and counts how many tasks run at one time."""

    def __init__(self, answer: Answer, *, lanes: int = 2, batch_slots: int = 1) -> None:
        super().__init__(SessionSettings(lanes=lanes, batch_slots=batch_slots))
        self._answer = answer
        self._lock = threading.Lock()
        self.running = self.running_max = 0
        self.begun: list[str] = []
        self.seconds_max: list[float | None] = []
        self.slots_now: int | None = None

    @property
    def slots(self) -> int:
        return super().slots if self.slots_now is None else self.slots_now

    def run_lease(
        self,
        work: str,
        plan: bytes,
        *,
        description: str,
        seconds_max: float | None = None,
        seconds_more: Callable[[], float] = float,
    ) -> list[LeaseRow]:
        del seconds_more
        assert work == "somewhere:work"
        with self._lock:
            self.running += 1
            self.running_max = max(self.running_max, self.running)
            self.begun.append(description)
            self.seconds_max.append(seconds_max)
        try:
            return self._answer(plan)
        finally:
            with self._lock:
                self.running -= 1


@pytest.fixture
def engine_of(request: pytest.FixtureRequest) -> Callable[..., ScriptedEngine]:
    def make(answer: Answer, **sizes: int) -> ScriptedEngine:
        engine = ScriptedEngine(answer, **sizes)
        request.addfinalizer(engine.stop)
        return engine

    return make


def task(number: int, seconds_max: float = 3600.0) -> BatchTask:
    plan = str(number).encode()
    return BatchTask(work="somewhere:work", plan=plan, description=f"task {number}", seconds_max=seconds_max)


def echo(plan: bytes) -> list[LeaseRow]:
    return [{"kind": "done", "plan": plan}]


def jobs_on(engine: ScriptedEngine, **more: object) -> BatchJobs:
    options: dict[str, object] = {"slots": all_slots(engine), "rest_seconds": 0.0, **more}
    return BatchJobs(engine, **options)  # type: ignore[arg-type]


def answers(*outcomes: list[LeaseRow] | Exception) -> Answer:
    left = iter(outcomes)

    def answer(_plan: bytes) -> list[LeaseRow]:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return answer


def test_every_task_has_its_result_and_no_more_run_at_one_time_than_there_are_slots(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    def slow(plan: bytes) -> list[LeaseRow]:
        time.sleep(0.01)
        return echo(plan)

    engine = engine_of(slow, lanes=2, batch_slots=1)
    found = {result.task: result.outcome for result in jobs_on(engine).results(task(n) for n in range(20))}
    assert found == {task(n): [{"kind": "done", "plan": str(n).encode()}] for n in range(20)}
    assert engine.running_max == 3


def test_no_tasks_have_no_results(engine_of: Callable[..., ScriptedEngine]) -> None:
    assert list(jobs_on(engine_of(echo)).results([])) == []


def test_results_come_while_others_run_and_tasks_are_found_out_no_further_ahead_than_there_are_slots(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    may_end = threading.Event()

    def first_waits(plan: bytes) -> list[LeaseRow]:
        if plan == b"0":
            assert may_end.wait(30.0)
        return echo(plan)

    asked: list[int] = []

    def tasks() -> Iterator[BatchTask]:
        for number in range(6):
            asked.append(number)
            yield task(number)

    engine = engine_of(first_waits, lanes=2, batch_slots=0)
    results = jobs_on(engine).results(tasks())
    early = [next(results) for _ in range(4)]
    assert task(0) not in [result.task for result in early]
    assert len(asked) <= len(early) + 2
    may_end.set()
    assert len(early) + len(list(results)) == 6


def test_an_engine_that_gains_executors_runs_more_at_one_time_and_one_that_loses_them_fewer(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    gate = threading.Semaphore(0)

    def wait(plan: bytes) -> list[LeaseRow]:
        assert gate.acquire(timeout=30.0)
        return echo(plan)

    engine = engine_of(wait, lanes=1, batch_slots=1)
    jobs = jobs_on(engine, slots=slots_beside(engine, 1))
    assert jobs.slots == 1
    engine.slots_now = 4
    assert jobs.slots == 3
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(jobs.results(task(n) for n in range(8))))
    reader.start()
    wait_until(lambda: engine.running == 3, "three at one time")
    engine.slots_now = 1  # its lane's; the batch work keeps one
    gate.release(3)
    wait_until(lambda: len(engine.begun) == 4, "the next")
    time.sleep(0.05)
    assert engine.running == 1
    gate.release(5)
    reader.join(30.0)
    assert len(found) == 8
    assert engine.running_max == 3


def test_a_task_that_is_lost_begins_again_and_its_time_goes_with_it(engine_of: Callable[..., ScriptedEngine]) -> None:
    lost: list[LeaseRow] = [{"kind": "retried"}]
    engine = engine_of(answers(lost, OutcomeUnknownError("Spark gave up a lease: executor 3 lost"), echo(b"7")))
    assert jobs_on(engine).run(task(7, seconds_max=5.0)) == echo(b"7")
    assert engine.begun == ["task 7"] * 3
    assert engine.seconds_max == [5.0] * 3


def test_a_task_that_takes_too_long_wherever_it_runs_is_an_error_that_names_the_executor_and_what_to_do(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    def hang(_plan: bytes) -> list[LeaseRow]:
        time.sleep(0.02)  # until its worker ends itself
        return [{"kind": "retried", "lost_on": "the executor on 10.0.0.3"}]

    engine = engine_of(hang)
    with pytest.raises(OutcomeUnknownError, match=r"lost 3 times: .* on 10\.0\.0\.3, after more") as caught:
        jobs_on(engine).run(task(7, seconds_max=0.01))
    assert "take it out of the cluster" in caught.value.hint
    assert len(engine.begun) == 3


def test_what_an_engine_says_to_do_about_a_task_that_it_gave_up_is_said(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    given_up = OutcomeUnknownError("a job was given up: it hangs on the executor on 10.0.0.3", hint="look there")
    engine = engine_of(answers(given_up, given_up, given_up))
    with pytest.raises(OutcomeUnknownError, match=r"hangs on the executor on 10\.0\.0\.3") as caught:
        jobs_on(engine).run(task(7))
    assert caught.value.hint == "look there"


def test_a_task_that_is_lost_again_and_again_is_an_error_that_says_why(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    lost: list[LeaseRow] = [{"kind": "retried"}]
    engine = engine_of(answers(lost, lost, OutcomeUnknownError("Spark gave up a lease: no executor")))
    with pytest.raises(OutcomeUnknownError, match="was lost 3 times: Spark gave up a lease: no executor") as caught:
        jobs_on(engine).run(task(1))
    assert caught.value.facts["task"] == "task 1"


def test_a_task_that_comes_to_executors_nobody_has_looked_at_waits_for_one_and_no_try_is_counted(
    engine_of: Callable[..., ScriptedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked: list[LeaseRow] = [{"kind": "unchecked", "host": "worker-3"}]
    engine = engine_of(answers(*[unchecked] * 7, echo(b"1")))
    assert jobs_on(engine, tries_max=1).run(task(1)) == echo(b"1")

    monkeypatch.setattr(batch_jobs, "UNCHECKED_SECONDS_MAX", 0.0)
    engine = engine_of(answers(unchecked, unchecked))
    with pytest.raises(OutcomeUnknownError, match="has just joined and was not looked at yet"):
        jobs_on(engine, tries_max=2).run(task(1))


def test_an_error_of_the_work_is_no_loss_and_stops_no_other_task(engine_of: Callable[..., ScriptedEngine]) -> None:
    def some_break(plan: bytes) -> list[LeaseRow]:
        if plan == b"1":
            crash: LeaseRow = {
                "kind": "crashed",
                "error_type": "ValueError",
                "message": "no such file",
                "traceback": "…",
            }
            return [{"kind": "done"}, crash]
        if plan == b"2":
            raise KeyError("of Py4J's")
        return echo(plan)

    engine = engine_of(some_break)
    found = {result.task.description: result.outcome for result in jobs_on(engine).results(task(n) for n in range(5))}
    assert sorted(engine.begun) == [f"task {n}" for n in range(5)], "none began twice"
    crashed, strange = found["task 1"], found["task 2"]
    assert isinstance(crashed, BatchTaskFailedError)
    assert crashed.message == "ValueError: no such file"
    assert isinstance(strange, OutcomeUnknownError)
    assert [type(found[f"task {n}"]) for n in (0, 3, 4)] == [list] * 3


def test_an_engine_that_died_ends_it_all(engine_of: Callable[..., ScriptedEngine]) -> None:
    def die(_plan: bytes) -> list[LeaseRow]:
        raise EngineDiedError("Spark's JVM does not answer")

    engine = engine_of(die, lanes=1, batch_slots=0)
    with pytest.raises(EngineDiedError):
        list(jobs_on(engine).results(task(n) for n in range(9)))
    assert engine.begun == ["task 0"]


def test_a_stop_ends_the_wait_for_tasks_that_run_and_begins_no_others(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    may_end, is_stopping = threading.Event(), threading.Event()

    def hang(plan: bytes) -> list[LeaseRow]:
        may_end.wait(30.0)
        return echo(plan)

    engine = engine_of(hang, lanes=2, batch_slots=0)
    jobs = jobs_on(engine, is_stopping=is_stopping.is_set)
    caught: list[MirrorlakeError] = []

    def read() -> None:
        try:
            list(jobs.results(task(n) for n in range(9)))
        except MirrorlakeError as error:
            caught.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: engine.running == 2, "two tasks")
    is_stopping.set()
    reader.join(10.0)
    assert not reader.is_alive(), "it waited for what runs"
    assert [type(error) for error in caught] == [BatchStoppedError]
    may_end.set()
    wait_until(lambda: engine.running == 0, "their end")
    assert len(engine.begun) == 2
    with pytest.raises(BatchStoppedError, match="task 5"):
        jobs.run(task(5))


def test_a_task_that_was_lost_does_not_begin_again_after_a_stop(engine_of: Callable[..., ScriptedEngine]) -> None:
    is_stopping = threading.Event()

    def lose(_plan: bytes) -> list[LeaseRow]:
        is_stopping.set()
        return [{"kind": "retried"}]

    engine = engine_of(lose)
    with pytest.raises(BatchStoppedError):
        jobs_on(engine, is_stopping=is_stopping.is_set, rest_seconds=60.0).run(task(0))
    assert engine.begun == ["task 0"]


def test_who_takes_no_more_results_begins_no_more_tasks_and_leaves_no_thread(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    engine = engine_of(echo, lanes=1, batch_slots=0)
    results = jobs_on(engine).results(task(n) for n in range(100))
    next(results)
    results.close()  # type: ignore[attr-defined]
    wait_until(lambda: not any(thread.name.startswith("batch-") for thread in threading.enumerate()), "their end")
    assert len(engine.begun) <= 2


def test_an_error_of_who_finds_tasks_out_comes_to_who_asked_for_results(
    engine_of: Callable[..., ScriptedEngine],
) -> None:
    def tasks() -> Iterator[BatchTask]:
        yield task(0)
        raise OutcomeUnknownError("the store does not answer")

    with pytest.raises(OutcomeUnknownError, match="the store"):
        list(jobs_on(engine_of(echo)).results(tasks()))


def test_a_task_that_a_worker_takes_while_the_rest_is_dropped_holds_nobody_up() -> None:
    class TakenBetween(SimpleQueue[BatchTask | None]):
        """Says that it holds something as long as nobody has found out that it does not."""

        def empty(self) -> bool:
            return False

    dropped = threading.Thread(target=batch_jobs._empty, args=(TakenBetween(),), daemon=True)
    dropped.start()
    dropped.join(10.0)
    assert not dropped.is_alive()
