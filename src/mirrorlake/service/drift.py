"""Looks at the last segment of every archived partition while the service runs, busy or idle.

One short listing each, in a thread of its own: leases do not wait for it. What somebody deleted, altered or added is
said within the time between two looks, not at the next flush, which may be a day away.

A look begins at the segment that the look before has seen last, not at the newest one known: under load many have
followed since, and the one that was deleted between two of them is behind the newest.
"""

import structlog

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.newest import check_newest, read_newest
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.errors import MirrorlakeError, PermanentError
from mirrorlake.repeated import RepeatedInThread
from mirrorlake.service.archive_markers import ArchiveMarkers
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.state_table import StateTable
from mirrorlake.stores.settings import StoreSettings

_log = structlog.get_logger("mirrorlake")


def look_at_tail(archived: PartitionFolder, known: Segment | None, work: ArchiveWork) -> Segment | None:
    """Returns the last segment now, after checking that the one known stands and that this mirror's have followed it.

    Any process of this mirror may have written what followed; only who wrote for this source is asked.

    Raises:
        ChainBrokenError: the known segment is gone or altered, what follows it is broken, or is not mirrorlake's.
        OtherSourceError, TopicRecreatedError: what follows was written from another source.
        MirrorlakeError: the store could not be read.
    """
    tail = (archived.find_end() if known is None else archived.read_end(known)).tail
    if tail is None or tail == known:
        return tail
    settings = work.settings
    check_newest(
        archived,
        tail,
        read_newest(archived, tail),
        origin=settings.origin,
        is_snapshot=settings.snapshots is not None,
        known=known,
    )
    return tail


def look_from(
    seen: Segment | None, archived: PartitionFolder, known: Segment | None, work: ArchiveWork
) -> Segment | None:
    """Returns the last segment now, after checking all that has followed ``seen``, the last one an earlier look saw.

    Args:
        seen: None where the archive was empty then; without effect where it was set back since.
        archived: where to look.
        known: the last segment, as leases tell.
        work: whose archive it is.

    Raises:
        MirrorlakeError: see `look_at_tail`.
    """
    if known is not None and (seen is None or seen.name.end_offset < known.name.end_offset):
        tail = look_at_tail(archived, seen, work)
        if tail is not None and tail.name.end_offset >= known.name.end_offset:
            return tail
        # The chain is whole and ends too early: what was the newest is gone, and that look says so.
    return look_at_tail(archived, known, work)


class DriftWatch(RepeatedInThread):
    """Looks at each archived partition every ``seconds``, in a thread. Use as a context manager.

    Args:
        table: knows the partitions, and is told what was found.
        markers: knows which archives the roots hold, and records what was found.
        seconds: between two looks at a partition; more where a round takes longer.
    """

    def __init__(self, table: StateTable, markers: ArchiveMarkers, *, seconds: float) -> None:
        super().__init__("drift-watch", seconds=seconds)
        self._table = table
        self._is_hurried = False
        self._markers = markers
        self._seen: dict[tuple[StoreSettings, str], Segment | None] = {}

    def _begin(self) -> None:
        # The chains were checked a moment ago, at the start: what follows is looked at.
        for state in self._table.states:
            if state.archived is not None and (work := state.archive_work) is not None:
                self._seen[work.store, state.archived.prefix] = state.tail
        self._markers.update()

    def look_now(self) -> None:
        """Begins a round at once, which takes no longer than it must; another one where one is under way."""
        self._is_hurried = True
        super().look_now()

    def _round(self) -> None:
        """Looks at every root and partition once, the looks spread over half of the time between two rounds."""
        was_hurried, self._is_hurried = self._is_hurried, False
        # What is paused is left alone: somebody may be at work on it, and its next lease looks before it writes.
        states = [state for state in self._table.states if state.archived is not None and not state.is_paused]
        gone = self._markers.gone_roots()
        for state in states:
            if (work := state.archive_work) is not None and (error := gone.get(work.store)):
                self._table.drifted(state, error)
        for state in states:
            if self._is_over.is_set():
                return
            self._look(state)
            is_hurried = was_hurried or self._is_hurried
            self._is_over.wait(0.0 if is_hurried else self._seconds / 2 / len(states))
        self._markers.update()

    def _look(self, state: PartitionState) -> None:
        work = state.archive_work
        if state.archived is None or work is None:
            return
        place = work.store, state.archived.prefix
        if state.is_parked or state.is_paused:
            self._seen.pop(place, None)  # whoever mends it may take segments away
            return
        try:
            tail = look_from(self._seen.setdefault(place, state.tail), state.archived, state.tail, work)
        except PermanentError as error:
            self._table.drifted(state, error)
        except MirrorlakeError as error:
            # The store's trouble: whoever has something to write says so, and goes on when it is over.
            _log.debug("tail could not be read", path=state.archived.prefix, error=str(error))
        except Exception:  # noqa: BLE001  One partition's trouble, whatever it is, keeps no other from being looked at.
            _log.exception("tail could not be read", path=state.archived.prefix)
        else:
            if tail is not None:
                self._seen[place] = tail
                self._table.tail_seen(state, tail)
