"""The start on a cluster: executors are waited for and looked at, until some are fit or the time is over."""

import time
from collections.abc import Callable
from typing import Any

import structlog

from mirrorlake.pipeline.cluster.executors import ExecutorSilentError, await_executors, living
from mirrorlake.pipeline.cluster.looks import Checked, check_executors
from mirrorlake.pipeline.cluster.needs import Needs

_POLL_SECONDS = 0.2
_log = structlog.get_logger(__name__)


def fit_executors(
    spark: Any,
    needs: Needs,
    *,
    master: str,
    slots: int,
    python: str,
    give_up_at: float,
    seconds_max: float,
    is_stopping: Callable[[], bool],
) -> list[Checked]:
    """Waits for the executors of a cluster and looks at each; returns those that answered and are fit, one at least.

    An executor that dies or falls silent while it is looked at costs itself alone: the others are returned, and the one
    that Spark starts in its place is looked at when it comes. Where no answer came from any, those that are there by
    then are looked at, for as long as the looks may take.

    Args:
        spark: the session.
        needs: what each executor must have.
        master: for messages.
        slots: wanted.
        python: that executors start, for messages.
        give_up_at: reading of ``time.monotonic`` after which no executor at all is an error.
        seconds_max: for all looks together; it is counted from when the first executors are there.
        is_stopping: asked again and again.

    Raises:
        ExecutorUnusableError: there is none in time, one is not fit by its own answer, or none answered in time.
        StartStoppedError: ``is_stopping`` said so.
    """
    looks_until: float | None = None
    while True:
        executors = await_executors(
            lambda: living(spark),
            master=master,
            slots=slots,
            give_up_at=give_up_at,
            timeout_seconds=seconds_max,
            is_stopping=is_stopping,
        )
        if looks_until is None:
            looks_until = give_up_at = time.monotonic() + seconds_max
        try:
            return check_executors(
                spark,
                executors,
                needs,
                python=python,
                is_stopping=is_stopping,
                seconds_max=max(0.0, looks_until - time.monotonic()),
            )
        except ExecutorSilentError as error:
            if time.monotonic() >= looks_until:
                raise
            _log.warning("no executor answered; those that are there now are looked at", error=error.message)
            time.sleep(_POLL_SECONDS)
