"""A running service: the one object that takes commands and answers questions.

Signals, the listener and, for ``run``, the command line are doors to it. Commands and questions may come from any
thread, at any moment between its making and its end. A command that is repeated changes nothing more.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence

import structlog

from mirrorlake.config.resolved import Configuration, Form
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import CommandRefusedError, MirrorlakeError, StartStoppedError
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.pulse import EnginePulse
from mirrorlake.pipeline.signals import StopSignal
from mirrorlake.service.commands import Done, check_exists, done
from mirrorlake.service.control_loop import ControlLoop
from mirrorlake.service.lifecycle.discovery import Discovery
from mirrorlake.service.lifecycle.endings import EXIT_DONE, EXIT_FAILED, served_elsewhere
from mirrorlake.service.lifecycle.loop import ServiceLoop
from mirrorlake.service.lifecycle.partition_starts import PartitionStarts
from mirrorlake.service.lifecycle.parts import RunOptions, build_parts, session_settings_of, supervisor_of
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.plan.planning import Plan, read_whole_plan
from mirrorlake.service.selection import Pauses, Selection
from mirrorlake.service.sight import live
from mirrorlake.service.sight.health import Part, Verdict, readiness
from mirrorlake.service.sight.routes import open_listener
from mirrorlake.service.sight.served import served_by
from mirrorlake.service.supervisor import Supervisor
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")


class Service:
    """One run of one configuration.

    Args:
        config: what to run.
        options: what the command line adds, the engine among it.
        reread: reads the configuration again, for `reload`; None where it cannot be read again.
    """

    def __init__(
        self, config: Configuration, options: RunOptions, *, reread: Callable[[], Configuration] | None = None
    ) -> None:
        self._parts = build_parts(config, options)
        self._reread = reread
        self._starts: PartitionStarts | None = None
        self._supervisor: Supervisor | None = None
        self._loop: ServiceLoop | None = None
        self.signals = StopSignal(self._asked_to_stop)

    # --- commands -----------------------------------------------------------------------------------------

    def pause(self, selection: Selection) -> Done:
        """Lets no further lease of a selection begin, until it is resumed or the process ends; recalls those under way.

        It holds for partitions found later too. The mirrors stay this process's own.

        Raises:
            CommandRefusedError: nothing has that name.
        """
        self._check(selection)
        changed = self._parts.table.set_paused(selection, is_paused=True)
        selected = self._parts.table.selected(selection)
        if self._supervisor is not None:
            self._supervisor.recall(selected)
        self._say("paused", selection, changed)
        return done(changed, selected, ending=[state for state in selected if state.is_leased])

    def resume(self, selection: Selection) -> Done:
        """Ends the pause of a selection; its copies are compared with their sources first, as at a start.

        Raises:
            CommandRefusedError: nothing has that name.
        """
        self._check(selection)
        changed = self._parts.table.set_paused(selection, is_paused=False)
        self._say("resumed", selection, changed)
        return done(changed, self._parts.table.selected(selection))

    def restart(self, selection: Selection) -> Done:
        """Looks again at the parked and failing partitions of a selection; all others continue.

        Partitions that the look finds healthy begin as at a start. Returns before the look.

        Raises:
            CommandRefusedError: nothing has that name.
        """
        self._check(selection)
        changed = self._parts.table.ask_restart(selection)
        if changed:
            self.look_now()
        self._say("to begin anew", selection, changed)
        return done(changed, self._parts.table.selected(selection))

    def look_now(self) -> None:
        """Looks at once for new topics and partitions, and at the tails of archives; returns before it is done."""
        if self._loop is not None:
            self._loop.look_now()

    def reload(self) -> list[str]:
        """Reads the configuration again and takes it, as a whole or not at all; returns the settings that changed.

        Raises:
            ConfigurationErrors: it cannot be used.
            CommandRefusedError: something changed that needs a restart; the message names it.
        """
        if self._reread is None:
            raise CommandRefusedError("this service was not started from a file that could be read again")
        changed = self._parts.current.take(self._reread())
        self._parts.pulse.stops_within(self._parts.config.engine.stop_seconds)
        if self._loop is not None:
            self._loop.reloaded()
        _log.info("configuration read again", config=self._parts.config.file, changed=", ".join(changed) or "nothing")
        return changed

    def stop(self, reason: str = "a command") -> None:
        """Asks for the graceful end, as the first SIGTERM does; returns at once."""
        self.signals.request(reason)

    def _check(self, selection: Selection) -> None:
        mirrors = [mirror.name for mirror in self._parts.config.enabled_mirrors]
        check_exists(selection, mirrors=mirrors, states=self._parts.table.states)

    def _say(self, what: str, selection: Selection, changed: Sequence[PartitionState]) -> None:
        _log.info(f"partitions {what}", which=str(selection), partitions=len(changed))

    def _asked_to_stop(self, name: str) -> None:
        # mirror-v3's words, which its users' tools may look for.
        _log.info(f"received {name}; requesting graceful shutdown", signal=name)
        self._parts.wake.set()

    # --- questions ----------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        """Returns how every partition stands, and the schedules of archives, as the listener tells it."""
        return live.partitions_json(
            self._parts.table.states,
            now_seconds=self._parts.clock.elapsed_seconds(),
            keeping=self._parts.keeping.rows(),
            stale=self._parts.staleness.message_of,
            mirrors=served_by(self._parts.config),
        )

    @property
    def pauses(self) -> Pauses:
        """What is paused, those included that are found later."""
        return self._parts.table.pauses

    def health(self) -> Verdict:
        """Returns whether everything that should move does."""
        overdue_seconds = self._supervisor.lease_overdue_seconds if self._supervisor else 0.0
        return self._parts.pulse.verdict(lease_overdue_seconds=overdue_seconds)

    def readiness(self) -> Verdict:
        """Returns whether every source and destination was looked at, and not everything is parked."""
        return readiness(
            self._parts.pulse.phase,
            self._parts.table.states,
            self._starts.waiting if self._starts else (),
            sources={name: source.name for name, source in self._parts.sources.items()},
            now_seconds=self._parts.clock.elapsed_seconds(),
        )

    async def plan(self) -> Plan:
        """Returns what would be done if the service began now, read from clusters and stores; changes nothing."""
        return await read_whole_plan(self._parts.config)

    # --- its life -----------------------------------------------------------------------------------------

    def run(self) -> int:
        """Runs to the end, in the thread that calls it; returns the exit code. Once.

        Order of effects: the listener listens, the engine starts while the clusters are asked, then everything of
        `PartitionStarts`, then lanes begin. At the end everything of `ServiceLoop`, then the engine stops.

        Raises:
            ConfigurationError: the metrics address of a service is taken.
            JavaUnusableError: Spark cannot start.
        """
        try:
            return self._run()
        except StartStoppedError as error:
            _log.info("stopped before anything was begun", why=error.message)
            return EXIT_FAILED if self._parts.options.once else EXIT_DONE

    def _run(self) -> int:
        config, options = self._parts.config, self._parts.options
        _log.info(
            "starting mirror-v3" if config.form is Form.MIRROR_V3 else "starting mirrorlake",
            config=config.file,
            mirrors=len(config.enabled_mirrors),
            destination=", ".join(config.destination_types),
        )
        listener = open_listener(self, self._parts.metrics, config, once=options.once)
        try:
            with ControlLoop() as control:
                found = control.start(self._look())
                session = self._start_engine()
                try:
                    # While the clusters are asked: the first lease of a session is a slow one. Should it fail, the
                    # lanes find out for themselves, and know what to do.
                    with contextlib.suppress(MirrorlakeError):
                        session.warm_up()
                    targets, living = found.result()
                    if living:
                        return served_elsewhere(living)
                    return self._serve(targets, session, control)
                finally:
                    control.call(self._parts.clients.close(), timeout_seconds=10.0)
                    session.stop()
        finally:
            if listener is not None:
                listener.close()

    def _start_engine(self) -> Engine:
        parts, began = self._parts, self._parts.clock.elapsed_seconds()
        # It takes seconds, on a busy machine many, in which nothing else is said.
        _log.info("starting Spark")
        session = parts.options.engine(session_settings_of(parts.config, is_stopping=self.signals.requested.is_set))
        _log.info("Spark has started", seconds=round(parts.clock.elapsed_seconds() - began, 1))
        return session

    async def _look(self) -> tuple[list[Target], Mapping[str, Sequence[OwnerState]]]:
        """Returns the targets, and who else serves their mirrors, by cluster, where that must not be taken over."""
        parts = self._parts
        targets = await find_targets(parts.config, parts.clients)
        asks = parts.options.once and not parts.options.takes_over
        return targets, await parts.owners.find_living(targets) if asks else {}

    def _serve(self, targets: Sequence[Target], session: Engine, control: ControlLoop) -> int:
        parts = self._parts
        starts, supervisor = PartitionStarts(parts, control), supervisor_of(parts, session.lease_files)
        discovery = Discovery(parts, control, starts, supervisor)
        discovery.begin(targets)
        parts.metrics.looked()
        loop = ServiceLoop(
            parts,
            starts=starts,
            discovery=discovery,
            supervisor=supervisor,
            session=session,
            control=control,
            stop=self.signals,
        )
        self._starts, self._supervisor, self._loop = starts, supervisor, loop
        with EnginePulse(session.answers, lambda: parts.pulse.moved(Part.ENGINE)):
            return loop.serve()
