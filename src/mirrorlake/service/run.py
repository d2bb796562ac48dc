"""``run``: from a configuration to leases, until a signal, the end of a bounded run, or another owner.

Order of effects at the start: stop signals are taken over, the metrics endpoint listens, Spark starts while the
clusters are asked, stores are probed and chains checked, missing destination topics are made, lanes begin.
At the end: live leases end, what is archived is flushed, lanes stop, Spark stops.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import structlog
from prometheus_client import make_wsgi_app

from mirrorlake.clock import SystemClock, utc_text
from mirrorlake.config.resolved import (
    Configuration,
    Form,
    OnPark,
)
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import ConfigurationError, MirrorlakeError, StartStoppedError, TransientError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.pipeline.engine import Engine, EngineBuilder, settings_of
from mirrorlake.pipeline.lanes import LanePool, engine_lanes
from mirrorlake.pipeline.pulse import EnginePulse
from mirrorlake.pipeline.recalls import Recalls
from mirrorlake.pipeline.restart import may_restart, restart_process
from mirrorlake.pipeline.session import build_session
from mirrorlake.pipeline.signals import StopSignal
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.changes import find_changes
from mirrorlake.service.control_loop import ControlLoop
from mirrorlake.service.drift import DriftWatch
from mirrorlake.service.lease_plans import lease_seconds_max, seconds_until_over, send_seconds_max
from mirrorlake.service.map_shards import with_settled_shards
from mirrorlake.service.observer import observe, observe_once
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight import live
from mirrorlake.service.sight.events import Events
from mirrorlake.service.sight.health import Part, Phase, Pulse, Verdict, readiness
from mirrorlake.service.sight.listener import Listener, json_app, verdict_app
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.service.state_table import StateTable
from mirrorlake.service.states import make_roots, state_of, with_archive_positions, writer_name
from mirrorlake.service.supervisor import Supervisor
from mirrorlake.service.view_keeper import ViewKeeper
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import idle_selections
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target
from mirrorlake.topics.topic_creation import create_topics

_log = structlog.get_logger("mirrorlake")

EXIT_DONE, EXIT_FAILED, EXIT_PARKED, EXIT_SUPERSEDED = 0, 1, 3, 4

LAST_LOOK_SECONDS_MAX = 5.0
"""A source that does not answer for so long is flushed as far as it was seen before."""

RELEASE_SECONDS_MAX = 5.0
"""For the state records to say that nothing is under way any more; without it the next owner waits a lease."""

NAMED_MAX = 10
"""Partitions that one log line names."""

ENGINE_SILENT_SECONDS = 6.0
"""Spark is asked every two seconds: two answers are missing."""

JVM_DIED = "Spark's JVM died"
LOST_EVERY_LEASE = "Spark lost every lease"

DISCOVER_AGAIN_SECONDS = 5.0

LOOK_AGAIN_SECONDS = 1.0
"""Until the leases that are at work on what is to be replaced may have ended."""
PRELOAD = (
    "mirrorlake.mirror.freed_memory:keep_freed_memory",
    "mirrorlake.mirror.lease_worker",
    "mirrorlake.kafka.records.checksum_kernels",
    "mirrorlake.kafka.records.codec:warm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line adds to the configuration.

    ``takes_over`` lets a bounded run take mirrors from an owner that is alive; a service always does.
    ``progressed`` is called now and then, with offsets copied and offsets to copy of a bounded run. ``engine`` starts
    what runs the leases.
    """

    once: bool = False
    takes_over: bool = False
    progressed: Callable[[int, int], None] | None = None
    engine: EngineBuilder = build_session


def run(config: Configuration, options: RunOptions) -> int:
    """Runs the configured mirrors; returns the exit code.

    Returns:
        0 ended as asked, 1 failed, 3 ended as asked or by ``on-park: exit`` while partitions stand parked, 4 another
        process has taken over.

    Raises:
        ConfigurationError: there is nothing to run, or the metrics address of a service is taken.
        JavaUnusableError: Spark cannot start.
    """
    if config.refusal_to_run:
        raise ConfigurationError(config.refusal_to_run, hint=f"add a mirror to {config.file}")
    return _Service(config, options).run()


class _Service:
    """One run of one configuration."""

    def __init__(self, config: Configuration, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._clock = SystemClock()
        self._clients = WorkerCache()
        self._wake = threading.Event()
        self._writer = writer_name()
        self._owners = Owners(
            self._clients, owner=self._writer, clock=self._clock, hold_seconds=_send_seconds_max(config)
        )
        self._markers = ArchiveMarkers(writer=self._writer, clock=self._clock)
        self._engine_died = False
        self._engine_is_silent = False
        self._waiting_targets: list[Target] = []
        self._discovering: Future[list[Target]] | None = None
        self._discover_at_seconds = 0.0
        self._look_at_seconds = 0.0
        self._rediscoveries = 0
        self._idle: set[str] = set()
        self._asked_all = True
        self._metrics = Metrics(clock=self._clock, has_v3=config.form is Form.MIRROR_V3)
        self._pulse = Pulse(self._clock, stop_seconds=config.engine.stop_seconds)
        self._serving: Supervisor | None = None
        self._events = Events(
            self._metrics,
            self._clock,
            {m.name: m.destinations[0].label for m in config.enabled_mirrors},
            is_v3=config.form is Form.MIRROR_V3,
        )
        self._table = StateTable(once=options.once, clock=self._clock, events=self._events, changed=self._wake.set)

    def run(self) -> int:
        stop = StopSignal(self._asked_to_stop).install()
        try:
            return self._run(stop)
        except StartStoppedError as error:
            _log.info("stopped before anything was begun", why=error.message)
            return EXIT_FAILED if self._options.once else EXIT_DONE
        finally:
            stop.retire()

    def _run(self, stop: StopSignal) -> int:
        _log.info(
            "starting mirror-v3" if self._config.form is Form.MIRROR_V3 else "starting mirrorlake",
            config=self._config.file,
            mirrors=len(self._config.enabled_mirrors),
            destination=", ".join(self._config.destination_types),
        )
        server = self._listen()
        try:
            with ControlLoop() as control:
                found = control.start(self._look())
                session = self._options.engine(
                    settings_of(
                        self._config,
                        preload=_preload(self._config),
                        batch_slots=self._config.engine.batch_slots,
                        is_stopping=stop.requested.is_set,
                    )
                )
                try:
                    # While the clusters are asked: the first lease of a session is a slow one. Should it fail, the
                    # lanes find out for themselves, and know what to do.
                    with contextlib.suppress(MirrorlakeError):
                        session.warm_up()
                    targets, living = found.result()
                    if living:
                        return _served_elsewhere(living)
                    supervisor = self._supervisor(targets, control, session.recalls)
                    self._metrics.looked()
                    self._serving = supervisor
                    with EnginePulse(session.answers, lambda: self._pulse.moved(Part.ENGINE)):
                        return self._serve(supervisor, session, control, stop)
                finally:
                    control.call(self._clients.close(), timeout_seconds=10.0)
                    session.stop()
        finally:
            if server is not None:
                server.close()

    async def _look(self) -> tuple[list[Target], Mapping[str, Sequence[OwnerState]]]:
        """Returns the targets, and who else serves their mirrors, by cluster, where that must not be taken over."""
        targets = await find_targets(self._config, self._clients)
        asks = self._options.once and not self._options.takes_over
        return targets, await self._owners.find_living(targets) if asks else {}

    def _listen(self) -> Listener | None:
        address = self._config.service.metrics
        # mirror-v3's words and ways, which its users' tools may look for and its users may count on.
        is_v3 = self._config.form is Form.MIRROR_V3
        if address is None:
            if is_v3:
                _log.info("metrics exporter disabled (MIRROR_V3_METRICS_PORT=0)")
            return None
        routes = {
            "/metrics": make_wsgi_app(self._metrics.registry),
            "/healthz": verdict_app(self._health),
            "/readyz": verdict_app(self._readiness),
            live.PATH: json_app(self._partitions),
        }
        try:
            server = Listener(routes, address.host, address.port)
        except ConfigurationError as error:
            # A bounded run with the configuration of a service that runs: who serves the mirrors is found out later.
            if not (is_v3 or self._options.once):
                raise
            _log.warning("metrics exporter failed; continuing", error=error.message, hint=error.hint, addr=str(address))
            return None
        if is_v3:
            _log.info("metrics exporter listening on /metrics", addr=f"{address.host}:{server.port}")
        else:
            _log.info("metrics endpoint listens", address=f"{address.host}:{server.port}", path="/metrics")
        return server

    def _health(self) -> Verdict:
        serving = self._serving
        return self._pulse.verdict(lease_overdue_seconds=serving.lease_overdue_seconds if serving else 0.0)

    def _readiness(self) -> Verdict:
        return readiness(
            self._pulse.phase,
            self._table.states,
            self._waiting_targets,
            sources={m.name: m.source.cluster.name for m in self._config.enabled_mirrors},
            now_seconds=self._clock.elapsed_seconds(),
        )

    def _partitions(self) -> object:
        return live.partitions_json(self._table.states, now_seconds=self._clock.elapsed_seconds())

    def _asked_to_stop(self, name: str) -> None:
        # mirror-v3's words, which its users' tools may look for.
        _log.info(f"received {name}; requesting graceful shutdown", signal=name)
        self._wake.set()

    # --- what there is to do ------------------------------------------------------------------------------

    def _supervisor(self, targets: Sequence[Target], control: ControlLoop, recalls: Recalls) -> Supervisor:
        self._tell_idle(targets)
        self._begin(targets, control)
        return Supervisor(
            self._table,
            lanes=self._config.engine.lanes,
            lease_seconds=self._config.engine.lease_seconds,
            memory_bytes_max=self._config.engine.memory_bytes // 8,
            largest_batch_bytes=self._config.engine.largest_batch_bytes,
            clock=self._clock,
            events=self._events,
            holding=self._owners.holding,
            recalls=recalls,
            changed=self._wake.set,
        )

    def _tell_idle(self, targets: Sequence[Target]) -> None:
        """Says which expressions select nothing, when they begin to."""
        found = idle_selections(self._config.enabled_mirrors, targets)
        for idle in found:
            if idle.mirror.name not in self._idle:
                _log.warning("mirror selects nothing", mirror=idle.mirror.name, why=idle.message)
        self._idle = {idle.mirror.name for idle in found}

    def _begin(self, targets: Sequence[Target], control: ControlLoop) -> None:
        """Makes topics, reads positions, adds states; targets with transient errors are kept for another try."""
        settling = with_settled_shards(targets, self._clients, lanes=self._config.engine.lanes, clock=self._clock)
        targets = control.call(settling)
        self._waiting_targets = [t for t in targets if isinstance(t.error, TransientError)]
        self._say_not_ready([(t, t.error) for t in self._waiting_targets if t.error is not None])
        ready = [t for t in targets if not isinstance(t.error, TransientError)]
        refused = control.call(create_topics(ready, self._clients))
        later = [t for t in ready if isinstance(refused.get(_topic_at(t)), TransientError)]
        self._say_not_ready([(t, refused[_topic_at(t)]) for t in later])
        self._waiting_targets += later
        ready = [t for t in ready if t not in later]
        made = [t for t in ready if t.creation and not t.error and _topic_at(t) not in refused]
        for topic, like in sorted({(t.destination_topic, t.source.topic) for t in made}):
            _log.info("destination topic created", topic=topic, like=like)
        owned_by_others = control.call(self._owners.take(ready))
        archives = [t for t in ready if t.is_archive]
        if self._config.form is Form.MIRROR_V3:
            make_roots(archives)
        states = [state_of(target, writer=self._writer) for target in ready]
        archived = with_archive_positions(
            [(t, s) for t, s in zip(ready, states, strict=True) if t.is_archive],
            writes=True,
            gone=self._markers.gone_roots(),
        )
        self._markers.follow(list(zip(archives, archived, strict=True)))
        found = iter(archived)
        states = [next(found) if t.is_archive else s for t, s in zip(ready, states, strict=True)]
        not_made = [
            (state, refused[_topic_at(target)])
            for target, state in zip(ready, states, strict=True)
            if target.is_to_be_made and _topic_at(target) in refused and state.error is None
        ]
        self._table.add(
            states,
            {m.name: source_of(m) for m in self._config.enabled_mirrors},
            refused=[*not_made, *((states[index], error) for index, error in owned_by_others.items())],
            until_another_look=[states[index] for index in owned_by_others],
        )

    def _say_not_ready(self, waiting: Sequence[tuple[Target, MirrorlakeError]]) -> None:
        with self._events.together():
            for (mirror, topic, destination), error in {
                (t.mirror.name, t.source.topic, t.destination.label): error for t, error in waiting
            }.items():
                self._events.not_ready(mirror, topic, destination, error)

    def _discover_again(self, supervisor: Supervisor, control: ControlLoop) -> None:
        """Asks again: soon for what could not be asked before, now and then for what is new at the sources.

        Returns at once; what was asked is taken by a later call. A silent broker takes its time to fail, and must
        hold up neither the end of the others nor a stop.
        """
        now = self._clock.elapsed_seconds()
        if self._discovering is None:
            names = self._mirrors_to_ask(now)
            if names is not None:
                self._asked_all = not names
                served = {(s.mirror, s.destination, s.source.topic) for s in self._table.states if not s.is_parked}
                looking = find_targets(self._config, self._clients, only=names or None, served=served)
                self._discovering = control.start(looking)
                self._discovering.add_done_callback(lambda _: self._wake.set())
            return
        if not self._discovering.done():
            return
        targets, self._discovering = self._discovering.result(), None
        if self._asked_all:
            self._tell_idle(targets)
        self._discover_at_seconds = now + DISCOVER_AGAIN_SECONDS
        self._rediscoveries += 1
        self._table.keeps({(t.mirror.name, t.source): t.source_retention for t in targets if t.source_configs})
        waiting = {(t.mirror.name, t.destination.label) for t in self._waiting_targets}
        changes = find_changes(targets, self._table.states, waiting=waiting)
        with self._events.together():
            for state, error in changes.stopped:
                supervisor.stopped(state, error)
        if not self._table.retire(changes.retired):
            self._look_at_seconds = now + LOOK_AGAIN_SECONDS  # a lease is at work on what is to be replaced
            return
        for state in changes.retired:
            self._events.retired(state)
        with self._events.together():
            for state, error in changes.explained:
                self._table.explain(state, error)
        if changes.fresh or self._waiting_targets:
            self._begin(changes.fresh, control)

    def _refused(self, supervisor: Supervisor, target: Target, error: MirrorlakeError) -> None:
        """Stops what was begun while nobody could be asked whose it is."""
        for state in self._table.states:
            place = (state.mirror, state.source, state.destination)
            if place == (target.mirror.name, target.source, target.destination.label):
                supervisor.stopped(state, error)

    def _mirrors_to_ask(self, now: float) -> set[str] | None:
        """Returns the names of the mirrors to ask for now, empty for all of them; None where nobody is asked."""
        if not self._options.once and now >= self._look_at_seconds:
            self._look_at_seconds = now + self._config.engine.discovery_seconds
            return set()
        if self._waiting_targets and now >= self._discover_at_seconds:
            return {target.mirror.name for target in self._waiting_targets}
        return None

    # --- the loop -----------------------------------------------------------------------------------------

    def _serve(self, supervisor: Supervisor, session: Engine, control: ControlLoop, stop: StopSignal) -> int:
        self._pulse.entered(Phase.SERVING)
        observing = observe(
            self._table, self._clients, changed=self._wake.set, turned=lambda: self._pulse.moved(Part.CONTROL)
        )
        watching = [
            control.start(observing),
            control.start(self._owners.watch(supervisor.superseded, partial(self._refused, supervisor))),
        ]
        pool = engine_lanes(
            session,
            lanes=self._config.engine.lanes,
            source=supervisor,
            on_engine_dead=self._on_engine_dead,
            may_give_up=may_restart,
        )
        pool.start()
        try:
            look_seconds = self._config.engine.tail_check_seconds
            with (
                DriftWatch(self._table, self._markers, seconds=look_seconds),
                ViewKeeper(self._table, seconds=look_seconds, clock=self._clock),
            ):
                self._wait_for_end(supervisor, pool, control, stop)
            self._pulse.entered(Phase.STOPPING)
            if stop.requested.is_set():
                # What a source got since it was last looked at was there when the signal came.
                control.call(observe_once(self._table, self._clients, timeout_seconds=LAST_LOOK_SECONDS_MAX))
            self._start_again_without_engine(session, pool, stop)  # at once: lanes may wait for a frozen JVM
            supervisor.stop()
            ended = pool.stop(self._config.engine.stop_seconds)
            was_cut_short = self._options.once and stop.requested.is_set() and not self._table.is_complete
        finally:
            for task in watching:
                task.cancel()
        self._start_again_without_engine(session, pool, stop)
        if ended and not self._engine_died and supervisor.is_quiet:
            with contextlib.suppress(TimeoutError):
                control.call(self._owners.release(), timeout_seconds=RELEASE_SECONDS_MAX)
        self._markers.update()
        self._events.ended(self._table.states)
        if not ended:
            _log.error("graceful stop gave up", seconds=self._config.engine.stop_seconds)
        if was_cut_short:
            _log.error(
                "stopped before the ends found at the start were reached", hint="run it again, it continues there"
            )
            return EXIT_FAILED
        return self._exit_code(supervisor, ended=ended)

    def _start_again_without_engine(self, session: Engine, pool: LanePool, stop: StopSignal) -> None:
        if self._engine_died and not stop.requested.is_set():
            restart_process(session, why=LOST_EVERY_LEASE if pool.is_engine_useless else JVM_DIED)

    def _on_engine_dead(self) -> None:
        self._engine_died = True
        self._wake.set()

    def _wait_for_end(self, supervisor: Supervisor, pool: LanePool, control: ControlLoop, stop: StopSignal) -> None:
        """Returns when the service should end; wakes lanes, retries discovery and beats the heart meanwhile."""
        heartbeat = self._config.service.heartbeat_seconds
        next_beat = self._clock.elapsed_seconds()
        self._discover_at_seconds = next_beat + DISCOVER_AGAIN_SECONDS
        self._look_at_seconds = next_beat + self._config.engine.discovery_seconds
        while not stop.requested.is_set() and not self._engine_died:
            # A bounded run asks once more for what could not be asked at the start, and does all the rest meanwhile.
            if supervisor.is_finished and (not self._waiting_targets or (self._options.once and self._rediscoveries)):
                if self._options.progressed is not None:
                    self._options.progressed(*self._table.progress)
                return
            if self._must_exit(supervisor):
                return
            self._pulse.moved(Part.DRIVER)
            pool.wake()
            pool.look()
            self._watch_engine()
            supervisor.recall_waited_for()
            supervisor.balance()
            now = self._clock.elapsed_seconds()
            if heartbeat is not None and now >= next_beat:
                self._events.heartbeat(self._table.states)
                next_beat = now + heartbeat
            self._discover_again(supervisor, control)
            if self._options.progressed is not None:
                self._options.progressed(*self._table.progress)
            self._wake.wait(0.5)
            self._wake.clear()

    def _watch_engine(self) -> None:
        """Says when Spark has fallen silent, and when it answers again."""
        seconds = self._pulse.age_seconds(Part.ENGINE)
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

    def _must_exit(self, supervisor: Supervisor) -> bool:
        if supervisor.end_error is not None:
            return True
        if self._config.on_park is OnPark.EXIT and not self._options.once:
            return any(state.is_parked for state in self._table.states)
        return False

    def _exit_code(self, supervisor: Supervisor, *, ended: bool) -> int:
        if supervisor.end_error is not None:
            _log.error("another process has taken over", error=str(supervisor.end_error))
            return EXIT_SUPERSEDED
        parked = [state for state in self._table.states if state.is_parked]
        failed = self._given_up() if self._options.once else []
        if unflushed := self._table.unflushed:
            _log.error(
                "the graceful stop could not archive everything",
                partitions=len(unflushed),
                offsets=_offsets_left(unflushed),
                left=", ".join(_left(s) for s in unflushed[:NAMED_MAX]) + (" …" if len(unflushed) > NAMED_MAX else ""),
                hint="nothing is lost: the next start continues from there",
            )
            return EXIT_FAILED
        if failed:
            _log.error(
                "gave up before everything was copied",
                partitions=len(failed),
                left=", ".join(failed[:NAMED_MAX]) + (" …" if len(failed) > NAMED_MAX else ""),
                hint="the lines above say why; run it again, it continues there",
            )
        if failed or not ended:
            return EXIT_FAILED
        if parked:
            names = [_left(state) for state in parked]
            _log.error(
                "ended while partitions are parked",
                partitions=len(parked),
                left=", ".join(names[:NAMED_MAX]) + (" …" if len(names) > NAMED_MAX else ""),
            )
            return EXIT_PARKED
        return EXIT_DONE

    def _given_up(self) -> list[str]:
        """Returns what a bounded run leaves that it tried often enough, or could not even ask for."""
        failed = [_left(state) for state in self._table.states if state.gave_up]
        return failed + [
            f"{target.mirror.name}: {target.source.topic} ({target.destination.label})"
            for target in self._waiting_targets
        ]


def _served_elsewhere(living: Mapping[str, Sequence[OwnerState]]) -> int:
    """Says which mirrors another process is alive to serve; returns the exit code."""
    for cluster, states in living.items():
        for state in states:
            _log.error(
                "another process serves the mirror, and a bounded run does not take it over",
                mirror=state.mirror,
                cluster=cluster,
                owner=state.owner,
                owner_since=utc_text(state.taken_at_ms),
                hint="end that process, or let it do the work; --take-over ends it",
            )
    return EXIT_SUPERSEDED


def _offsets_left(states: Sequence[PartitionState]) -> int | str:
    """Returns how many offsets partitions still need, ``unknown`` where one of them could not be read."""
    left = 0
    for state in states:
        if state.once_end is None or state.position is None:
            return "unknown"
        left += state.once_end - state.position
    return left


def _left(state: PartitionState) -> str:
    """Returns a partition and the offsets that are left at its source, both inclusive; ? where not known."""
    source = state.source.topic if state.source.partition == UNKNOWN_PARTITION else str(state.source)
    first = "?" if state.position is None else state.position
    end = state.source_end if state.once_end is None else state.once_end
    if end is not None and end == state.position:
        return f"{state.mirror}: {source} nothing ({state.destination})"
    return f"{state.mirror}: {source} {first}…{'?' if end is None else end - 1} ({state.destination})"


def _send_seconds_max(config: Configuration) -> float:
    """Returns how long after its planning a lease of this configuration may append to a Kafka destination, at most."""
    destinations = [d for mirror in config.enabled_mirrors for d in mirror.destinations]
    sizes = [size for each in destinations if (size := kind_of(each).segment_bytes_max(each)) is not None]
    live_seconds = lease_seconds_max(config.engine.lease_seconds)
    return seconds_until_over(send_seconds_max(live_seconds, max(sizes, default=None)))


def _topic_at(target: Target) -> tuple[str, str]:
    """Returns cluster and topic of a Kafka target; an archive has no cluster."""
    return ("" if target.is_archive else target.kafka.cluster.name, target.destination_topic)


def _preload(config: Configuration) -> tuple[str, ...]:
    """Returns what workers load before their first lease."""
    destinations = [destination for mirror in config.enabled_mirrors for destination in mirror.destinations]
    of_kinds = {module: None for each in destinations for module in kind_of(each).preload(each)}
    return (*PRELOAD, *of_kinds)
