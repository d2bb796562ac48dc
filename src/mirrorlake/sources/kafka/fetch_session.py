"""An incremental fetch session with one broker (KIP-227): what it was asked for, and what is to be changed of that.

A fetch of a thousand partitions names each of them, and so does its answer, also where one record has come. In a
session a request names only partitions whose offset is another than before, or that come or go; the answer, those that
have records, an error, or another high watermark or log start than the broker last told.

**What is not in an answer says nothing** of a partition: the answer was full, the broker held the client back, or a log
shows nothing at the offset although it goes on. So a session is only for partitions that are read to their ends. One of
which an answer says that it goes on behind what it brought ends the session, and the next request names everything
again (`BrokerReader`).

Source: ``FetchSession.scala`` of Apache Kafka 3.9 (``CachedPartition``, ``FetchManager``). A broker without room for
another session, or that knows none, answers with `NO_SESSION_ID`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.kafka.control.descriptions import parse_topic_id
from mirrorlake.kafka.wire.fetch_by_id import SessionStep
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.read_partition import ReadPartition

_EPOCH_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanges:
    """What a request tells the broker: partitions that come or have another offset, and those that go.

    ``ids`` has the 16 bytes of every topic of the session.
    """

    step: SessionStep
    asked: Sequence[ReadPartition]
    forgotten: Sequence[tuple[str, int]]
    ids: Mapping[str, bytes]


class FetchSession:
    """A session the broker has opened, as both sides know it.

    Args:
        session_id: as the broker calls it.
        opened_with: the partitions the broker answered for as it opened it, with the offsets they were asked for.
        ids: the 16 bytes of every topic of these; others come in with their partitions.
        share_bytes: how much is asked for of each partition.
    """

    def __init__(
        self,
        session_id: int,
        opened_with: Iterable[tuple[ReadPartition, int]],
        *,
        ids: Mapping[str, bytes],
        share_bytes: int,
    ) -> None:
        self.session_id = session_id
        self.share_bytes = share_bytes
        self.names = {topic_id: topic for topic, topic_id in ids.items()}
        self._ids = dict(ids)
        self._epoch = 0
        self._offsets: dict[TopicPartition, int] = {}
        self._partitions: dict[TopicPartition, ReadPartition] = {}
        for partition, offset in opened_with:
            self._offsets[partition.source] = offset
            self._partitions[partition.source] = partition

    def __len__(self) -> int:
        """Returns how many partitions it has."""
        return len(self._offsets)

    def admits(self, partition: ReadPartition) -> bool:
        """Returns whether a partition is in, or may come in: its topic has an id, and no other than others know."""
        if partition.source in self._offsets:
            return True
        if not partition.topic_id:
            return False
        topic, topic_id = partition.source.topic, parse_topic_id(partition.topic_id)
        if self._ids.get(topic, topic_id) != topic_id or self.names.get(topic_id, topic) != topic:
            return False
        self._ids[topic], self.names[topic_id] = topic_id, topic
        return True

    def partition(self, topic: str, number: int) -> ReadPartition | None:
        """Returns who takes an answer; None where it was not asked for."""
        return self._partitions.get(TopicPartition(topic, number))

    def changes(self, looked_at: Iterable[ReadPartition]) -> SessionChanges:
        """Returns what the next request says, as if it were sent: what some partitions want now, and have not told.

        Each of them is one that the session `admits`.

        A partition that wants nothing at the moment goes: its records would come again and again. It comes back as one
        of which the broker has told nothing.
        """
        asked: list[ReadPartition] = []
        forgotten: list[tuple[str, int]] = []
        for partition in looked_at:
            source, is_in = partition.source, partition.source in self._offsets
            if not partition.is_over and partition.wants_fetch:
                offset = partition.fetch_offset
                if not is_in:
                    self._partitions[source] = partition
                if not is_in or self._offsets[source] != offset:
                    asked.append(partition)
                    self._offsets[source] = offset
            elif is_in:
                forgotten.append((source.topic, source.partition))
                del self._offsets[source], self._partitions[source]
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return SessionChanges(
            step=SessionStep(self.session_id, self._epoch), asked=asked, forgotten=forgotten, ids=self._ids
        )
