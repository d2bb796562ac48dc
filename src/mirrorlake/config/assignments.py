"""Who writes where: one source topic on its way to one destination, and the ways two of them can clash.

The rules are the same for topics named in the file, looked at while loading, and for topics found by an
expression, looked at when the clusters have been asked.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import ArchiveSource, KafkaSource, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One source topic of a mirror on its way to one of the mirror's destinations."""

    mirror: Mirror
    destination: Destination
    topic: str

    @property
    def destination_name(self) -> str:
        """Returns the destination topic, or the folder below an archive's root."""
        return self.destination.name_for(self.topic)

    @property
    def partitions(self) -> frozenset[int] | None:
        """Returns the partitions written, None for all."""
        selected = self.mirror.source.partitions
        return None if selected is None else frozenset(selected)

    @property
    def target(self) -> str:
        """Returns where it writes, as a message says it."""
        return self.destination.where(self.destination_name)


Readers = dict[PurePosixPath | str, list[Assignment]]
"""Assignments by what they read: a topic's name, whatever cluster it is of, or an archive's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two assignments that would write one place; exactly-once needs one writer for each."""

    first: Assignment
    second: Assignment

    @property
    def message(self) -> str:
        """Returns what clashes, naming both mirrors and both places."""
        shared = _shared_partitions(self.first, self.second)
        which = "" if shared is None else f", partition {', '.join(map(str, sorted(shared)))}"
        return (
            f"{_who(self.second)} writes {self.second.target}{which}, as does "
            f"{_who(self.first)} at {self.first.destination.place}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Assignments whose records come back to where they were read, in the order they follow one another."""

    assignments: tuple[Assignment, ...]

    @property
    def message(self) -> str:
        """Returns the way round, naming mirrors and topics."""
        last = self.assignments[-1]
        if len(self.assignments) == 1 and last.destination_name == last.topic:
            return f"{_who(last)} writes {last.target}, the topic it reads"
        way = ", then ".join(f"{_who(step)} to {step.target}" for step in self.assignments)
        return f"records would go round: {way}, and again"


def assignments_of(mirror: Mirror, topics: Iterable[str]) -> tuple[Assignment, ...]:
    """Returns the ways of some source topics to every destination of a mirror, topics in the order given."""
    return tuple(
        Assignment(mirror=mirror, destination=destination, topic=topic)
        for topic in topics
        for destination in mirror.destinations
    )


def named_assignments(mirrors: Iterable[Mirror]) -> tuple[Assignment, ...]:
    """Returns the assignments of all topics that the file names; what expressions select is not known yet."""
    return tuple(a for mirror in mirrors for a in assignments_of(mirror, mirror.source.topics.known_names))


def name_flaw(assignment: Assignment) -> str:
    """Returns why a destination cannot take the name an assignment makes; "" where it can."""
    return assignment.destination.name_flaw(assignment.destination_name)


def find_collisions(assignments: Sequence[Assignment]) -> tuple[Collision, ...]:
    """Returns every pair of assignments that would write one destination partition or one archive's folder.

    Several sources may share a topic where offsets are mapped; that is what the mode is for. One source of one mirror
    has one progress there, so two destinations of it never may.
    """
    collisions: list[Collision] = []
    by_place: dict[PurePosixPath | str, list[Assignment]] = {}
    for assignment in assignments:
        place = _place_written(assignment)
        by_place.setdefault(place, []).append(assignment)
        collisions += [
            Collision(first=earlier, second=assignment)
            for earlier in by_place[place][:-1]
            if _is_same_cluster(earlier, assignment) and _shared_partitions(earlier, assignment) != frozenset()
        ]
    return (*collisions, *_nested_archives(by_place))


def _place_written(assignment: Assignment) -> PurePosixPath | str:
    """Returns the topic's name, whatever cluster it is of, or the archive's folder."""
    return assignment.destination.place_of(assignment.destination_name)


def _place_read(source: Source, name: str) -> PurePosixPath | str:
    if isinstance(source, KafkaSource):
        return name
    return source.store.folder(name if source.layout is None else f"{source.layout.folder}/{name}")


def is_read_from(source: Source, destination: Destination) -> bool:
    """Tells whether what a destination writes is seen by a source, if it is of the right name."""
    if isinstance(source, KafkaSource) and isinstance(destination, KafkaDestination):
        return source.cluster.is_same_as(destination.cluster)
    if isinstance(source, ArchiveSource) and isinstance(destination, ArchiveDestination):
        return _place_read(source, "x") == destination.place_of("x")
    return False


def _is_same_cluster(first: Assignment, second: Assignment) -> bool:
    one, other = first.destination, second.destination
    if isinstance(one, KafkaDestination) and isinstance(other, KafkaDestination):
        both_map = one.offsets is OffsetMode.MAP and other.offsets is OffsetMode.MAP
        is_one_source = (first.mirror.name, first.topic) == (second.mirror.name, second.topic)
        return one.cluster.is_same_as(other.cluster) and (is_one_source or not both_map)
    return True


def _nested_archives(by_place: Mapping[PurePosixPath | str, Sequence[Assignment]]) -> Iterator[Collision]:
    """Yields archives inside another's folder, where their files would be taken for foreign ones."""
    for place, inner in by_place.items():
        if isinstance(place, PurePosixPath):
            for outer in filter(None, map(by_place.get, place.parents)):
                yield Collision(first=outer[0], second=inner[0])


def find_loops(assignments: Sequence[Assignment]) -> tuple[Loop, ...]:
    """Returns the shortest way round for every assignment that lies on one, each way once.

    An assignment also closes a loop by itself where its mirror's expressions would select what it writes.
    """
    readers: Readers = {}
    for assignment in assignments:
        readers.setdefault(_place_read(assignment.mirror.source, assignment.topic), []).append(assignment)
    loops: dict[frozenset[int], Loop] = {}
    for start in (a for same_topic in readers.values() for a in same_topic):
        way = (start,) if _feeds_own_expressions(start) else _way_back(start, readers)
        if way:
            loops.setdefault(frozenset(id(step) for step in way), Loop(assignments=way))
    return tuple(loops.values())


def _way_back(start: Assignment, readers: Readers) -> tuple[Assignment, ...]:
    """Returns the shortest run of assignments from ``start`` to itself, or () where there is none."""
    ways: deque[tuple[Assignment, ...]] = deque([(start,)])
    seen = {id(start)}
    while ways:
        way = ways.popleft()
        for following in _followers(way[-1], readers):
            if following is start:
                return way
            if id(following) not in seen:
                seen.add(id(following))
                ways.append((*way, following))
    return ()


def _followers(step: Assignment, readers: Readers) -> Iterator[Assignment]:
    for other in readers.get(_place_written(step), ()):
        # Two folders of one place are one; of topics the name alone says nothing.
        if isinstance(other.mirror.source, ArchiveSource) or is_read_from(other.mirror.source, step.destination):
            yield other


def _feeds_own_expressions(step: Assignment) -> bool:
    source, written = step.mirror.source, step.destination_name
    is_found = source.topics.selects(written) and written not in source.topics.known_names
    return is_found and is_read_from(source, step.destination)


def _shared_partitions(first: Assignment, second: Assignment) -> frozenset[int] | None:
    """Returns the partitions both write; None where that is all of them."""
    if first.partitions is None:
        return second.partitions
    return first.partitions if second.partitions is None else first.partitions & second.partitions


def _who(assignment: Assignment) -> str:
    return f"mirror {assignment.mirror.name} (topic {assignment.topic})"
