"""What can only be judged when several parts of a configuration are looked at together."""

import re
from collections.abc import Sequence

from mirrorlake.config.assignments import (
    Assignment,
    find_collisions,
    find_loops,
    is_read_from,
    name_flaw,
    named_assignments,
)
from mirrorlake.config.destinations.archive import ArchiveDestination, ArchiveFormat, Compaction
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.destinations.same_topics import check_routes, check_same_topics, shares_folders
from mirrorlake.config.document import Document
from mirrorlake.config.problems import FieldPath, ProblemList
from mirrorlake.config.resolved import Mirror, RecreationPolicy
from mirrorlake.config.topics.heartbeats import check_heartbeats
from mirrorlake.config.topics.select import check_select
from mirrorlake.config.values.names import topic_flaw
from mirrorlake.offsets import StartKind
from mirrorlake.window import OffsetsByTopic

NamedAt = tuple[str, FieldPath]
"""A mirror's name and where it stands."""


def check_mirror_names(names: Sequence[NamedAt], document: Document) -> None:
    """Notes names that stand twice, and names whose transactional ids would meet."""
    first: dict[str, FieldPath] = {}
    for name, path in names:
        if name in first:
            line = document.place(first[name]).line
            document.note(path, f"the name `{name}` is taken, on line {line}", "names are unique")
        first.setdefault(name, path)
    for name, path in first.items():
        # `mirrorlake.<mirror>.<shard>`: shard 1 of `a` must not be the mirror `a.1`.
        stem = re.fullmatch(r"(.+)\.\d+", name, re.ASCII)
        if stem and stem[1] in first:
            message = f"`{name}` could be taken for a shard of mirror `{stem[1]}`"
            document.note(path, message, "use another name than one plus a dot and a number")


def check_mirrors(mirrors: Sequence[Mirror], problems: ProblemList) -> None:
    """Notes what does not go together within a mirror and between mirrors, for the topics that are named."""
    for mirror in mirrors:
        _check_topics(mirror, problems)
        _check_start(mirror, problems)
        _check_window(mirror, problems)
        _check_mapped(mirror, problems)
        _check_recreation(mirror, problems)
        _check_filter(mirror, problems)
        check_select(mirror, problems)
        check_same_topics(mirror, problems)
        check_routes(mirror, problems)
        for destination in mirror.destinations:
            if isinstance(destination, ArchiveDestination):
                _check_archive(destination, problems)
            _check_same_place(mirror, destination, problems)
            _check_template(mirror, destination, problems)
    check_heartbeats(mirrors, problems)
    _check_own_topics(mirrors, problems)
    for mirror in mirrors:
        _check_dead_letters(mirror, mirrors, problems)
    assignments = named_assignments(mirrors)
    flawed = _check_names(assignments, problems)
    sound = [a for a in assignments if a not in flawed and not shares_folders(a.mirror, a.destination)]
    for collision in find_collisions(sound):
        hint = "give one of them another destination, or other partitions"
        problems.add(collision.second.destination.place, collision.message, hint)
    for loop in find_loops(sound):
        place = loop.assignments[-1].destination.place
        problems.add(place, loop.message, "give the destination topic another name, such as `copy-of-{topic}`")


def _check_names(assignments: Sequence[Assignment], problems: ProblemList) -> list[Assignment]:
    flawed = []
    for assignment in assignments:
        if flaw := name_flaw(assignment):
            message = f"topic {assignment.topic} would become `{assignment.destination_name}`"
            problems.add(assignment.destination.place, message, flaw)
            flawed.append(assignment)
    return flawed


def _check_topics(mirror: Mirror, problems: ProblemList) -> None:
    topics = mirror.source.topics
    place = mirror.place
    for name in topics.names:
        if topics.excludes(name):
            problems.add(place, f"topic {name} is named and excluded at once", "remove it from one of the two")
    _check_offsets(mirror, "start offsets", mirror.source.start.offsets, problems)


def _check_offsets(mirror: Mirror, what: str, offsets: OffsetsByTopic, problems: ProblemList) -> None:
    """Notes offsets for topics that are not named, or partitions that are not mirrored."""
    for name, by_partition in offsets.items():
        if name not in mirror.source.topics.names:
            problems.add(mirror.place, f"{what} are given for {name}, which is not among the topics named")
        selected = mirror.source.partitions
        beyond = [] if selected is None else sorted(set(by_partition) - set(selected))
        if beyond:
            problems.add(mirror.place, f"{what} are given for partition {beyond[0]}, which is not mirrored")


def _check_start(mirror: Mirror, problems: ProblemList) -> None:
    # Equal offsets and an archive's chain of files begin at the source's first offset.
    start = mirror.source.start.kind
    if start is StartKind.EARLIEST:
        return
    for destination in mirror.destinations:
        if flaw := destination.start_flaw(start):
            problems.add(destination.place, flaw.message, flaw.hint)


def _check_mapped(mirror: Mirror, problems: ProblemList) -> None:
    # One cluster under two names: the mirror's transactions there would fence one another.
    mapped = [d for d in mirror.kafka_destinations if d.is_mapped]
    for number, destination in enumerate(mapped):
        for earlier in mapped[:number]:
            is_alias = earlier.cluster.name != destination.cluster.name
            if is_alias and earlier.cluster.is_same_as(destination.cluster):
                message = (
                    f"clusters {earlier.cluster.name} and {destination.cluster.name} are one cluster, and mirror "
                    f"{mirror.name} maps offsets to both"
                )
                problems.add(destination.place, message, f"use `cluster: {earlier.cluster.name}` for both")


def _check_own_topics(mirrors: Sequence[Mirror], problems: ProblemList) -> None:
    # `mirrorlake.progress.<mirror>`: Kafka has no two topics whose names differ in `.` and `_` alone (metrics' names).
    own = [(m, d) for m in mirrors for d in m.kafka_destinations if _has_topics(m, d)]
    for number, (mirror, destination) in enumerate(own):
        for earlier, other in own[:number]:
            is_like = earlier.name != mirror.name and _metric_name(earlier.name) == _metric_name(mirror.name)
            if is_like and other.cluster.is_same_as(destination.cluster):
                message = (
                    f"mirrors {earlier.name} and {mirror.name} map offsets, or have dead letters, on one cluster, "
                    "where no two topics may differ in `.` and `_` alone, and each has topics named after it"
                )
                problems.add(mirror.place, message, "use another name for one of them")


def _has_topics(mirror: Mirror, destination: KafkaDestination) -> bool:
    """Tells whether a mirror has topics of its own at a destination cluster."""
    has_letters = mirror.schemas is not None and bool(mirror.schemas.letters_template)
    return destination.is_mapped or has_letters


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


def _check_filter(mirror: Mirror, problems: ProblemList) -> None:
    if mirror.filter is None:
        return
    for destination in mirror.destinations:
        if flaw := destination.filter_flaw():
            problems.add(destination.place, flaw.message, flaw.hint)


def _check_dead_letters(mirror: Mirror, mirrors: Sequence[Mirror], problems: ProblemList) -> None:
    """Notes topics for dead letters that hold copies too, that the mirror reads, or that no broker takes."""
    schemas = mirror.schemas
    if schemas is None or not schemas.letters_template:
        return
    copied = named_assignments(mirrors)
    for destination in mirror.destinations:
        if not isinstance(destination, KafkaDestination):
            continue
        for letters in dict.fromkeys(map(schemas.letters_topic, mirror.source.topics.names)):
            writers = [each for each in copied if each.destination_name == letters and _shares(each, destination)]
            if flaw := topic_flaw(letters):
                problems.add(schemas.place, f"dead letters would go to topic `{letters}`", flaw)
            elif letters in mirror.source.topics.names and is_read_from(mirror.source, destination):
                message = f"mirror {mirror.name} would read its own dead letters, in topic {letters}"
                problems.add(schemas.place, message, "give `dead-letters` another topic")
            elif writers:
                message = (
                    f"dead letters of mirror {mirror.name} would go to topic {letters} of cluster "
                    f"{destination.cluster.name}, which mirror {writers[0].mirror.name} copies {writers[0].topic} to"
                )
                problems.add(schemas.place, message, "give `dead-letters` another topic")


def _shares(assignment: Assignment, destination: KafkaDestination) -> bool:
    """Tells whether an assignment writes to the cluster of a destination."""
    other = assignment.destination
    return isinstance(other, KafkaDestination) and other.cluster.is_same_as(destination.cluster)


def _check_recreation(mirror: Mirror, problems: ProblemList) -> None:
    if mirror.on_recreate is not RecreationPolicy.RESTART:
        return
    for destination in mirror.destinations:
        if flaw := destination.restart_flaw():
            problems.add(mirror.place, flaw.message, flaw.hint)


def _check_archive(destination: ArchiveDestination, problems: ProblemList) -> None:
    if destination.compaction is Compaction.LOG and destination.format is not ArchiveFormat.PARQUET:
        message = f"`compaction: log` cannot be had with `format: {destination.format}`"
        problems.add(destination.place, message, "use `format: parquet`")


def check_slots(mirrors: Sequence[Mirror], batch_slots: int, problems: ProblemList) -> None:
    """Notes archives that `run` is to merge where no slot is left for it: a merge would keep leases waiting."""
    if batch_slots:
        return
    for mirror in mirrors:
        for destination in mirror.destinations:
            if mirror.is_enabled and isinstance(destination, ArchiveDestination) and "merge" in destination.schedules:
                message = f"`run` is to merge archive {destination.label}, and `engine.batch-slots` is 0"
                problems.add(destination.place, message, "leave `batch-slots` out, or set it to 1 or more")


def _check_same_place(mirror: Mirror, destination: Destination, problems: ProblemList) -> None:
    source = mirror.source
    is_unnamed = destination.name_for("{topic}") == "{topic}"
    if source.topics.patterns and is_unnamed and is_read_from(source, destination):
        message = f"mirror {mirror.name} would write the topics it reads, on {source.label}"
        what = "topic" if destination.is_topic else "folder"
        problems.add(destination.place, message, f"give the destination {what} another name")


def _check_window(mirror: Mirror, problems: ProblemList) -> None:
    window = mirror.source.window
    for field, offsets in (("from-offsets", window.from_offsets), ("until-offsets", window.until_offsets)):
        _check_offsets(mirror, field, offsets, problems)


def _check_template(mirror: Mirror, destination: Destination, problems: ProblemList) -> None:
    # Topics given by name are looked at one by one; what an expression will select is not known yet.
    template = destination.name_for("{topic}")
    is_mapped = isinstance(destination, KafkaDestination) and destination.is_mapped
    mixes = is_mapped or destination.branch is not None
    if mirror.source.topics.patterns and "{topic}" not in template and not mixes:
        message = f"all topics an expression selects would go into one, `{template}`"
        problems.add(destination.place, message, "use `{topic}` in it")
