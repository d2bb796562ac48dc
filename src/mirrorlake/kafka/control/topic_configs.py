"""The configurations of topics, all or none."""

from collections.abc import Mapping, Sequence

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ConfigValue


async def read_topic_configs(client: ClusterClient, topics: Sequence[str]) -> dict[str, Mapping[str, ConfigValue]]:
    """Returns the topics' configurations by name, those from defaults included.

    Raises:
        MirrorlakeError: one of them could not be read.
    """
    if not topics:
        return {}
    found: dict[str, Mapping[str, ConfigValue]] = {}
    for name, configs in (await client.topics.configs(topics)).items():
        if isinstance(configs, MirrorlakeError):
            raise configs
        found[name] = configs
    return found
