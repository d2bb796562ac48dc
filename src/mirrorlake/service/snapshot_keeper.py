"""Removes snapshots that newer ones have followed while the service runs, in a thread of its own: no lease waits."""

import structlog

from mirrorlake.archive.snapshots.followed import remove_followed
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError, PermanentError
from mirrorlake.repeated import RepeatedInThread
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.state_table import StateTable

_log = structlog.get_logger("mirrorlake")


class SnapshotKeeper(RepeatedInThread):
    """Looks at the snapshots of each partition every ``seconds``, in a thread. Use as a context manager.

    Args:
        table: knows the partitions.
        seconds: between two looks.
        clock: tells how old snapshots are.
    """

    def __init__(self, table: StateTable, *, seconds: float, clock: Clock) -> None:
        super().__init__("snapshot-keeper", seconds=seconds)
        self._table = table
        self._clock = clock

    def _round(self) -> None:
        self.look_at_all()

    def look_at_all(self) -> None:
        """Looks at every partition's snapshots once."""
        for state in self._table.states:
            if self._is_over.is_set():
                return
            self._look(state)

    def _look(self, state: PartitionState) -> None:
        folder, work = state.archived, state.archive_work
        if not isinstance(folder, SnapshotPartition) or work is None or state.is_parked or state.is_paused:
            return
        kept = work.settings.snapshots_kept
        if kept is None:
            return
        try:
            removed = remove_followed(
                folder, kept=kept, origin=work.settings.origin, now_seconds=self._clock.now_seconds()
            )
        except PermanentError as error:
            self._table.drifted(state, error)
            return
        except MirrorlakeError as error:
            _log.warning("old snapshots could not be removed", path=folder.prefix, error=str(error))
            return
        except Exception:  # noqa: BLE001  One partition's trouble, whatever it is, keeps no other from being looked at.
            _log.exception("old snapshots could not be removed", path=folder.prefix)
            return
        if removed:
            _log.info(
                "old snapshots removed",
                path=folder.prefix,
                snapshots=len(removed),
                first=str(removed[0].name),
                last=str(removed[-1].name),
            )
