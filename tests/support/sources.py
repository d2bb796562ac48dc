"""The sources of plans, changed."""

from dataclasses import replace

from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.work import PartitionWork
from mirrorlake.sources.kafka.work import KafkaSourceWork


def source_cluster(work: PartitionWork) -> ClusterSettings:
    """The cluster a partition is read from."""
    assert isinstance(work.source_work, KafkaSourceWork)
    return work.source_work.cluster


def read_from(work: PartitionWork, cluster: ClusterSettings) -> PartitionWork:
    """The same partition, read from another cluster, or in another way."""
    assert isinstance(work.source_work, KafkaSourceWork)
    return replace(work, source_work=replace(work.source_work, cluster=cluster))
