"""Mirrors whose copies hold other records than their source: to a cluster with offsets mapped, and to an archive."""

from pathlib import Path

from support.command import write_yaml

BOTH = "[{type: kafka, cluster: west, offsets: map}, {type: archive, store: lake, flush: {max-records: 30}, merge: {min-files: 2, steps: [{min-age: 0s, max-bytes: 1GiB}]}}]"  # noqa: E501


def changed_copies(folder: Path, east: str, west: str, topic: str, *, change: str, destinations: str = BOTH) -> Path:
    """The configuration of a mirror of one topic; ``change`` is the line that says what becomes of its records."""
    text = f"""
clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
stores:
  lake: {{type: filesystem, root: "{folder}/lake"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    {change}
    destinations: {destinations}
engine: {{lanes: 2, lease: 2s, memory: 512MiB}}
"""
    return write_yaml(folder / "mirror.yaml", text)
