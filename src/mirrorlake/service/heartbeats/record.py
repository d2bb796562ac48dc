"""What a heartbeat says: plain JSON, for any consumer. Pure."""

import json
from datetime import UTC, datetime

import numpy as np

from mirrorlake.config.resolved import Mirror
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column, no_headers


def heartbeat_key(mirror: Mirror) -> bytes:
    """Returns what tells the heartbeats of a mirror from those of others in one topic."""
    return _json({"mirror": mirror.name, "source": mirror.source.name})


def heartbeat_value(mirror: Mirror, *, cluster_id: str | None, time_ms: int) -> bytes:
    """Returns what a heartbeat says.

    Args:
        mirror: that it is of.
        cluster_id: of its source; None where no broker says it.
        time_ms: when it is written, in Unix milliseconds.
    """
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert mirror.heartbeats is not None, "who has no heartbeats writes none"
    return _json(
        {
            "mirror": mirror.name,
            "source": mirror.source.name,
            "source_cluster_id": cluster_id,
            "destinations": [each.label for each in mirror.destinations],
            "time": moment.replace("+00:00", "Z"),
            "interval_seconds": mirror.heartbeats.interval_seconds,
        }
    )


def heartbeat_batch(key: bytes, value: bytes, *, time_ms: int) -> bytearray:
    """Returns a batch of one record, as a producer without an id sends it; its timestamp is the heartbeat's time."""
    record = RecordColumns.of(
        offsets=np.zeros(1, np.int64),
        timestamps=np.array([time_ms], np.int64),
        timestamp_types=np.zeros(1, np.int8),
        keys=bytes_column([key]),
        values=bytes_column([value]),
        headers=no_headers(1),
    )
    return encode_batch(record, codec=Codec.NONE)


def _json(content: dict[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()
