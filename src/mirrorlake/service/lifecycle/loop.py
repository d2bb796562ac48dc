"""The driver's loop, between the moment its partitions are known and the end of its lanes."""

import contextlib
import os

import structlog

from mirrorlake.config.process_settings import OnPark
from mirrorlake.config.read_limits import limits_of
from mirrorlake.config.resolved import Mirror
from mirrorlake.freed_memory import forgotten_after
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.lanes import LanePool, engine_lanes
from mirrorlake.pipeline.restart import may_restart, restart_process
from mirrorlake.pipeline.signals import StopSignal
from mirrorlake.repeated import RepeatedInThread
from mirrorlake.service.control_loop import ControlLoop
from mirrorlake.service.drift import DriftWatch
from mirrorlake.service.groups.looks import LOOK_SECONDS
from mirrorlake.service.heartbeats.wanted import heartbeats_wanted
from mirrorlake.service.lifecycle.detached import DetachedLooks
from mirrorlake.service.lifecycle.discovery import Discovery
from mirrorlake.service.lifecycle.endings import exit_code
from mirrorlake.service.lifecycle.keeping import keeper_of
from mirrorlake.service.lifecycle.partition_starts import PartitionStarts
from mirrorlake.service.lifecycle.parts import PAUSES_VARIABLE, Parts
from mirrorlake.service.observer import find_missing, observe, observe_once
from mirrorlake.service.sight.health import Part, Phase
from mirrorlake.service.snapshot_keeper import SnapshotKeeper
from mirrorlake.service.supervisor import Supervisor

_log = structlog.get_logger("mirrorlake")

TURN_SECONDS = 0.5
"""Between two turns of the loop; whoever has news for it wakes it."""

SCHEMAS_SECONDS = 0.2
"""How often it is asked whether registries are due: a lease that waits for an id waits so long for nothing, at most."""

LAST_LOOK_SECONDS_MAX = 5.0
"""A source that does not answer for so long is flushed as far as it was seen before."""

RELEASE_SECONDS_MAX = 5.0
"""For the state records to say that nothing is under way any more; without it the next owner waits a lease."""

START_SECONDS_MAX = 20.0
"""After that what a service reads of its libraries is what it needs again and again; the rest was for its start."""

ENGINE_SILENT_SECONDS = 6.0
"""Spark is asked every two seconds: two answers are missing."""

JVM_DIED = "Spark's JVM died"
LOST_EVERY_LEASE = "Spark lost every lease"


class ServiceLoop:
    """Serves the partitions of the table on an engine until there is a reason to end.

    At the end: sources are looked at once more, live leases end, what is archived is flushed, lanes stop, consumer
    groups are taken along once more, the ownership is released, the archives' markers are written, consumer groups are
    archived once more.

    Args:
        parts: of the run.
        starts: knows what still waits to begin.
        discovery: looks at the clusters again.
        supervisor: makes the leases.
        session: runs them.
        control: asks the clusters.
        stop: is set where the run is to end.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        starts: PartitionStarts,
        discovery: Discovery,
        supervisor: Supervisor,
        session: Engine,
        control: ControlLoop,
        stop: StopSignal,
    ) -> None:
        self._parts = parts
        self._starts = starts
        self._discovery = discovery
        self._supervisor = supervisor
        self._session = session
        self._control = control
        self._stop = stop
        self._limits = limits_of(parts.config)
        look_seconds = parts.config.engine.tail_check_seconds
        self._drift_watch = DriftWatch(parts.table, parts.markers, seconds=look_seconds)
        self._snapshot_keeper = SnapshotKeeper(parts.table, seconds=look_seconds, clock=parts.clock)
        self._looking: list[RepeatedInThread] = [
            DetachedLooks(each.name, each.look, seconds=LOOK_SECONDS)
            for each in (parts.groups, parts.group_sync, parts.topics)
        ]
        if parts.schemas is not None:
            self._looking.append(DetachedLooks("schema-sync", parts.schemas.look, seconds=SCHEMAS_SECONDS))
        self._pool = engine_lanes(
            session,
            lanes=parts.config.engine.lanes,
            source=supervisor,
            on_engine_dead=self._on_engine_dead,
            may_give_up=may_restart,
        )
        self._keeper = keeper_of(parts, session, on_engine_dead=self._on_engine_dead)
        self._engine_died = False
        self._engine_is_silent = False

    # --- commands, from any thread ------------------------------------------------------------------------

    def look_now(self) -> None:
        """Looks for topics and partitions, and at the tails of archives, at once."""
        self._discovery.look_now()
        self._drift_watch.look_now()
        self._snapshot_keeper.look_now()

    def reloaded(self) -> None:
        """Applies settings of the current configuration that are not read at every turn."""
        for watch in (self._drift_watch, self._snapshot_keeper):
            watch.every(self._parts.config.engine.tail_check_seconds)
        self._discovery.look_now()  # for topics of heartbeats that were asked for just now
        before, self._limits = self._limits, limits_of(self._parts.config)
        # Leases that run were told the limits of before; the next ones are told those of now.
        changed = {mirror for mirror, _ in before.items() ^ self._limits.items()}
        self._supervisor.recall([state for state in self._parts.table.states if state.mirror in changed])
        self._parts.wake.set()

    # --- the thread of the run ----------------------------------------------------------------------------

    def serve(self) -> int:
        """Runs to the end; returns the exit code."""
        parts, supervisor = self._parts, self._supervisor
        parts.pulse.entered(Phase.SERVING)
        observing = observe(
            parts.table, parts.clients, changed=parts.wake.set, turned=lambda: parts.pulse.moved(Part.CONTROL)
        )
        watching = [
            self._control.start(observing),
            self._control.start(parts.owners.watch(supervisor.superseded, self._discovery.refuse)),
        ]
        if not parts.options.once:
            beating = parts.heartbeats.write(is_wanted=self._wants_heartbeats, made=self._discovery.look_now)
            watching.append(self._control.start(beating))
        if parts.schemas is not None:
            parts.schemas.look_first()
        self._pool.start()
        try:
            with contextlib.ExitStack() as watches:
                for watch in (self._drift_watch, self._snapshot_keeper, self._keeper):
                    watches.enter_context(watch)
                for looking in self._looking:
                    watches.enter_context(looking)
                watches.enter_context(forgotten_after(START_SECONDS_MAX))
                self._wait_for_end()
            parts.pulse.entered(Phase.STOPPING)
            ended = self._end_leases()
        finally:
            for task in watching:
                task.cancel()
        self._start_again_without_engine()
        missing = self._control.call(find_missing(parts.table, parts.clients)) if parts.options.once else {}
        self._leave(ended=ended)
        return exit_code(
            parts.table,
            once=parts.options.once,
            ended=ended,
            superseded=supervisor.end_error,
            waiting=self._starts.waiting,
            missing=missing,
            stopped=self._is_asked_to_stop,
        )

    def _wants_heartbeats(self, mirror: Mirror) -> bool:
        """Tells whether this run copies a mirror now; called by the loop that asks the clusters."""
        table, owners = self._parts.table, self._parts.owners
        unasked = {(each.mirror.name, each.kafka.cluster.name) for each in self._starts.waiting if each.is_topic}

        def lacks(name: str, cluster: str) -> bool:
            return owners.lacks(name, cluster) or ((name, cluster) in unasked and not owners.owns(name, [cluster]))

        return heartbeats_wanted(mirror, table.states, table.pauses, lacks=lacks)

    def _wait_for_end(self) -> None:
        """Returns when the service should end; wakes lanes, retries discovery and beats the heart meanwhile."""
        parts = self._parts
        next_beat = parts.clock.elapsed_seconds()
        while not self._is_asked_to_stop and not self._engine_died:
            if self._is_done:
                self._tell_progress()
                return
            if self._must_exit:
                return
            parts.pulse.moved(Part.DRIVER)
            self._pool.wake()
            self._pool.look()
            self._watch_engine()
            self._supervisor.recall_waited_for()
            self._recall_altered_ids()
            self._supervisor.let_go_on()
            self._supervisor.look_at_progress()
            self._supervisor.balance()
            now, heartbeat = parts.clock.elapsed_seconds(), parts.config.service.heartbeat_seconds
            if heartbeat is not None and now >= next_beat:
                parts.events.heartbeat(parts.table.states)
                next_beat = now + heartbeat
            self._discovery.turn()
            parts.staleness.look(parts.table.states)
            self._tell_progress()
            parts.wake.wait(TURN_SECONDS)
            parts.wake.clear()

    def _recall_altered_ids(self) -> None:
        """Recalls leases that were told ids which a registry does not give any more."""
        parts = self._parts
        if parts.schemas is not None and (altered := parts.schemas.take_altered()):
            states = [state for state in parts.table.states if (state.mirror, state.destination) in altered]
            self._supervisor.recall(states)

    @property
    def _is_asked_to_stop(self) -> bool:
        return self._stop.requested.is_set()

    @property
    def _is_done(self) -> bool:
        """True where nothing is left to do.

        A bounded run asks once more for what could not be asked at the start, and does all the rest meanwhile.
        """
        asked_again = self._parts.options.once and self._discovery.rounds
        return self._supervisor.is_finished and bool(not self._starts.waiting or asked_again)

    @property
    def _must_exit(self) -> bool:
        if self._supervisor.end_error is not None:
            return True
        if self._parts.config.on_park is OnPark.EXIT and not self._parts.options.once:
            return any(state.is_parked for state in self._parts.table.states)
        return False

    def _tell_progress(self) -> None:
        if self._parts.options.progressed is not None:
            self._parts.options.progressed(*self._parts.table.progress)

    def _watch_engine(self) -> None:
        """Says when Spark has fallen silent, and when it answers again."""
        seconds = self._parts.pulse.age_seconds(Part.ENGINE)
        is_silent = seconds > ENGINE_SILENT_SECONDS
        if is_silent and not self._engine_is_silent:
            _log.warning(
                "Spark's JVM does not answer",
                seconds=round(seconds, 1),
                hint="it is frozen, or short of memory or CPU; leases wait for it",
            )
        if not is_silent and self._engine_is_silent:
            _log.info("Spark's JVM answers again")
        self._engine_is_silent = is_silent

    # --- the end ------------------------------------------------------------------------------------------

    def _end_leases(self) -> bool:
        """Asks for the end of all leases; returns whether every lane ended in time."""
        parts = self._parts
        # Before the last look at the source, which archives are flushed up to.
        self._control.call(parts.heartbeats.end())
        if self._is_asked_to_stop:
            # What a source got since it was last looked at was there when the signal came.
            self._control.call(observe_once(parts.table, parts.clients, timeout_seconds=LAST_LOOK_SECONDS_MAX))
        self._start_again_without_engine()  # at once: lanes may wait for a frozen JVM
        self._supervisor.stop()
        return self._pool.stop(parts.config.engine.stop_seconds)

    def _leave(self, *, ended: bool) -> None:
        parts = self._parts
        if ended and self._supervisor.end_error is None and not self._engine_died:
            parts.group_sync.look_once_more()  # while the mirrors are this process's own
        if ended and not self._engine_died and self._supervisor.is_quiet:
            with contextlib.suppress(TimeoutError):
                self._control.call(parts.owners.release(), timeout_seconds=RELEASE_SECONDS_MAX)
        if parts.schemas is not None:
            parts.schemas.close()
        parts.markers.leave()
        if self._supervisor.end_error is None and not self._engine_died:
            parts.groups.look_once_more()
        parts.events.ended(parts.table.states, failure=self._why_failed(ended=ended))
        if not ended:
            _log.error("graceful stop gave up", seconds=parts.config.engine.stop_seconds)

    def _why_failed(self, *, ended: bool) -> str:
        if (superseded := self._supervisor.end_error) is not None:
            return superseded.message
        return "" if ended else "leases did not end in time"

    def _on_engine_dead(self) -> None:
        self._engine_died = True
        self._parts.wake.set()

    def _start_again_without_engine(self) -> None:
        if self._engine_died and not self._is_asked_to_stop:
            os.environ[PAUSES_VARIABLE] = self._parts.table.pauses.as_text()
            restart_process(self._session, why=_why_engine_died(self._pool))


def _why_engine_died(pool: LanePool) -> str:
    return LOST_EVERY_LEASE if pool.is_engine_useless else JVM_DIED
