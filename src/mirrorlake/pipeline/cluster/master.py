"""Watches whether a standalone master still knows this program, where it has no executors.

A master that was started anew without a recovery mode knows of no program, and Spark's client never registers again: it
waits for a master that calls it by its id (`StandaloneAppClient` of Spark 4.3). Executors end when their workers have
registered with the new master. From then on the program would have none for ever, beside idle workers.
"""

import socket
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import structlog

from mirrorlake.pipeline.cluster.address import master_addresses
from mirrorlake.repeated import RepeatedInThread

WITHOUT_SECONDS = 20.0
"""So long without any executor, and the master is asked: workers come back within seconds where one was killed."""

SAY_SECONDS = 60.0
"""Why there are none is said so often, as long as it stays so."""

_WATCH_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_NO_LIMIT = (1 << 31) - 1
"""Executors that a program may have: what a master sets by itself (`ApplicationInfo.executorLimit`)."""

_log = structlog.get_logger(__name__)


class Standing(StrEnum):
    """What a program without executors is to its master."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


def is_standalone(master: str | None) -> bool:
    """Returns whether it is the address of a standalone master, or of several."""
    return master is not None and master.startswith("spark://")


def is_registered(spark: Any) -> bool:
    """Returns whether the master knows this program.

    It is asked to allow as many executors as it does by itself: of the questions that a client of Spark's has, that is
    the one which changes nothing. False also where the client has lost its master and has found no other one, and where
    the question goes to the one that is gone.

    Raises:
        Py4JError, OSError: the JVM does not answer.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    context = spark.sparkContext
    no_places = context._jvm.PythonUtils.toScalaMap({})
    try:
        return bool(context._jsc.sc().requestTotalExecutors(_NO_LIMIT, 0, no_places))
    except Py4JJavaError:
        return False


def is_reachable(master: str) -> bool:
    """Returns whether one of the addresses of a master takes a connection."""
    for address in master_addresses(master):
        try:
            with socket.create_connection(address, _CONNECT_SECONDS):
                return True
        except OSError:
            continue
    return False


class MasterWatch(RepeatedInThread):
    """Ends a session that its master has forgotten, so that Spark starts again. Use as a context manager.

    Args:
        has_executors: whether there is any.
        standing: asks what the program is to its master; may take long.
        forgotten: ends the session; called once.
        elapsed_seconds: a clock.
        seconds: between two looks.
    """

    def __init__(
        self,
        has_executors: Callable[[], bool],
        standing: Callable[[], Standing],
        forgotten: Callable[[], None],
        *,
        elapsed_seconds: Callable[[], float] = time.monotonic,
        seconds: float = _WATCH_SECONDS,
    ) -> None:
        super().__init__("master-watch", seconds=seconds)
        self._has_executors = has_executors
        self._standing = standing
        self._forgotten = forgotten
        self._elapsed_seconds = elapsed_seconds
        self._without_since: float | None = None
        self._say_at = 0.0
        self._has_ended_it = False

    def _round(self) -> None:
        now = self._elapsed_seconds()
        if self._has_executors():
            self._without_since = None
            return
        if self._without_since is None:
            self._without_since, self._say_at = now, now
        if now - self._without_since < WITHOUT_SECONDS or self._has_ended_it:
            return
        standing = self._standing()
        # One may have come while the master was asked.
        if standing is Standing.UNKNOWN and not self._has_executors() and not self._is_over.is_set():
            self._has_ended_it = True
            _log.error(
                "Spark's master no longer knows this program, which has no executors: Spark is started again",
                hint="the master was started anew; with spark.deploy.recoveryMode it would know its programs",
            )
            self._forgotten()
        elif self._elapsed_seconds() >= self._say_at:
            self._say_at = self._elapsed_seconds() + SAY_SECONDS
            self._say(standing)

    def _say(self, standing: Standing) -> None:
        assert self._without_since is not None
        why = (
            "its master cannot be reached"
            if standing is Standing.UNREACHABLE
            else "its master gives none: no worker has the free cores and memory for one"
        )
        seconds = round(self._elapsed_seconds() - self._without_since)
        _log.warning("Spark has no executors, nothing is copied", why=why, seconds=seconds)


def standing_at(spark: Any, master: str) -> Standing:
    """Returns what this program is to its master now; ``KNOWN`` too where the JVM is gone, which others look after."""
    from py4j.protocol import Py4JError

    try:
        if is_registered(spark):
            return Standing.KNOWN
    except (Py4JError, OSError):
        return Standing.KNOWN
    return Standing.UNKNOWN if is_reachable(master) else Standing.UNREACHABLE
