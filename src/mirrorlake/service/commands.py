"""What commands of a running service mean: which names exist, and what was done. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.errors import CommandRefusedError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Selection
from mirrorlake.topics.targets import UNKNOWN_PARTITION

NAMED_MAX = 20
"""Names that one refusal lists."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionName:
    """One source partition at one destination; ``partition`` is None where a topic could not be asked for them."""

    mirror: str
    topic: str
    partition: int | None
    destination: str

    @staticmethod
    def of(state: PartitionState) -> "PartitionName":
        """Returns the name of a state."""
        source: TopicPartition = state.source
        return PartitionName(
            mirror=state.mirror,
            topic=source.topic,
            partition=None if source.partition == UNKNOWN_PARTITION else source.partition,
            destination=state.destination,
        )

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the name under the keys that ``status`` has."""
        return {
            "name": self.mirror,
            "topic": self.topic,
            "partition": self.partition,
            "destination": self.destination,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command about partitions did.

    ``changed`` are those that are otherwise now than before, ``unchanged`` the others it was about. Of ``ending``, some
    of these, a lease is under way and asked to end: their positions may move until then.
    """

    changed: tuple[PartitionName, ...]
    unchanged: tuple[PartitionName, ...] = ()
    ending: tuple[PartitionName, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Returns what was done, for a door that speaks JSON."""
        return {
            "changed": [name.as_json() for name in self.changed],
            "unchanged": [name.as_json() for name in self.unchanged],
            "ending": [name.as_json() for name in self.ending],
        }


def done(
    changed: Sequence[PartitionState], selected: Iterable[PartitionState], *, ending: Iterable[PartitionState] = ()
) -> Done:
    """Returns what was done to ``changed``, of all that was ``selected``."""
    is_changed = {id(state) for state in changed}
    return Done(
        changed=_names(changed),
        unchanged=_names(state for state in selected if id(state) not in is_changed),
        ending=_names(ending),
    )


def _names(states: Iterable[PartitionState]) -> tuple[PartitionName, ...]:
    return tuple(PartitionName.of(state) for state in states)


def check_exists(selection: Selection, *, mirrors: Sequence[str], states: Iterable[PartitionState]) -> None:
    """Checks that a command speaks of something that there is.

    Args:
        selection: what it speaks of.
        mirrors: names of the mirrors that run.
        states: of all partitions that are served.

    Raises:
        CommandRefusedError: it does not; the message names what there is.
    """
    if selection.mirror not in mirrors:
        raise _unknown("mirror", selection.mirror, mirrors)
    if selection.topic is None:
        return
    own = [state.source for state in states if state.mirror == selection.mirror]
    if selection.topic not in {source.topic for source in own}:
        where = f"topic of mirror {selection.mirror}"
        raise _unknown(where, selection.topic, sorted({source.topic for source in own}))
    numbers = sorted({source.partition for source in own if source.topic == selection.topic} - {UNKNOWN_PARTITION})
    if selection.partition is not None and selection.partition not in numbers:
        where = f"partition of topic {selection.topic} of mirror {selection.mirror}"
        raise _unknown(where, str(selection.partition), [str(number) for number in numbers])


def _unknown(kind: str, name: str, there_are: Sequence[str]) -> CommandRefusedError:
    more = len(there_are) - NAMED_MAX
    names = ", ".join(there_are[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return CommandRefusedError(f"there is no {kind} {name}", hint=f"there is: {names or 'none yet'}", name=name)
