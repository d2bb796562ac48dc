"""Looks at the clusters again while a service runs: for what could not be asked, what is new, what is to begin anew."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import structlog

from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.service.changes import Changes, find_changes
from mirrorlake.service.control_loop import ControlLoop
from mirrorlake.service.lifecycle.compacted_copies import CompactedCopies
from mirrorlake.service.lifecycle.partition_starts import PartitionStarts, sources_found
from mirrorlake.service.lifecycle.parts import Parts
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.supervisor import Supervisor
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import idle_selections
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

DISCOVER_AGAIN_SECONDS = 5.0
"""Until what could not be asked is asked once more."""

LOOK_AGAIN_SECONDS = 1.0
"""Until the leases that are at work on what is to be replaced may have ended."""


class Discovery:
    """One look at a time, begun and taken by the driver's loop; asking for one is safe from any thread.

    Args:
        parts: of the run.
        control: asks the clusters.
        starts: brings what was found into the table.
        supervisor: ends the leases of what must not be copied any more.
    """

    def __init__(self, parts: Parts, control: ControlLoop, starts: PartitionStarts, supervisor: Supervisor) -> None:
        self._parts = parts
        self._control = control
        self._starts = starts
        self._supervisor = supervisor
        self._looking: Future[list[Target]] | None = None
        self._is_asked = threading.Event()
        self._looks_at_all = True
        self._restarting: list[PartitionState] = []
        self._waiting_at_seconds = 0.0
        self._look_at_seconds = 0.0
        self._idle: set[str] = set()
        self._compacted_copies = CompactedCopies()
        self.rounds = 0

    def begin(self, targets: Sequence[Target]) -> None:
        """Takes the targets of the first look, and the time from which the next ones count."""
        self._tell_idle(targets)
        self._compacted_copies.saw(targets)
        self._starts.begin(targets)
        now = self._parts.clock.elapsed_seconds()
        self._waiting_at_seconds = now + DISCOVER_AGAIN_SECONDS
        self._look_at_seconds = now + self._parts.config.engine.discovery_seconds

    def look_now(self) -> None:
        """Asks for a look that begins after this call. Idempotent."""
        self._is_asked.set()
        self._parts.wake.set()

    def turn(self) -> None:
        """Begins a look where one is due, or takes what an earlier one has found; waits for neither.

        A silent broker takes its time to fail, and must hold up neither the end of the others nor a stop.
        """
        if self._looking is None:
            self._begin_look()
        elif self._looking.done():
            targets, self._looking = self._looking.result(), None
            self._take(targets)

    def _begin_look(self) -> None:
        parts = self._parts
        names = self._mirrors_to_ask(parts.clock.elapsed_seconds())
        if names is None:
            return
        self._looks_at_all = not names
        self._restarting = [state for state in parts.table.states if state.is_restart_asked]
        served = {(s.mirror, s.destination, s.source.topic) for s in parts.table.states if not s.is_parked}
        looking = find_targets(parts.config, parts.clients, only=names or None, served=served)
        self._looking = self._control.start(looking)
        self._looking.add_done_callback(lambda _: parts.wake.set())

    def _mirrors_to_ask(self, now: float) -> set[str] | None:
        """Returns the names of the mirrors to ask for now, empty for all of them; None where nobody is asked.

        A bounded run looks for nothing new.
        """
        is_asked = self._is_asked.is_set()
        self._is_asked.clear()
        if not self._parts.options.once and (is_asked or now >= self._look_at_seconds):
            self._look_at_seconds = now + self._parts.config.engine.discovery_seconds
            return set()
        if not is_asked and now < self._waiting_at_seconds:
            return None
        restarts = {state.mirror for state in self._parts.table.states if state.is_restart_asked}
        return {target.mirror.name for target in self._starts.waiting} | restarts or None

    def _take(self, targets: Sequence[Target]) -> None:
        table, now = self._parts.table, self._parts.clock.elapsed_seconds()
        if self._looks_at_all:
            self._tell_idle(targets)
        self._waiting_at_seconds = now + DISCOVER_AGAIN_SECONDS
        self.rounds += 1
        self._compacted_copies.saw(targets)
        self._tell_unseen(targets)
        table.sources_seen(sources_found(targets))
        table.keeps({(t.mirror.name, t.source): t.source_retention for t in targets if t.source_configs})
        waiting = {(t.mirror.name, t.destination.label) for t in self._starts.waiting}
        changes = find_changes(targets, table.states, waiting=waiting, restarting=self._restarting)
        with self._parts.events.together():
            for state, error in changes.stopped:
                self._supervisor.stopped(state, error)
        if not table.retire(changes.retired):
            self._look_at_seconds = now + LOOK_AGAIN_SECONDS  # a lease is at work on what is to be replaced
            return
        table.limits_seen(
            {
                (t.mirror.name, t.source, t.destination.label): t.batch_bytes_max
                for t in targets
                if t.batch_bytes_max and t.creation is None
            }
        )
        self._apply(changes)
        self._refuse_restarts(targets, changes)

    def _tell_unseen(self, targets: Sequence[Target]) -> None:
        """Tells which mirrors that this process owns this look has found no state record of."""
        owners = self._parts.owners
        found = {(t.mirror.name, t.kafka.cluster.name) for t in targets if t.is_topic and not t.error and not t.owner}
        owners.records_unseen(key for key in found if owners.owns(key[0], [key[1]]))

    def _apply(self, changes: Changes) -> None:
        for state in changes.retired:
            self._parts.events.retired(state)
        with self._parts.events.together():
            for state, error in changes.explained:
                self._parts.table.explain(state, error)
        if changes.fresh or self._starts.waiting:
            self._starts.begin(changes.fresh)

    def _refuse_restarts(self, targets: Sequence[Target], changes: Changes) -> None:
        """Ends the restarts that this look has shown to be in vain; what could not be asked is asked again."""
        begun = {id(state) for state in changes.retired}
        unknown = {
            (t.mirror.name, t.destination.label, t.source.topic) for t in targets if isinstance(t.error, TransientError)
        }
        in_vain = [
            state
            for state in self._restarting
            if id(state) not in begun and (state.mirror, state.destination, state.source.topic) not in unknown
        ]
        self._parts.table.restart_refused(in_vain)
        for state in in_vain:
            _log.warning(
                "partition could not begin anew",
                mirror=state.mirror,
                topic=state.source.topic,
                partition=state.source.partition,
                destination=state.destination,
                error="" if state.error is None else state.error.message,
            )

    def refuse(self, target: Target, error: MirrorlakeError) -> None:
        """Stops what was begun while nobody could be asked whose it is."""
        for state in self._parts.table.states:
            place = (state.mirror, state.source, state.destination)
            if place == (target.mirror.name, target.source, target.destination.label):
                self._supervisor.stopped(state, error)

    def _tell_idle(self, targets: Sequence[Target]) -> None:
        """Says which expressions select nothing, when they begin to."""
        found = idle_selections(self._parts.config.enabled_mirrors, targets)
        for idle in found:
            if idle.mirror.name not in self._idle:
                _log.warning("mirror selects nothing", mirror=idle.mirror.name, why=idle.message)
        self._idle = {idle.mirror.name for idle in found}
