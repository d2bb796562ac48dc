"""What a mirror's destinations must not share, and what routes cannot take."""

from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination import Destination
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
    for destination in mirror.destinations:
        branch = destination.branch
        # Said once of a route.
        if branch is not None and branch.topic == branch.topics[0] and shares_folders(mirror, destination):
            message = f"the route to archives takes one source topic, and mirror {mirror.name} has more"
            problems.add(destination.place, message, "give each of them a mirror of its own, with other folders")


def shares_folders(mirror: Mirror, destination: Destination) -> bool:
    """Tells whether several source topics of a mirror would go to one folder of a route."""
    source = mirror.source.topics
    is_route = isinstance(destination, ArchiveDestination) and destination.branch is not None
    return is_route and (len(source.names) > 1 or bool(source.patterns))
