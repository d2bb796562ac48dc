"""Reads the sources' ends again and again: what is due, what lags, what a bounded run stops at."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

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


class SourceLooks:
    """When a source is to be asked next: less often while nothing of it moves.

    Args:
        apart_seconds: the shortest time between two looks.
    """

    def __init__(self, apart_seconds: float) -> None:
        self._apart_seconds = apart_seconds
        self._ends: Mapping[TopicPartition, Bounds] = {}
        self._moved_seconds = 0.0
        self._due_seconds = 0.0

    def is_due(self, now_seconds: float) -> bool:
        """Returns whether it is time; if so, the next time is not before a while."""
        if now_seconds < self._due_seconds:
            return False
        is_quiet = bool(self._ends) and now_seconds - self._moved_seconds >= QUIET_SECONDS
        self._due_seconds = now_seconds + max(self._apart_seconds, QUIET_LOOKS_APART_SECONDS if is_quiet else 0.0)
        return True

    def saw(self, ends: Mapping[TopicPartition, Bounds], now_seconds: float) -> None:
        """Takes what a look has found."""
        if ends != self._ends:
            self._ends, self._moved_seconds = ends, now_seconds


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
    failing: set[str] = set()
    looking: dict[str, asyncio.Task[None]] = {}
    looks: dict[str, SourceLooks] = {}
    try:
        while True:
            turned()
            for source, partitions in _by_source(table).values():
                mine = looks.setdefault(source.name, SourceLooks(source.looks_apart_seconds))
                is_free = source.name not in looking or looking[source.name].done()
                if is_free and mine.is_due(asyncio.get_running_loop().time()):
                    look = _observe_source(table, clients, source, partitions, failing, changed, mine)
                    looking[source.name] = asyncio.create_task(look)
            await asyncio.sleep(OBSERVE_SECONDS)
    finally:
        for task in looking.values():
            task.cancel()


async def observe_once(table: StateTable, clients: WorkerCache, *, timeout_seconds: float) -> None:
    """Tells the table the ends of every source as they are now; those that do not answer in time are left out."""
    looks = [
        asyncio.create_task(_observe_source(table, clients, source, partitions, set(), _nobody_waits))
        for source, partitions in _by_source(table).values()
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
    for source, partitions in _by_source(table).values():
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
    source_work: SourceWork,
    partitions: Sequence[TopicPartition],
    failing: set[str],
    changed: Callable[[], None],
    looks: SourceLooks | None = None,
) -> None:
    name, source = source_work.name, source_work.client(clients)
    try:
        found = await source.bounds(partitions)
    except MirrorlakeError as error:
        found = dict.fromkeys(partitions, error)
    ends = {partition: each for partition, each in found.items() if isinstance(each, Bounds)}
    errors = {partition: each for partition, each in found.items() if isinstance(each, MirrorlakeError)}
    if looks is not None:
        looks.saw(ends, asyncio.get_running_loop().time())
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
    if errors and name not in failing:
        failing.add(name)
        _log.warning("source cannot be read", cluster=name, error=str(next(iter(errors.values()))))
    elif not errors and name in failing:
        failing.discard(name)
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


def _by_source(table: StateTable) -> dict[str, tuple[SourceWork, Sequence[TopicPartition]]]:
    """Returns each source with the partitions to ask it for; several mirrors of one source ask once."""
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    sources: dict[str, SourceWork] = {}
    for state in table.states:
        if not (state.is_parked or state.has_ended):
            source = table.sources[state.mirror]
            sources[source.name] = source
            groups[source.name].add(state.source)
    return {name: (sources[name], sorted(partitions)) for name, partitions in groups.items()}
