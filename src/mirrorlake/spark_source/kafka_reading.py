"""Reading planned ranges of live topics: a thread fetches and decodes ahead of what Spark takes."""

import asyncio
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from mirrorlake.errors import TopicMissingError, TopicRecreatedError, TransientError
from mirrorlake.freed_memory import keep_freed_memory
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.spark_source.rows import rows_of
from mirrorlake.spark_source.tasks import Piece

PARTS_AHEAD_MAX = 2
"""Decoded parts that wait for Spark, each of 16 MiB at most, to within one batch."""

FAILURES_MAX = 6
"""Failures in a row, without a record between, after which a task gives up; the pauses between come to ten seconds."""

_PAUSE_SECONDS = 0.3
_LOOK_SECONDS = 0.2


class _Part(NamedTuple):
    piece: Piece
    records: RecordColumns


class _StoppedError(Exception):
    """Nobody takes parts any more."""


def read_live(settings: ClusterSettings, pieces: Sequence[Piece], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some ranges, one after the other, as a ``read_committed`` consumer sees them.

    Raises:
        SourceTruncatedError: the log's start has moved past what was planned.
        TopicRecreatedError: the topic was deleted, and made anew, since.
        MirrorlakeError: it could not be read.
    """
    keep_freed_memory()  # answers and columns of the same size follow one another
    pump = _Pump(settings, pieces)
    try:
        while (part := pump.take()) is not None:
            yield from rows_of(part.records, topic=part.piece.topic, partition=part.piece.partition, names=names)
    finally:
        pump.stop()


class _Pump:
    """Fetches ranges in a thread of its own, with an event loop of its own.

    Args:
        settings: of the cluster.
        pieces: what to fetch, in order.
    """

    def __init__(self, settings: ClusterSettings, pieces: Sequence[Piece]) -> None:
        self._settings = settings
        self._pieces = pieces
        self._parts: queue.Queue[_Part | BaseException | None] = queue.Queue(PARTS_AHEAD_MAX)
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="live-read", daemon=True)
        self._thread.start()

    def take(self) -> _Part | None:
        """Returns the next part; None behind the last one.

        Raises:
            MirrorlakeError: what ended the fetching.
        """
        item = self._parts.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def stop(self) -> None:
        """Ends the fetching, wherever it is."""
        self._is_stopped.set()
        self._thread.join()

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            asyncio.run(self._fetch_all())
        except _StoppedError:
            return
        except Exception as error:  # noqa: BLE001  It is raised again by who takes.
            end = error
        try:
            self._put(end)
        except _StoppedError:
            return

    def _put(self, item: _Part | BaseException | None) -> None:
        while not self._is_stopped.is_set():
            try:
                self._parts.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return
        raise _StoppedError

    async def _fetch_all(self) -> None:
        for piece in self._pieces:
            position, failures = piece.offsets.start_offset, 0
            while True:
                try:
                    async with ClusterClient(self._settings) as client:
                        await check_topic(client, piece.topic, piece.topic_id)
                        offsets = OffsetRange(start_offset=position, end_offset=piece.offsets.end_offset)
                        async for records in read_range(client, TopicPartition(piece.topic, piece.partition), offsets):
                            self._put(_Part(piece, records))
                            position, failures = int(records.offsets[-1]) + 1, 0
                    break
                except TransientError:
                    failures += 1
                    if failures > FAILURES_MAX:
                        raise
                    await asyncio.sleep(_PAUSE_SECONDS * 2 ** (failures - 1))


async def check_topic(client: ClusterClient, topic: str, topic_id: str) -> None:
    """Checks that a topic is the one a read was planned for; without an id, that it is there.

    Raises:
        TopicRecreatedError: it is another one of the same name.
        TopicMissingError: it is gone.
        MirrorlakeError: the cluster could not be asked.
    """
    metadata = await client.metadata((topic,), refresh=True)
    where = f"topic {topic} in cluster {client.settings.name!r}"
    if topic in metadata.errors:
        raise metadata.errors[topic]
    if topic not in metadata.topics:
        raise TopicMissingError(f"{where} is gone since the read was planned", topic=topic)
    found = metadata.topics[topic].topic_id
    if topic_id and found and found != topic_id:
        raise TopicRecreatedError(
            f"{where} was deleted and made anew since the read was planned: its id was {topic_id}, and is {found}",
            hint="its offsets mean other records now: begin anew, a stream with another checkpoint",
            topic=topic,
        )
