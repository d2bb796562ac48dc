"""How fast each mirror may read: by its own limit, and by that of the cluster it shares with others."""

from collections.abc import Mapping

from mirrorlake.config.resolved import Configuration
from mirrorlake.config.sources.source import KafkaSource


def limits_of(config: Configuration) -> dict[str, int]:
    """Returns the bytes per second that mirrors may read at most, by mirror; those that nothing limits are absent.

    A mirror has the smaller one of its own limit and its share of its cluster's. Mirrors that are not enabled have no
    share.
    """
    own = {m.name: m.read_bytes_per_second for m in config.enabled_mirrors}
    limits = {name: limit for name, limit in own.items() if limit is not None}
    readers: dict[str, dict[str, int | None]] = {}
    for mirror in config.enabled_mirrors:
        if isinstance(mirror.source, KafkaSource):
            readers.setdefault(mirror.source.cluster.name, {})[mirror.name] = own[mirror.name]
    for cluster in config.clusters:
        if cluster.read_bytes_per_second is not None and cluster.name in readers:
            limits.update(shares(cluster.read_bytes_per_second, readers[cluster.name]))
    return limits


def shares(limit: int, wanted: Mapping[str, int | None]) -> dict[str, int]:
    """Returns what each of several has of a limit: as much as the others, or all that it wants where that is less.

    What one does not want is divided among the others, so that the shares sum up to the limit where anybody wants more.

    Args:
        limit: in bytes per second, above zero.
        wanted: in bytes per second, by name; None for as much as can be had.

    Returns:
        Whole bytes per second, at least 1, by name.
    """
    granted: dict[str, int] = {}
    left = limit
    for count, (name, most) in enumerate(sorted(wanted.items(), key=lambda item: (item[1] is None, item[1] or 0))):
        share = left // (len(wanted) - count)
        granted[name] = max(1, share if most is None else min(share, most))
        left = max(0, left - granted[name])
    return granted
