"""``status`` while a service copies: what moves between two of its questions is no fault of anybody's."""

import asyncio

import pytest

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.partition_state import StateName
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.topics.discovery import find_targets
from support.mirrors import copying
from support.proxy import Proxy
from support.records import simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

OFFSET_FOR_LEADER_EPOCH = 23
"""How a destination is asked for its log end."""


def test_a_copy_that_moves_on_while_it_is_looked_at_is_not_called_ahead(
    proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, proxy.address
    for servers in (source, destination):
        make_topic(servers, topic_name, simple_records(10))

    async def look() -> StatusRow:
        clients = WorkerCache()
        try:
            targets = await find_targets(copying(source, destination, topic_name), clients)
            held = proxy.hold(OFFSET_FOR_LEADER_EPOCH)
            asked = asyncio.create_task(read_rows(targets, clients))
            await asyncio.to_thread(held.await_arrival)
            await asyncio.sleep(0.5)  # whatever else is asked at the same time is answered
            for servers in (source, destination):  # as a service that copies at this moment does
                await asyncio.to_thread(append, servers, topic_name, 0, simple_records(5, start=10))
            held.release()
            (row,) = await asked
            return row
        finally:
            await clients.close()

    row = asyncio.run(look())
    assert (row.error, row.position, row.source_end, row.state) == (None, 15, 15, StateName.CAUGHT_UP)
