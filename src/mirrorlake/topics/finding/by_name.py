"""Targets where the configuration alone says where a topic goes."""

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.topics.finding.look import SourceLook
from mirrorlake.topics.targets import Target


async def targets_by_name(look: SourceLook, destination: Destination) -> list[Target]:
    """Returns a target for each partition, of the name the configuration gives its topic; asks nobody."""
    return [
        target for topic in look.topics for target in look.targets(destination, topic, destination.name_for(topic.name))
    ]
