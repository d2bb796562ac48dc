"""Reads the sources' ends again and again: what is due, what lags, what a bounded run stops at."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.state_table import StateTable
from mirrorlake.sources.client import Bounds, SourceClient, concerns
from mirrorlake.sources.source import SourceWork

_log = structlog.get_logger("mirrorlake")

OBSERVE_SECONDS = 0.5
"""How often the ends are read; one request per source broker and kind, whatever the number of partitions."""

QUIET_SECONDS = 5.0
"""A source whose ends have not moved for so long is asked half as often."""

QUIET_LOOKS_APART_SECONDS = 1.0

RESTING_LOOKS_APART_SECONDS = 5.0
"""How often partitions are asked about that rest (`PartitionState.is_at_rest`). What they gain is copied at once, as
leases read of them; for so long it may not be seen that nobody copies it. A third of `SOURCE_UNSEEN_SECONDS`."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """A source, and the partitions to ask it for: several mirrors of one source ask once.

    ``awake`` are those of which a copy does not rest.
    """

    source: SourceWork
    everything: set[TopicPartition] = field(default_factory=set)
    awake: set[TopicPartition] = field(default_factory=set)


class SourceLooks:
    """When a source is to be asked next, and about what: less often while nothing of it moves.

    Args:
        apart_seconds: the shortest time between two looks.
    """

    def __init__(self, apart_seconds: float) -> None:
        self._apart_seconds = apart_seconds
        self._ends: dict[TopicPartition, Bounds] = {}
        self._moved_seconds = 0.0
        self._due_seconds = 0.0
        self._all_due_seconds = 0.0
        self._connections_made: int | None = None

    def is_time(self, now_seconds: float) -> bool:
        """Returns whether it may be time to ask about anything."""
        return now_seconds >= self._due_seconds

    def due(self, asked: Asked, now_seconds: float) -> Sequence[TopicPartition]:
        """Returns the partitions it is time to ask about, in order; if it is, the next time is not before a while.

        Those that rest come with all others only, every `RESTING_LOOKS_APART_SECONDS`.
        """
        if not self.is_time(now_seconds):
            return ()
        is_all = now_seconds >= self._all_due_seconds
        partitions = asked.everything if is_all else asked.awake
        is_quiet = not partitions or (bool(self._ends) and now_seconds - self._moved_seconds >= QUIET_SECONDS)
        self._due_seconds = now_seconds + max(self._apart_seconds, QUIET_LOOKS_APART_SECONDS if is_quiet else 0.0)
        if is_all:
            self._all_due_seconds = now_seconds + RESTING_LOOKS_APART_SECONDS
            self._ends = {partition: end for partition, end in self._ends.items() if partition in partitions}
        return sorted(partitions)

    def is_reconnected(self, connections_made: int) -> bool:
        """Returns whether the source was connected to anew since the last look; takes how often it was by now."""
        before, self._connections_made = self._connections_made, connections_made
        return before is not None and before != connections_made

    def saw(self, ends: Mapping[TopicPartition, Bounds], now_seconds: float) -> None:
        """Takes what a look has found."""
        if any(self._ends.get(partition) != end for partition, end in ends.items()):
            self._ends |= ends
            self._moved_seconds = now_seconds


def _nobody_waits() -> None:
    """Tells nobody."""


async def observe(
    table: StateTable,
    clients: WorkerCache,
    *,
    changed: Callable[[], None],
    turned: Callable[[], None] = _nobody_waits,
) -> None:
    """Tells the table the ends of every source, until cancelled; a source that does not answer delays no other.

    Args:
        table: is told.
        clients: of the source clusters.
        changed: called when ends were told.
        turned: called at every turn, whether a source answers or not.
    """
    failing: dict[str, set[TopicPartition]] = {}
    looking: dict[str, asyncio.Task[None]] = {}
    looks: dict[str, SourceLooks] = {}
    try:
        while True:
            turned()
            now = asyncio.get_running_loop().time()
            waiting = [name for name in looks if name in looking and not looking[name].done()]
            known = {source.name for source in table.sources.values()}
            may_be_due = any(each.is_time(now) for name, each in looks.items() if name not in waiting)
            for name, asked in _by_source(table).items() if may_be_due or not known <= looks.keys() else ():
                mine = looks.setdefault(name, SourceLooks(asked.source.looks_apart_seconds))
                if name not in waiting and (partitions := mine.due(asked, now)):
                    failed = failing.setdefault(name, set())
                    look = _observe_source(table, clients, asked, partitions, failed, changed, mine)
                    looking[name] = asyncio.create_task(look)
            await asyncio.sleep(OBSERVE_SECONDS)
    finally:
        for task in looking.values():
            task.cancel()


async def observe_once(table: StateTable, clients: WorkerCache, *, timeout_seconds: float) -> None:
    """Tells the table the ends of every source as they are now; those that do not answer in time are left out."""
    looks = [
        asyncio.create_task(_observe_source(table, clients, asked, sorted(asked.everything), set(), _nobody_waits))
        for asked in _by_source(table).values()
    ]
    if looks:
        _, late = await asyncio.wait(looks, timeout=timeout_seconds)
        for task in late:
            task.cancel()


async def find_missing(table: StateTable, clients: WorkerCache) -> dict[TopicPartition, MirrorlakeError]:
    """Returns of which partitions the sources hold more, once something that is missing is there again, and what.

    A source that cannot be asked says of all its partitions why.
    """
    found: dict[TopicPartition, MirrorlakeError] = {}
    for asked in _by_source(table).values():
        source, partitions = asked.source, sorted(asked.everything)
        try:
            missing = await source.client(clients).missing(partitions)
        except MirrorlakeError as error:
            found |= dict.fromkeys(partitions, error)
            continue
        found |= {
            state.source: missing[state.source]
            for state in table.states
            if table.sources[state.mirror].name == source.name
            and state.source in missing
            and concerns(missing[state.source], state.position, state.source_end)
        }
    return found


async def _observe_source(
    table: StateTable,
    clients: WorkerCache,
    asked: Asked,
    partitions: Sequence[TopicPartition],
    failing: set[TopicPartition],
    changed: Callable[[], None],
    looks: SourceLooks | None = None,
) -> None:
    name, source = asked.source.name, asked.source.client(clients)
    try:
        found = await source.bounds(partitions)
    except MirrorlakeError as error:
        found = dict.fromkeys(partitions, error)
    ends = {partition: each for partition, each in found.items() if isinstance(each, Bounds)}
    errors = {partition: each for partition, each in found.items() if isinstance(each, MirrorlakeError)}
    if looks is not None:
        looks.saw(ends, asyncio.get_running_loop().time())
        if looks.is_reconnected(source.connections_made):
            # What answers now may have been put back from a backup, under the identity and in the epochs it had.
            table.doubt_source(name, asked.everything)
    past = table.past_the_end(name, ends)
    missing: Mapping[TopicPartition, MirrorlakeError] = {}
    if past:
        try:
            missing = await source.missing(past)
        except MirrorlakeError as error:
            errors |= dict.fromkeys(past, error)
            missing = dict.fromkeys(past, error)  # nothing is concluded from an end that cannot be explained
    table.observed(name, ends, missing)
    table.unseen(name, {partition: error for partition, error in errors.items() if partition not in ends})
    errors |= await _answer_times(table, name, source, ends)
    await _answer_ends(table, name, source)
    changed()
    was_failing = bool(failing)
    # Of what was not asked about nothing is learned: what failed of it still does, as long as anybody wants it.
    failing.difference_update(partitions)
    failing.intersection_update(asked.everything)
    failing.update(errors)
    if failing and not was_failing:
        _log.warning("source cannot be read", cluster=name, error=str(next(iter(errors.values()))))
    elif was_failing and not failing:
        _log.info("source can be read again", cluster=name)


async def _answer_ends(table: StateTable, name: str, source: SourceClient) -> None:
    """Asks where logs end that may have lost what was to be copied; what fails is asked again."""
    if asked := table.ends_to_ask(name):
        with contextlib.suppress(MirrorlakeError):
            table.log_ends(name, await source.written_ends(asked))


async def _answer_times(
    table: StateTable, name: str, source: SourceClient, ends: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, MirrorlakeError]:
    """Asks the source what archives want to know of it; returns what could not be answered."""
    errors: dict[TopicPartition, MirrorlakeError] = {}
    for time_ms, partitions in table.times_to_ask(name).items():
        known = [partition for partition in partitions if partition in ends]
        answers: Mapping[TopicPartition, int | MirrorlakeError | None]
        try:
            answers = await source.offsets_at(known, time_ms)
        except MirrorlakeError as error:
            answers = dict.fromkeys(known, error)
        offsets: dict[TopicPartition, int] = {}
        for partition, offset in answers.items():
            if isinstance(offset, MirrorlakeError):
                errors[partition] = offset
            else:
                # No record is that late: all that was there a moment ago is older.
                offsets[partition] = ends[partition].end if offset is None else offset
        table.answered(name, time_ms, offsets)
    return errors


def _by_source(table: StateTable) -> dict[str, Asked]:
    """Returns, by the names of sources, what to ask each of them."""
    found: dict[str, Asked] = {}
    of_mirror: dict[str, Asked] = {}
    now = table.now_seconds
    for state in table.states:
        if state.is_parked or state.has_ended:
            continue
        asked = of_mirror.get(state.mirror)
        if asked is None:
            source = table.sources[state.mirror]
            asked = of_mirror[state.mirror] = found.setdefault(source.name, Asked(source=source))
        asked.everything.add(state.source)
        if not state.is_at_rest(now):
            asked.awake.add(state.source)
    return found
