"""Targets of a mirror whose source topic is compacted, as a look at the clusters finds them; no cluster is asked."""

from mirrorlake.config.loading import parse_configuration
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import Target

TEXT = """
clusters: {east: {bootstrap-servers: "east:9092"}, west: {bootstrap-servers: "west:9092"}}
stores: {lake: {type: filesystem, root: /lake}, old: {type: filesystem, root: /old}}
mirrors:
  - {name: same, source: {cluster: east, topics: [users]}, destinations: [{type: kafka, cluster: west}]}
  - name: mapped
    source: {cluster: east, topics: [users]}
    destinations: [{type: kafka, cluster: west, offsets: map, topic: mapped}]
  - {name: archived, source: {cluster: east, topics: [users]}, destinations: [{type: archive, store: lake}]}
  - name: restored
    source: {store: old, topics: [users]}
    destinations: [{type: kafka, cluster: west, topic: restored}]
"""


def target_of(name: str, **configs: str) -> Target:
    """The target of one mirror of the file above; ``configs`` are the source topic's, with ``_`` for ``.``."""
    (mirror,) = [
        each for each in parse_configuration(TEXT.encode(), file="mirror.yaml", environ={}).mirrors if each.name == name
    ]
    return Target(
        mirror=mirror,
        destination=mirror.destinations[0],
        source_work=source_of(mirror),
        source=TopicPartition("users", 0),
        destination_topic="users",
        source_configs={key.replace("_", "."): value for key, value in configs.items()},
    )
