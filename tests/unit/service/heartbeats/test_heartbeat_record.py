"""What a heartbeat says, byte for byte, as any consumer decodes it."""

import json

from mirrorlake.config.loading import parse_configuration
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.service.heartbeats.record import heartbeat_batch, heartbeat_key, heartbeat_value

MIRROR = parse_configuration(
    b"clusters: {east: {bootstrap-servers: 'e:1'}, west: {bootstrap-servers: 'w:1'}}\n"
    b"stores: {lake: {type: filesystem, root: /lake}}\n"
    b"mirrors: [{name: orders, source: {cluster: east, topics: [t]}, heartbeats: {interval: 5s}, destinations: "
    b"[{type: kafka, cluster: west}, {type: archive, store: lake}]}]\n",
    file="c.yaml",
    environ={},
).mirrors[0]
TIME_MS = 1_795_176_000_042


def test_the_key_tells_mirrors_apart_and_the_value_says_whose_from_where_to_where_and_when() -> None:
    assert heartbeat_key(MIRROR) == b'{"mirror": "orders", "source": "east"}'
    assert json.loads(heartbeat_value(MIRROR, cluster_id="abc", time_ms=TIME_MS)) == {
        "mirror": "orders",
        "source": "east",
        "source_cluster_id": "abc",
        "destinations": ["west", "lake"],
        "time": "2026-11-20T12:00:00.042Z",
        "interval_seconds": 5.0,
    }


def test_a_cluster_that_does_not_say_its_id_has_none() -> None:
    assert json.loads(heartbeat_value(MIRROR, cluster_id=None, time_ms=TIME_MS))["source_cluster_id"] is None


def test_a_batch_is_one_record_of_no_producer_and_has_the_heartbeats_time() -> None:
    (batch,) = walk(memoryview(heartbeat_batch(b"k", b"v", time_ms=TIME_MS)))
    assert (batch.header.record_count, batch.header.producer_id, batch.header.is_transactional) == (1, -1, False)
    columns = decode_batches([batch], start_offset=0, end_offset=1)
    assert columns.timestamps.tolist() == [TIME_MS]
    assert (columns.keys.to_pylist(), columns.values.to_pylist()) == ([b"k"], [b"v"])
    assert columns.headers.to_pylist() == [[]]
