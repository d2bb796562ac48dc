"""Looks at the last segment of every archived partition while the service runs, busy or idle.

One short listing each, from the segment known on, in a thread of its own: leases do not wait for it. What somebody
deleted, altered or added is said within the time between two looks, not at the next flush, which may be a day away.
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

    def _begin(self) -> None:
        # The chains were checked a moment ago, at the start.
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
        if state.archived is None or work is None or state.is_parked or state.is_paused:
            return
        try:
            tail = look_at_tail(state.archived, state.tail, work)
        except PermanentError as error:
            self._table.drifted(state, error)
        except MirrorlakeError as error:
            # The store's trouble: whoever has something to write says so, and goes on when it is over.
            _log.debug("tail could not be read", path=state.archived.prefix, error=str(error))
        else:
            if tail is not None:
                self._table.tail_seen(state, tail)
