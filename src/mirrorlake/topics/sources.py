"""Of what kind the source of a mirror is: the one place that knows."""

from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import ArchiveSource, KafkaSource
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.sources.archive.selection import ranges_of
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.sources.source import SourceWork
from mirrorlake.window import Window


def source_of(mirror: Mirror) -> SourceWork:
    """Returns where a configured mirror reads, without bounds that only its records can tell."""
    source = mirror.source
    if isinstance(source, KafkaSource):
        bounded_for = mirror.name if source.window != Window() else ""
        return KafkaSourceWork(cluster=source.cluster.settings, mirror=bounded_for, window=source.window)
    return ArchiveSourceWork(
        store_name=source.store.name,
        store=source.store.settings,
        mirror=mirror.name,
        layout=source.layout,
        generation=source.generation,
        skip_after_seconds=source.skip_after_seconds,
        window=source.window,
        pins_snapshots=True,
        # Where times bound it too, only a look can tell what may be read.
        ranges={} if source.window.is_of_times else ranges_of(source.window),
    )


def cluster_source(cluster: ClusterSettings) -> SourceWork:
    """Returns a cluster to be read without a mirror."""
    return KafkaSourceWork(cluster=cluster)


def identified(work: SourceWork, source_id: str) -> SourceWork:
    """Returns a source that must be the one of this id whenever it is read; empty where it has none.

    A cluster is told apart by the ids of its topics.
    """
    return replace(work, archive_id=source_id) if isinstance(work, ArchiveSourceWork) else work


def window_of(mirror: Mirror) -> Window:
    """Returns which part of its source a mirror reads."""
    return mirror.source.window


def remarks_of(mirror: Mirror) -> tuple[str, ...]:
    """Returns what cannot be had from the source of a mirror, in sentences for people."""
    source = mirror.source
    layout = source.layout if isinstance(source, ArchiveSource) else None
    return () if layout is None else tuple(f"{source.label}: {remark}" for remark in layout.remarks)


def modules_of(mirrors: Sequence[Mirror]) -> tuple[str, ...]:
    """Returns the modules that workers load before their first lease of these mirrors, each once."""
    return tuple(dict.fromkeys(type(source_of(mirror)).__module__ for mirror in mirrors))
