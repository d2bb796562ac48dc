"""Of what kind the source of a mirror is: the one place that knows."""

from mirrorlake.config.resolved import Mirror
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.sources.source import SourceWork


def source_of(mirror: Mirror) -> SourceWork:
    """Returns where a configured mirror reads."""
    return KafkaSourceWork(cluster=mirror.source.cluster.settings)
