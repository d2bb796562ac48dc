"""What is done before the first lease of a partition, in this order.

1. Mirrors with mapped offsets get their shards settled, and their own topics.
2. Missing destination topics are made.
3. The ownership of the mirrors is taken.
4. Stores are probed, chains of segments checked; this tells archives' positions.
5. The partitions join the table of states.

What cannot be asked for now is kept for another try; every other error becomes its partition's.
"""

from collections.abc import Sequence
from itertools import compress

import structlog

from mirrorlake.config.resolved import Form
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.kinds.registry import kind_of
from mirrorlake.service.control_loop import ControlLoop
from mirrorlake.service.lifecycle.parts import Parts
from mirrorlake.service.map_shards import with_settled_shards
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.states import make_roots, state_of, with_archive_positions
from mirrorlake.sources.source import SourceWork
from mirrorlake.topics.targets import Target
from mirrorlake.topics.topic_creation import create_topics

_log = structlog.get_logger("mirrorlake")


class PartitionStarts:
    """Brings found targets into the table of states.

    Args:
        parts: of the run.
        control: asks the clusters.
    """

    def __init__(self, parts: Parts, control: ControlLoop) -> None:
        self._parts = parts
        self._control = control
        self._waiting: list[Target] = []

    @property
    def waiting(self) -> Sequence[Target]:
        """Targets of the last call that could not be asked for, each with its error."""
        return self._waiting

    def begin(self, targets: Sequence[Target]) -> None:
        """Makes topics, takes ownership, reads positions, adds states."""
        parts, call = self._parts, self._control.call
        lanes = parts.config.engine.lanes
        targets = [target for target in targets if target.is_due or target.error is not None]
        targets = call(with_settled_shards(targets, parts.clients, lanes=lanes, clock=parts.clock))
        ready, not_made = self._make_topics(targets)
        owned_by_others = call(parts.owners.take(ready))
        states = self._states(parts.owners.as_taken(ready))
        pairs = list(zip(ready, states, strict=True))
        # Before their first lease: while a mirror is not known, groups of another one may be led past its records.
        parts.group_sync.follow(pairs, waiting=self._waiting)
        parts.topics.follow(pairs)
        if parts.schemas is not None:
            parts.schemas.follow(pairs)
        refused = [
            (state, not_made[topic_at(target)])
            for target, state in pairs
            if target.is_to_be_made and topic_at(target) in not_made and state.error is None
        ]
        parts.table.sources_seen(sources_found(ready))
        parts.table.add(
            states,
            parts.sources,
            refused=[*refused, *((states[index], error) for index, error in owned_by_others.items())],
            until_another_look=[states[index] for index in owned_by_others],
        )

    def _make_topics(self, targets: Sequence[Target]) -> tuple[list[Target], dict[tuple[str, str], MirrorlakeError]]:
        """Returns the targets that can begin, and why topics could not be made; those that wait are kept."""
        self._waiting = [target for target in targets if isinstance(target.error, TransientError)]
        self._say_not_ready([(target, target.error) for target in self._waiting if target.error is not None])
        ready = [target for target in targets if not isinstance(target.error, TransientError)]
        refused = self._control.call(create_topics(ready, self._parts.clients))
        later = [target for target in ready if isinstance(refused.get(topic_at(target)), TransientError)]
        self._say_not_ready([(target, refused[topic_at(target)]) for target in later])
        self._waiting += later
        ready = [target for target in ready if target not in later]
        made = [t for t in ready if t.creation and not t.error and topic_at(t) not in refused]
        for topic, like in sorted({(t.destination_topic, t.source.topic) for t in made}):
            _log.info("destination topic created", topic=topic, like=like)
        return ready, refused

    def _states(self, targets: Sequence[Target]) -> list[PartitionState]:
        """Returns the targets' states; those of archives with where their chains end."""
        parts = self._parts
        states = [state_of(target, writer=parts.writer) for target in targets]
        have_segments = [kind_of(target.destination).holds_segments for target in targets]
        archives = list(compress(zip(targets, states, strict=True), have_segments))
        if parts.config.form is Form.MIRROR_V3:
            make_roots([target for target, _ in archives])
        archived = with_archive_positions(archives, writes=True, gone=parts.markers.gone_roots())
        followed = [(target, state) for (target, _), state in zip(archives, archived, strict=True)]
        parts.markers.follow(followed)
        parts.groups.follow(followed)
        found = iter(archived)
        return [next(found) if has else state for state, has in zip(states, have_segments, strict=True)]

    def _say_not_ready(self, waiting: Sequence[tuple[Target, MirrorlakeError]]) -> None:
        with self._parts.events.together():
            for (mirror, topic, destination), error in {
                (t.mirror.name, t.source.topic, t.destination.label): error for t, error in waiting
            }.items():
                self._parts.events.not_ready(mirror, topic, destination, error)


def sources_found(targets: Sequence[Target]) -> dict[str, SourceWork]:
    """Returns where to read, by mirror, as far as a look has told; what failed has not."""
    return {target.mirror.name: target.source_work for target in targets if target.error is None}


def topic_at(target: Target) -> tuple[str, str]:
    """Returns cluster and topic of a Kafka target; others have no cluster."""
    return (target.kafka.cluster.name if target.is_topic else "", target.destination_topic)
