"""Configurations of mirrors for the ``mirrorlake`` command under test."""

from pathlib import Path


def write_config(
    path: Path,
    *,
    source: str,
    topic: str,
    destination: str | None = None,
    lake: Path | None = None,
    max_time: str = "1h",
    max_records: int = 1_000_000,
    daily_at_utc: str | None = None,
    more_clusters: str = "",
    more_mirrors: str = "",
    lease: str = "2s",
    more_engine: str = "",
) -> Path:
    """One mirror, named like its topic, to a Kafka destination, an archive, or both."""
    destinations = []
    if destination is not None:
        destinations.append("{type: kafka, cluster: west}")
    if lake is not None:
        lake.mkdir(exist_ok=True)
        daily = f", daily: {{at-utc: '{daily_at_utc}'}}" if daily_at_utc else ""
        flush = f"{{max-time: {max_time}, max-records: {max_records}{daily}}}"
        destinations.append(f"{{type: archive, store: lake, flush: {flush}}}")
    path.write_text(
        "\n".join(
            [
                "clusters:",
                f'  east: {{bootstrap-servers: "{source}"}}',
                *([f'  west: {{bootstrap-servers: "{destination}"}}'] if destination else []),
                *([more_clusters] if more_clusters else []),
                *(["stores:", f"  lake: {{type: filesystem, root: {lake}}}"] if lake else []),
                "mirrors:",
                f"  - name: {topic}",
                f"    source: {{cluster: east, topics: [{topic}]}}",
                f"    destinations: [{', '.join(destinations)}]",
                *([more_mirrors] if more_mirrors else []),
                "service: {heartbeat: 1s}",
                f"engine: {{lanes: 2, lease: {lease}, memory: 512MiB{more_engine}}}",
            ]
        )
        + "\n"
    )
    return path
