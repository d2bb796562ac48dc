"""Targets in an archive: its markers say which folder a topic of that id goes to."""

import asyncio

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.sources.client import SourceTopic
from mirrorlake.stores.opening import open_store
from mirrorlake.topics.archive_folders import ArchivedTopic, find_folder
from mirrorlake.topics.finding.look import SourceLook
from mirrorlake.topics.targets import Target


async def targets_in_archive(look: SourceLook, destination: Destination) -> list[Target]:
    """Returns a target for each partition, in the folder that is its topic's; one topic after another."""
    assert isinstance(destination, ArchiveDestination)
    found = []
    for topic in look.topics:
        folder = await asyncio.to_thread(_folder_of, look, destination, topic)
        found += look.targets(destination, topic, folder)
    return found


def _folder_of(look: SourceLook, destination: ArchiveDestination, topic: SourceTopic) -> str:
    archived = ArchivedTopic(
        base=destination.name_for(topic.name),
        partitions=look.partitions(topic),
        extension=extension_of(destination.format.value),
        are_snapshots=destination.has_view,
        cluster_id=look.source_id,
        topic_id=topic.topic_id,
    )
    return find_folder(open_store(destination.store.settings), archived, policy=look.mirror.on_recreate)
