"""Configurations of mirrors for the ``mirrorlake`` command under test."""

from pathlib import Path

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.stores.settings import S3Settings
from support.copies import Lake


def write_config(
    path: Path,
    *,
    source: str,
    topic: str,
    destination: str | None = None,
    lake: Lake | None = None,
    max_time: str = "1h",
    max_records: int = 1_000_000,
    daily_at_utc: str | None = None,
    more_clusters: str = "",
    more_mirrors: str = "",
    lease: str = "2s",
    more_engine: str = "",
    more_archive: str = "",
) -> Path:
    """One mirror, named like its topic, to a Kafka destination, an archive, or both."""
    destinations = []
    if destination is not None:
        destinations.append("{type: kafka, cluster: west}")
    if lake is not None:
        if isinstance(lake, Path):
            lake.mkdir(exist_ok=True)
        daily = f", daily: {{at-utc: '{daily_at_utc}'}}" if daily_at_utc else ""
        flush = f"{{max-time: {max_time}, max-records: {max_records}{daily}}}"
        destinations.append(f"{{type: archive, store: lake, flush: {flush}{more_archive}}}")
    path.write_text(
        "\n".join(
            [
                "clusters:",
                f'  east: {{bootstrap-servers: "{source}"}}',
                *([f'  west: {{bootstrap-servers: "{destination}"}}'] if destination else []),
                *([more_clusters] if more_clusters else []),
                *(["stores:", f"  lake: {store_section(lake, path.parent)}"] if lake else []),
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


def copying(
    source: str, destination: str, topic: str, *, timestamp_mode: str = "source", offsets: str = "preserve"
) -> Configuration:
    """A mirror of one topic from one cluster to another, named like the topic, as the command would read it."""
    text = f"""
clusters:
  east: {{bootstrap-servers: "{source}"}}
  west: {{bootstrap-servers: "{destination}"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, timestamp-mode: {timestamp_mode}, offsets: {offsets}}}]
"""
    return parse_configuration(text.encode(), file="test.yaml", environ={})


def store_section(lake: Lake, folder: Path) -> str:
    """How an archive's store stands in a configuration; its secrets are in files beside it."""
    if isinstance(lake, Path):
        return f"{{type: filesystem, root: {lake}}}"
    assert isinstance(lake, S3Settings)
    assert lake.access_key_id is not None
    assert lake.secret_access_key is not None
    (folder / "key-id").write_text(f"{lake.access_key_id.reveal()}\n")
    (folder / "secret-key").write_text(f"{lake.secret_access_key.reveal()}\n")
    return (
        f"{{type: s3, bucket: {lake.bucket}, prefix: '{lake.prefix}', region: {lake.region}, "
        f"endpoint: '{lake.endpoint}', access-key-id: {{file: {folder / 'key-id'}}}, "
        f"secret-access-key: {{file: {folder / 'secret-key'}}}}}"
    )
