"""How the copies of mirrors between clusters stand: whether each has all that its source has, and what it lacks.

Where a source cannot be asked, its copy is looked at alone (`without_source.py`): what the source had beyond it is not
known then, and is not called nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.clock import utc_text
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.errors import ConfigurationError, DestinationForeignError, TopicMissingError, TransientError
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.service.status import StatusRow
from mirrorlake.topics.targets import UNKNOWN_PARTITION


class CopyState(StrEnum):
    """How a copy stands."""

    COMPLETE = "complete"
    """All that the source holds is there."""
    BEHIND = "behind"
    """The source holds more, and can be read."""
    SOURCE_GONE = "source-gone"
    """The source cannot be asked: what it held beyond the copy cannot be had, nor how much that is."""
    WRITTEN_TO = "written-to"
    """Other producers have written behind the source's end since, as they do after a failover; where what was copied
    ends is not known any more."""
    PARKED = "parked"
    """The copy is not to be trusted, or cannot go on."""
    UNKNOWN = "unknown"
    """The copy, or where it ends, could not be read."""


class Life(StrEnum):
    """Whether the owner of a mirror that was not given back is alive."""

    ANSWERS = "answers"
    SILENT = "silent"
    UNKNOWN = "unknown"
    """It was not asked, or nobody may ask it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One source partition at one Kafka destination; offsets are the source's.

    ``newest_ms`` is the time of the newest batch of the copy in Unix milliseconds, None where it holds none or was not
    looked at. ``is_others`` is True where others are seen to have written the newest records of a copy with equal
    offsets, None where that could not be looked at: the log may end behind what was copied then. ``life`` is that of
    the owner, where there is one.
    """

    row: StatusRow
    state: CopyState
    newest_ms: int | None = None
    is_others: bool | None = False
    life: Life = Life.UNKNOWN

    @property
    def missing(self) -> int | None:
        """Offsets of the source that are not there; None where that is not known."""
        return self.row.lag if self.state in (CopyState.COMPLETE, CopyState.BEHIND) else None

    @property
    def copied(self) -> int | None:
        """The offset of the source up to which the copy has its records; None where that is not known."""
        return self.row.position if self.is_others is False or self.row.target.is_mapped else None

    @property
    def to_end(self) -> int | None:
        """The offset behind the last record of the copy, at the destination; None where that is not known.

        With mapped offsets that is where a mirror in the other direction begins: it stays where it is, whoever writes
        behind it. 0 where nothing was copied.
        """
        mapped = self.row.mapped
        if mapped is None:
            return None if self.row.target.is_mapped else self.copied
        return 0 if mapped.progress is None else mapped.progress.destination_end

    @property
    def to_partition(self) -> int:
        """The partition of the destination topic that the copy lies in."""
        mapped = self.row.mapped
        return self.row.target.destination_partition.partition if mapped is None else mapped.destination_partition

    @property
    def owner(self) -> str:
        """Who has taken the mirror and has not let go of it; empty where nobody has."""
        state = self.row.target.owner
        return "" if state is None or state.is_released else state.owner

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of ``failover --format json``; ``error`` is there where something stands against the copy."""
        target = self.row.target
        found: dict[str, str | int | None] = {
            **target.as_json(),
            "to": target.destination_topic or None,
            "to_partition": self.to_partition if self.to_end is not None else None,
            "source_end": self.row.source_end,
            "copied": self.copied,
            "to_end": self.to_end,
            "missing": self.missing,
            "newest": None if self.newest_ms is None else utc_text(self.newest_ms),
            "state": self.state.value,
        }
        if self.owner:
            found["owner"] = self.owner
        if self.row.error is not None and self.state is not CopyState.WRITTEN_TO:
            found["error"] = str(self.row.error)
        return found


def copy_row(row: StatusRow) -> CopyRow:
    """Returns how a copy stands whose source was asked. Pure."""
    error = row.error
    if _is_written_to(row):
        state = CopyState.WRITTEN_TO
    elif error is not None:
        state = CopyState.PARKED if between_leases(error) is Decision.PARK else CopyState.UNKNOWN
    elif row.lag is None:
        state = CopyState.UNKNOWN
    else:
        state = CopyState.BEHIND if row.lag > 0 else CopyState.COMPLETE
    return CopyRow(row=row, state=state, is_others=state is CopyState.WRITTEN_TO)


def _is_written_to(row: StatusRow) -> bool:
    """Tells whether somebody else is seen to have written behind the source's end, to what is known as the copy.

    Not while somebody has the mirror, who would be disturbed by it. A copy that is merely ahead may be whole: its
    source may have lost records. One whose records differ below the source's end has diverged from it.
    """
    target, state = row.target, row.target.owner
    if target.is_mapped or type(row.error) is not DestinationForeignError:  # none of those that say more than that
        return False
    if row.position is None or row.source_end is None or row.position <= row.source_end:
        return False
    if state is None or not target.is_begun or not (state.is_released or not state.owner):
        return False
    return target.source.partition not in state.found_filled.get(target.destination_topic, ())


def is_source_gone(row: StatusRow) -> bool:
    """Tells whether a row stands for all of a topic whose source could not be asked, or has it no more."""
    if row.target.source.partition != UNKNOWN_PARTITION:
        return False
    return isinstance(row.error, TransientError | TopicMissingError)


def between_clusters(config: Configuration, mirrors: Sequence[str]) -> Configuration:
    """Returns the configuration with those of its enabled mirrors alone that copy from one cluster to another.

    Of mirrors with other destinations beside, those are left out: nobody fails over to an archive.

    Args:
        config: all of the file.
        mirrors: names that are meant; empty for all. They are there and enabled.

    Raises:
        ConfigurationError: none is left.
    """
    chosen = []
    for mirror in config.enabled_mirrors:
        clusters = mirror.kafka_destinations
        if isinstance(mirror.source, KafkaSource) and clusters and (not mirrors or mirror.name in mirrors):
            chosen.append(replace(mirror, destinations=clusters))
    if not chosen:
        raise ConfigurationError(
            f"no mirror of {config.file} that is meant copies from one cluster to another",
            hint="an archive is brought back by `mirrorlake restore`",
        )
    return with_mirrors(config, chosen)


def with_mirrors(config: Configuration, mirrors: Sequence[Mirror]) -> Configuration:
    """Returns the configuration with these mirrors in place of its own."""
    return replace(config, mirrors=tuple(mirrors))
