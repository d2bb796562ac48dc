"""The way back: the configuration in the other direction, and what stands against it. Pure.

A copy with equal offsets can go back in one way only: the old source must hold the beginning of what its copy holds
now, and nothing else. Where it holds records that were never copied, the two have diverged, and somebody must decide.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import (
    ConfigurationError,
    DestinationAheadError,
    DestinationForeignError,
    LoopError,
    MirrorlakeError,
    UnsupportedError,
)
from mirrorlake.kafka.control.descriptions import AppendState
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.service.failover.copies import with_mirrors
from mirrorlake.service.status import StatusRow
from mirrorlake.topics.clashes import BACK_SUFFIX


class WayBack(StrEnum):
    """What goes back of a partition."""

    EQUAL = "equal"
    """Both sides hold the same."""
    TO_COPY = "to-copy"
    """The old source holds the beginning of the copy, which has more."""
    DIVERGED = "undecided"
    """The old source holds records that the copy has not at those offsets."""
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackRow:
    """One partition on its way back; ``row`` is of the mirror in the other direction.

    ``divergence`` is the first offset at which the two sides differ, None where they do not or it was not looked for.
    """

    row: StatusRow
    way: WayBack
    divergence: int | None = None

    @property
    def to_copy(self) -> int | None:
        """Offsets that are to be copied back; None where nothing is, or it is not known."""
        return self.row.lag if self.way in (WayBack.EQUAL, WayBack.TO_COPY) else None

    @property
    def unreplicated(self) -> int | None:
        """Offsets from the divergence to the end of the old source; None without one."""
        if self.divergence is None or self.row.position is None:
            return None
        return self.row.position - self.divergence

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of ``failback --format json``; ``decide`` is there where somebody must."""
        target = self.row.target
        found: dict[str, str | int | None] = {
            **target.as_json(),
            "to": target.destination_topic or None,
            "source_end": self.row.source_end,
            "old_end": self.row.position,
            "to_copy": self.to_copy,
            "divergence": self.divergence,
            "unreplicated": self.unreplicated,
            "state": self.way.value,
        }
        if self.way is WayBack.DIVERGED:
            found["decide"] = self.decision
        elif self.row.error is not None:
            found["error"] = str(self.row.error)
        return found

    @property
    def decision(self) -> str:
        """What must be decided about a partition that has diverged, and how each way is taken."""
        target = self.row.target
        place = f"{target.destination_partition} of cluster {target.destination.label}"
        what = (
            f"{self.unreplicated} offset(s) of {place} from {self.divergence} on were never copied"
            if self.unreplicated is not None
            else f"{place} holds records that the copy has not"
        )
        return (
            f"{what}, and equal offsets leave no room for them: keep them elsewhere if they are needed (an archive, or "
            f"`mirrorlake sql`), then delete topic {target.destination_topic} there and run this again, which copies "
            f"it back whole"
        )


def check_turnable(mirror: Mirror, names: Collection[str]) -> None:
    """Checks that a mirror says by itself how its copy goes back.

    Args:
        mirror: it copies from cluster to cluster.
        names: of all mirrors of the file.

    Raises:
        ConfigurationError: it does not; the text says what to write instead.
    """
    if f"{mirror.name}{BACK_SUFFIX}" in names:
        raise ConfigurationError(
            f"the way back of mirror {mirror.name} would have the name of another mirror, {mirror.name}{BACK_SUFFIX}",
            hint="if that is the way back, run it; else give it another name",
        )
    if any(each.branch is not None for each in mirror.destinations):
        raise ConfigurationError(
            f"mirror {mirror.name} parts records among topics by a route, and gives them other offsets, so its copies "
            "do not say which records came from where",
            hint=_hint_of_mapped(mirror),
        )
    if len(mirror.destinations) > 1:
        labels = ", ".join(each.label for each in mirror.destinations)
        raise ConfigurationError(
            f"mirror {mirror.name} copies to {labels}: from which of them to go back is not known",
            hint="name it: --from CLUSTER",
        )
    destination = mirror.destinations[0]
    assert isinstance(destination, KafkaDestination)
    if destination.offsets is OffsetMode.MAP:
        raise ConfigurationError(
            f"mirror {mirror.name} gives records other offsets, so its copy does not say which records came from where",
            hint=_hint_of_mapped(mirror),
        )
    if mirror.schemas is not None:
        raise ConfigurationError(
            f"mirror {mirror.name} takes schemas along, and which way its registries go back is not for it to say",
            hint=_hint_of_equal(mirror),
        )
    if destination.topic_template != "{topic}":
        raise ConfigurationError(
            f"mirror {mirror.name} renames topics (`topic: {destination.topic_template}`), and the way back would have "
            "to undo that",
            hint=_hint_of_equal(mirror),
        )


def _hint_of_mapped(mirror: Mirror) -> str:
    """Returns how a copy with other offsets goes back: from an offset of its own, of which the source's say nothing.

    Where they began behind something else, records that came from the old source would go back to it once more.
    """
    schemas = ", and `schemas` with `from` and `to` exchanged" if mirror.schemas is not None else ""
    renames = any(
        isinstance(each, KafkaDestination) and (each.branch is not None or each.topic_template != "{topic}")
        for each in mirror.destinations
    )
    names = " for each topic, with `topic` as the name it had," if renames else ""
    return (
        f"write a mirror in the other direction{names} that begins behind what was copied: `offsets: map` and "
        "`start: {offsets: …}`, for each partition of the copy the highest `to_end` that "
        f"`mirrorlake failover plan` shows for it{schemas}; before mirror {mirror.name} is started again, move it past "
        "what came back (`mirrorlake offsets import`)"
    )


def _hint_of_equal(mirror: Mirror) -> str:
    """Returns how a copy with equal offsets goes back by hand: from where it ended when it was failed over to.

    The source's end now is another offset where anything was written there since: what the copy got would be missed.
    Not with equal offsets: the old source has producers of its own, which such a mirror refuses. For the same reason
    the mirror itself does not continue behind what others wrote to its copy.
    """
    schemas = ", `schemas` with `from` and `to` exchanged" if mirror.schemas is not None else ""
    return (
        "write a mirror in the other direction for each topic, with `topic` as the name it had, `offsets: map`"
        f"{schemas}, and `start: {{offsets: …}}`, for each partition the `to_end` that `mirrorlake failover run` "
        f"showed, before others wrote there; before mirror {mirror.name} is started again, delete its copies, which it "
        "then makes anew: others have written to them"
    )


def turned(mirror: Mirror, topics: Sequence[str]) -> Mirror:
    """Returns the mirror in the other direction.

    Args:
        mirror: one that is turnable (`check_turnable`).
        topics: of its destination, all that it selects. They are named, as an expression takes no copy back to where it
            was copied from.
    """
    source, destination = mirror.source, mirror.destinations[0]
    assert isinstance(source, KafkaSource)
    assert isinstance(destination, KafkaDestination)
    back = KafkaDestination(
        label=source.cluster.name,
        cluster=source.cluster,
        gap_fill=destination.gap_fill,
        gap_fill_offsets_max=destination.gap_fill_offsets_max,
        timestamp_mode=destination.timestamp_mode,
        creates_topics=destination.creates_topics,
        place=destination.place,
    )
    return replace(
        mirror,
        name=f"{mirror.name}{BACK_SUFFIX}",
        source=KafkaSource(
            cluster=destination.cluster, topics=TopicSelection(names=tuple(topics)), partitions=source.partitions
        ),
        destinations=(back,),
        heartbeats=None,
    )


def served(mirror: str, state: OwnerState | None) -> LoopError | None:
    """Returns why nothing goes back while the mirror itself is served; None where nobody has it.

    Args:
        mirror: the mirror whose copy is to go back.
        state: its state record at its destination.
    """
    if state is None or state.is_released or not state.owner:
        return None
    return LoopError(
        f"mirror {mirror} is served by {state.owner}, which would copy again what goes back",
        hint="end that process; where it died, `mirrorlake run --once` with this file lets go of the mirror",
    )


def misnamed(mirror: Mirror, state: OwnerState | None) -> Mapping[str, MirrorlakeError]:
    """Returns why topics at the destination do not go back under the names they have, by topic.

    A topic that was recreated at the source may have its copy beside that of the topic before (``on-recreate:
    new-topic``), whose records are no beginning of what the source holds.

    Args:
        mirror: one that is turnable (`check_turnable`).
        state: its state record at its destination.
    """
    found: dict[str, MirrorlakeError] = {}
    for topic, places in state.generations.items() if state is not None else ():
        names = sorted({topic, *places.values()})
        if names != [topic]:
            error = UnsupportedError(
                f"topic {topic} of cluster {mirror.source.name} was recreated, and mirror {mirror.name} has copied it "
                f"to {', '.join(names)}: which of them goes back to it is not for the names to say",
                hint=_hint_of_equal(mirror),
            )
            found.update(dict.fromkeys(names, error))
    return found


def from_one(config: Configuration, cluster: str) -> Configuration:
    """Returns the configuration with mirrors that have that destination, and no other of each.

    Raises:
        ConfigurationError: none has.
    """
    chosen = [
        replace(mirror, destinations=tuple(each for each in mirror.destinations if _is_at(each, cluster)))
        for mirror in config.enabled_mirrors
    ]
    left: Sequence[Mirror] = [mirror for mirror in chosen if mirror.destinations]
    if not left:
        raise ConfigurationError(f"no mirror that is meant copies to {cluster}", hint="see `destinations` of the file")
    return with_mirrors(config, left)


def _is_at(destination: Destination, cluster: str) -> bool:
    if isinstance(destination, KafkaDestination) and destination.branch is not None:
        return destination.cluster.name == cluster
    return destination.label == cluster


def has_diverged(error: MirrorlakeError | None) -> bool:
    """Tells whether an error of the mirror back may mean that the old source has records of its own."""
    return isinstance(error, DestinationForeignError | DestinationAheadError)


def is_accepted(row: StatusRow, first_difference: int | None, seen: AppendState) -> bool:
    """Tells whether a partition is refused for nothing but its writers, all of whose records are in the copy.

    Args:
        row: with the error that asked for the comparison.
        first_difference: the first offset at which what both hold differs; None where all of it is equal.
        seen: what the leader at the old source knew before that was compared.
    """
    if first_difference is not None or not isinstance(row.error, DestinationForeignError):
        return False
    if row.position is None or row.source_end is None or row.position > row.source_end:
        return False
    return seen.log_end.end_offset == row.position and bool(seen.producers)


def back_row(row: StatusRow) -> BackRow:
    """Returns a partition whose sides have not diverged, as far as is known."""
    if row.error is not None:
        is_permanent = between_leases(row.error) is Decision.PARK
        return BackRow(row=row, way=WayBack.REFUSED if is_permanent else WayBack.UNKNOWN)
    if row.lag is None:
        return BackRow(row=row, way=WayBack.UNKNOWN)
    return BackRow(row=row, way=WayBack.TO_COPY if row.lag else WayBack.EQUAL)


def comparable(row: StatusRow) -> StatusRow | None:
    """Returns a row that has an error so that all of what both sides hold is compared; None where that cannot be."""
    if row.position is None or row.source_end is None:
        return None
    return replace(row, error=None, position=min(row.position, row.source_end))


def diverged_row(row: StatusRow, first_difference: int | None) -> BackRow:
    """Returns a partition whose sides were compared record by record.

    Args:
        row: with the error that asked for it.
        first_difference: the first offset at which what both hold differs; None where all of it is equal.
    """
    assert row.position is not None
    assert row.source_end is not None
    if first_difference is not None:
        return BackRow(row=row, way=WayBack.DIVERGED, divergence=first_difference)
    if row.position > row.source_end:
        return BackRow(row=row, way=WayBack.DIVERGED, divergence=row.source_end)
    return back_row(row)
