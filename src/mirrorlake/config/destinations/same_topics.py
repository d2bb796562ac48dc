"""What a mirror's destinations must not share, and what routes cannot take."""

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.problems import ProblemList
from mirrorlake.config.resolved import Mirror


def check_same_topics(mirror: Mirror, problems: ProblemList) -> None:
    """Notes destinations to which expressions would copy each topic twice with mapped offsets: they have one progress.

    Topics that are named are looked at one by one, by `find_collisions`.
    """
    if not mirror.source.topics.patterns:
        return
    seen: list[KafkaDestination] = []
    for destination in mirror.destinations:
        if not isinstance(destination, KafkaDestination) or destination.offsets is not OffsetMode.MAP:
            continue
        topic = destination.name_for("{topic}")
        if any(topic == each.name_for("{topic}") and each.cluster.is_same_as(destination.cluster) for each in seen):
            message = f"mirror {mirror.name} copies to topic {topic} of cluster {destination.cluster.name} twice"
            problems.add(destination.place, message, "name another topic, or leave one of them out")
        seen.append(destination)


def check_routes(mirror: Mirror, problems: ProblemList) -> None:
    """Notes routes to archives that several source topics would take: a folder holds one."""
    source = mirror.source.topics
    if len(source.names) == 1 and not source.patterns:
        return
    for destination in mirror.destinations:
        branch = destination.branch
        if isinstance(destination, ArchiveDestination) and branch is not None and branch.topic == branch.topics[0]:
            message = f"the route to {destination.store.name} takes one source topic, and mirror {mirror.name} has more"
            problems.add(destination.place, message, "give each of them a mirror of its own, with other folders")
