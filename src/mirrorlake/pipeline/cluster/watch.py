"""Watches the executors of a cluster: says which come and go, and looks at those that come before leases run there."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import structlog

from mirrorlake.pipeline.cluster.executors import (
    Executor,
    ExecutorSilentError,
    ExecutorUnusableError,
    hold,
    living,
    replace,
)
from mirrorlake.pipeline.cluster.looks import AT_ONCE_MAX, Checked, cancel_look, check_executor, where_is
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.lease_job import EngineDiedError
from mirrorlake.repeated import STOP_SECONDS_MAX, RepeatedInThread

WATCH_SECONDS = 2.0

LOOK_SECONDS_MAX = 120.0
"""For a look at an executor, all tries of it together: a minute for its worker's check, another one to begin."""

REPLACE_SECONDS = 30.0
"""An unfit executor is replaced so long after it was found so: the next one on the same host is likely to be as unfit,
and would otherwise be started and taken off without a pause."""

LOOK_AGAIN_SECONDS = 1.0
_POLL_SECONDS = 0.2

SAID_AFTER_LOOKS = 5
"""So many looks without an answer are said once, and as many more again."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Look:
    executor: Executor
    answer: Future[Checked]
    give_up_at: float


@dataclass(frozen=True, slots=True)
class _Silence:
    looks: int = 0
    again_at: float = 0.0


class ExecutorWatch(RepeatedInThread):
    """Says which executors come and go, and looks at those that come; one that is not fit is taken off and replaced.

    Taken off means that Spark gives it nothing more, from that moment on; after ``replace_seconds`` it is killed and
    Spark starts another one where there is room. Only what an executor said itself, or what Spark noted of workers
    of its own, takes it off; one from which no answer came is looked at again. Use as a context manager.

    Args:
        spark: the session.
        checked: those that were looked at already.
        needs: what others must have.
        python: that they start.
        look_seconds_max: for one look.
        replace_seconds: from when an executor was found unfit until it is replaced.
    """

    def __init__(
        self,
        spark: Any,
        checked: Sequence[Checked],
        needs: Needs,
        *,
        python: str,
        look_seconds_max: float = LOOK_SECONDS_MAX,
        replace_seconds: float = REPLACE_SECONDS,
    ) -> None:
        super().__init__("executor-watch", seconds=WATCH_SECONDS)
        self._spark = spark
        self._needs = needs
        self._python = python
        self._look_seconds_max = look_seconds_max
        self._replace_seconds = replace_seconds
        self._known: dict[str, Executor] = {each.executor.id: each.executor for each in checked}
        self._looks: dict[str, _Look] = {}
        self._silent: dict[str, _Silence] = {}
        self._unfit_until: dict[str, float] = {}
        self._hanging: SimpleQueue[str] = SimpleQueue()
        self._rounds = 0
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, "executor-look")
        self.clock_offsets: dict[str, float] = {each.executor.id: each.offset_seconds for each in checked}

    def __exit__(self, *error: object) -> None:
        """Ends; looks that are under way are waited for as rounds are."""
        super().__exit__(*error)
        wait([look.answer for look in list(self._looks.values())], STOP_SECONDS_MAX)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def hangs(self, executor: str) -> None:
        """Has an executor, by its id, taken off and replaced at once: a task there neither ended nor was ended."""
        self._hanging.put(executor)
        self.look_now()

    def where(self, executor_id: str) -> str:
        """Returns an executor as messages name it, by its host where that is known."""
        known = self._known.get(executor_id)
        return f"executor {executor_id}" if known is None else f"the executor on {known.address}"

    def await_looks(self, seconds_max: float) -> None:
        """Returns once every executor that is there was looked at or taken off and one is fit, or so much later."""
        give_up_at, rounds = time.monotonic() + seconds_max, self._rounds
        self.look_now()
        while time.monotonic() < give_up_at:
            # The round that is under way may have asked for executors before the one in question came.
            open_looks = dict(self._known).keys() - dict(self.clock_offsets).keys() - dict(self._unfit_until).keys()
            if self._is_over.is_set() or (self._rounds >= rounds + 2 and self.checked and not open_looks):
                return
            self.look_now()
            time.sleep(_POLL_SECONDS)

    @property
    def has_any(self) -> bool:
        """Whether any executor is registered, fit or not."""
        return bool(self._known)

    @property
    def checked(self) -> Collection[str]:
        """Ids of the executors that were looked at and are fit."""
        return tuple(self.clock_offsets)

    @property
    def slots(self) -> int:
        """Of all executors that were looked at and are fit, together."""
        known = dict(self._known)
        return sum(known[each].slots for each in self.checked if each in known)

    def _begin(self) -> None:
        """Nothing: those of the start were looked at."""

    def _round(self) -> None:
        try:
            now = {each.id: each for each in living(self._spark)}
        except Exception:  # noqa: BLE001  A JVM that dies fails in many ways; others look after that.
            return
        for gone in self._known.keys() - now.keys():
            self._forget(gone)
        self._known.update(now)
        while not self._hanging.empty():
            self._take_off_hanging(self._hanging.get())
        for look in list(self._looks.values()):
            self._take_answer(look)
        for new in self._unanswered():
            self._look_at(new)
        for unfit, until in list(self._unfit_until.items()):
            if time.monotonic() >= until:
                self._replace(self._known[unfit])
        self._rounds += 1

    def _unanswered(self) -> list[Executor]:
        """Returns those that are to be looked at now."""
        now = time.monotonic()
        new = self._known.keys() - self.clock_offsets.keys() - self._looks.keys() - self._unfit_until.keys()
        return [self._known[each] for each in sorted(new) if self._silent.get(each, _Silence()).again_at <= now]

    def _forget(self, gone: str) -> None:
        executor = self._known.pop(gone)
        if self._unfit_until.pop(gone, None) is None:
            _log.warning("executor lost", host=executor.address, executor=gone)
        self.clock_offsets.pop(gone, None)
        self._silent.pop(gone, None)

    def _look_at(self, executor: Executor) -> None:
        answer = self._pool.submit(check_executor, self._spark, executor, self._needs, python=self._python)
        self._looks[executor.id] = _Look(executor, answer, time.monotonic() + self._look_seconds_max)
        answer.add_done_callback(lambda _: self.look_now())

    def _take_answer(self, look: _Look) -> None:
        executor = look.executor
        if not look.answer.done():
            if time.monotonic() >= look.give_up_at and self._is_asked_about(executor):
                self._give_up(look)
            return
        del self._looks[executor.id]
        if not self._is_asked_about(executor) or self._is_over.is_set():
            return
        try:
            found = look.answer.result()
        except ExecutorSilentError as error:
            self._not_answered(executor, error.message)
        except ExecutorUnusableError as error:
            self._take_off(executor, error.message, replace_seconds=self._replace_seconds)
        except EngineDiedError:
            return  # the lanes' news
        except Exception as error:  # noqa: BLE001  Whatever it is, it is no answer of the executor's.
            self._not_answered(executor, repr(error))
        else:
            self.clock_offsets[executor.id] = found.offset_seconds
            self._silent.pop(executor.id, None)
            where = where_is(executor, found.host)
            _log.info("executor ready", host=where, executor=executor.id, slots=executor.slots)

    def _is_asked_about(self, executor: Executor) -> bool:
        return executor.id in self._known and executor.id not in self._unfit_until

    def _give_up(self, look: _Look) -> None:
        """Ends a look that takes too long. Where it began on its executor, that one hangs, and leases there would."""
        look.give_up_at = time.monotonic() + self._look_seconds_max
        if cancel_look(self._spark, look.executor):
            error = (
                f"the executor on {look.executor.address} has begun to look at its host and not ended within "
                f"{self._look_seconds_max:.0f} s"
            )
            self._take_off(look.executor, error, replace_seconds=0.0)

    def _take_off_hanging(self, executor_id: str) -> None:
        executor = self._known.get(executor_id)
        if executor is None or executor_id in self._unfit_until:
            return
        self.clock_offsets.pop(executor_id, None)
        error = f"the executor on {executor.address} has begun a task and not ended it long after its time"
        self._take_off(executor, error, replace_seconds=0.0)

    def _not_answered(self, executor: Executor, why: str) -> None:
        """Counts a look without an answer; another one begins a little later."""
        looks = self._silent.get(executor.id, _Silence()).looks + 1
        self._silent[executor.id] = _Silence(looks, time.monotonic() + LOOK_AGAIN_SECONDS)
        if looks % SAID_AFTER_LOOKS == 0:
            _log.warning(
                "executor gets no leases: nobody could look at it yet",
                host=executor.address,
                executor=executor.id,
                looks=looks,
                error=why,
            )

    def _take_off(self, executor: Executor, error: str, *, replace_seconds: float) -> None:
        _log.error("executor taken off", executor=executor.id, error=error, replaced_after_seconds=replace_seconds)
        hold(self._spark, executor, error)
        self._unfit_until[executor.id] = time.monotonic() + replace_seconds

    def _replace(self, executor: Executor) -> None:
        # Asked again where it is still there after another while: Spark may not have heard it.
        self._unfit_until[executor.id] = time.monotonic() + max(self._replace_seconds, WATCH_SECONDS)
        replace(self._spark, executor)
