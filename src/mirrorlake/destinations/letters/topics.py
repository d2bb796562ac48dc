"""A topic for dead letters at a destination cluster: what it is called, where letters go in it, and what it takes."""

from dataclasses import dataclass

from mirrorlake.destinations.size_limit import read_batch_bytes_max
from mirrorlake.errors import TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition


def letters_topic(template: str, source_topic: str) -> str:
    """Returns where dead letters of a source topic go by a template; empty where there is none."""
    return template.replace("{topic}", source_topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    """A topic for dead letters, and the largest batch it takes."""

    partitions: tuple[TopicPartition, ...]
    batch_bytes_max: int

    def partition_of(self, source: TopicPartition) -> TopicPartition:
        """Returns where the dead letters of a source partition go, in their order."""
        return self.partitions[source.partition % len(self.partitions)]


async def find_letter_topic(client: ClusterClient, name: str) -> LetterTopic:
    """Returns a topic for dead letters as it is.

    Raises:
        TopicMissingError: there is no such topic.
        MirrorlakeError: it could not be asked.
    """
    there = (await client.metadata([name], refresh=True)).topics.get(name)
    if there is None:
        raise TopicMissingError(f"topic {name}, for dead letters, does not exist", topic=name)
    partitions = tuple(TopicPartition(name, number) for number in sorted(there.partitions))
    return LetterTopic(partitions=partitions, batch_bytes_max=await read_batch_bytes_max(client, name))
