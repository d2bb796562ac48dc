"""Starting the process again in place, because nothing in it can use a second JVM after the first one died.

PySpark keeps gateways and contexts in globals that cannot be trusted after a crash, so the process executes
itself. How often is counted in environment variables, which survive that and nothing else.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from mirrorlake.pipeline.cluster.submission import submitted_environ
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.processes import collect_ended_children

TIMES_VARIABLE = "MIRRORLAKE_RESTARTS"
"""Wall clock seconds of the restarts so far, oldest first, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartBounds:
    """How many restarts are allowed within which time.

    Attributes:
        restarts_max: one more than this within the window is refused.
        window_seconds: restarts longer ago are forgotten.
    """

    restarts_max: int = 5
    window_seconds: float = 600.0


def allowed_restart(environ: Mapping[str, str], now_seconds: float, bounds: RestartBounds) -> str | None:
    """Returns the next value of :data:`TIMES_VARIABLE`, or None when there were too many restarts.

    A value that cannot be read counts as no restarts; times in the future (a clock set back) count as recent.
    """
    earlier = [at for at in _times(environ.get(TIMES_VARIABLE, "")) if at > now_seconds - bounds.window_seconds]
    if len(earlier) >= bounds.restarts_max:
        return None
    return ",".join(f"{at:.3f}" for at in [*earlier, now_seconds])


def may_restart() -> bool:
    """Returns whether `restart_process` would start this process again, with its default bounds."""
    return allowed_restart(os.environ, time.time(), RestartBounds()) is not None


def restart_process(
    session: Engine | None, bounds: RestartBounds | None = None, *, why: str = "Spark's JVM died"
) -> NoReturn:
    """Replaces this process by a new run of the same command; exits with code 1 after too many of them.

    Order of effects: what is left of the session is killed, then this process is replaced: same process id,
    same arguments. Only stdout and stderr are flushed, no ``finally`` runs. May be called from any thread.

    Args:
        session: the session that died or is of no use; its run folder is removed too.
        bounds: how often.
        why: what happened, as the beginning of a sentence.
    """
    bounds = bounds or RestartBounds()
    if session is not None:
        session.abandon()
    collect_ended_children()
    times = allowed_restart(os.environ, time.time(), bounds)
    if times is None:
        _say(
            f"{why} {bounds.restarts_max + 1} times in {bounds.window_seconds:.0f} s: giving up. "
            "The lines above say why; too little memory is the usual reason."
        )
        os._exit(1)
    _say(f"{why}: starting again")
    # The interpreter's own options (-m, -X …) are only in orig_argv; its first item may be a bare name.
    environ = {**os.environ, **submitted_environ(), TIMES_VARIABLE: times}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)


def _times(value: str) -> list[float]:
    try:
        return [float(part) for part in value.split(",") if part]
    except ValueError:
        return []


def _say(text: str) -> None:
    print(f"mirrorlake: {text}", file=sys.stderr, flush=True)
    sys.stdout.flush()
