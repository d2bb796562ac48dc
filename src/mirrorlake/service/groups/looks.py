"""When consumer groups are looked at while a service runs, and what is said of looks that fail.

In a thread of its own with connections of its own: no lease waits for it, and what fails is a warning, counted, and
tried again at the next look. A partition is never parked for it.
"""

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

_log = structlog.get_logger("mirrorlake")

LOOK_SECONDS = 1.0
"""How often it is asked whether a look is due; the shortest interval there is."""

LAST_LOOK_SECONDS_MAX = 10.0
"""A cluster or store that does not answer for so long at a stop leaves everything as the look before did."""

Failures = Mapping[str, MirrorlakeError]
"""By what failed, such as a group, a broker or a folder."""

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One destination of one mirror, and whose groups are wanted there. ``cluster`` is the source's."""

    mirror: str
    destination: str
    cluster: ClusterSettings
    settings: GroupSettings


class GroupLooks(ABC, Generic[F]):
    """Looks at groups of what is followed, each destination's as often as it says. Several threads may call it.

    ``F`` is what is known of a source partition.

    Args:
        name: of the thread of a last look.
        done: what is done with groups, a participle for the log.
        clock: tells when a look is due.
    """

    def __init__(self, name: str, *, done: str, clock: Clock) -> None:
        self.name = name
        self._done = done
        self._clock = clock
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._followed: dict[Way, dict[TopicPartition, F]] = defaultdict(dict)
        self._looked_at: dict[Way, float] = {}
        self._waits_since: dict[Way, float] = {}
        self._said: dict[Way, frozenset[str]] = {}

    @property
    def is_asked_for(self) -> bool:
        """True where groups of something that is followed are wanted."""
        with self._lock:
            return bool(self._followed)

    def look(self, *, is_last: bool = False) -> None:
        """Looks at the groups that are due, all of them where it is the last look."""
        with self._looking:
            now = self._clock.elapsed_seconds()
            with self._lock:
                due = {
                    way: dict(followed)
                    for way, followed in self._followed.items()
                    if is_last or self._is_due(way, followed, now)
                }
            for way, followed in due.items():
                failures = self._look(way, followed)
                if failures is not None:
                    self._looked_at[way] = now
                    self._say(way, failures)

    def look_once_more(self) -> None:
        """Takes the last look of a run, for `LAST_LOOK_SECONDS_MAX` at most."""
        if not self.is_asked_for:
            return
        last = threading.Thread(target=partial(self.look, is_last=True), name=self.name, daemon=True)
        last.start()
        last.join(LAST_LOOK_SECONDS_MAX)
        if last.is_alive():
            _log.warning(
                f"consumer groups were not {self._done} at the end",
                hint="they are as the look before left them",
            )

    def _is_due(self, way: Way, followed: Mapping[TopicPartition, F], now: float) -> bool:
        if way in self._looked_at:
            return now - self._looked_at[way] >= way.settings.interval_seconds
        since = self._waits_since.setdefault(way, now)
        return self._is_ready(followed) or now - since >= way.settings.interval_seconds

    def _is_ready(self, followed: Mapping[TopicPartition, F]) -> bool:  # noqa: ARG002
        """Tells whether a first look would find all there is to be found; it is waited for, for one interval."""
        return True

    @abstractmethod
    def _look(self, way: Way, followed: Mapping[TopicPartition, F]) -> Failures | None:
        """Looks at the groups of one destination; returns what failed, None where no look can be taken yet.

        Without one it is due again at once, and must cost nothing while it waits.
        """

    def _follow(self, way: Way, partition: TopicPartition, what: F) -> None:
        with self._lock:
            self._followed[way][partition] = what

    def _say(self, way: Way, failures: Failures) -> None:
        """Says what failed, once until it changes."""
        said = self._said.get(way, frozenset())
        for what, error in failures.items():
            if what not in said:
                _log.warning(
                    f"consumer groups could not be {self._done}, and are tried again",
                    name=way.mirror,
                    destination=way.destination,
                    what=what,
                    error=str(error),
                )
        if said and not failures:
            _log.info(f"consumer groups are {self._done} again", name=way.mirror, destination=way.destination)
        self._said[way] = frozenset(failures)
