"""How far a copy is, seen from outside: nobody is asked but the destination."""

from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.brokers import BenchKafka
from bench.inputs import Input
from mirrorlake.archive.names import parse_segment_name


class Watch(Protocol):
    """Looks at a destination; to be entered before use."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def copied(self) -> int:
        """Returns how many records are there."""
        ...

    def has_begun(self, copied: int) -> bool:
        """Returns whether the copying has begun, where ``copied`` records are there: start-up ends with it."""
        ...


class TopicWatch:
    """A topic's end offsets; every record of the input has its own.

    Args:
        destination: the broker to ask.
        wanted: the input, whose name is the topic's.
    """

    def __init__(self, destination: BenchKafka, wanted: Input) -> None:
        self._partitions = [TopicPartition(wanted.name, number) for number in range(wanted.partitions)]
        self._servers = destination.bootstrap_servers
        self._consumer: AIOKafkaConsumer | None = None

    async def __aenter__(self) -> Self:
        self._consumer = AIOKafkaConsumer(bootstrap_servers=self._servers)
        await self._consumer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._consumer is not None:
            await self._consumer.stop()

    async def copied(self) -> int:
        """Returns the sum of the end offsets."""
        assert self._consumer is not None, "entered first"
        return sum((await self._consumer.end_offsets(self._partitions)).values())

    def has_begun(self, copied: int) -> bool:
        """With the first record."""
        return copied > 0


class ArchiveWatch:
    """The folder of one archived topic.

    Args:
        folder: holds a folder for each partition, once there is anything.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def copied(self) -> int:
        """Returns the records in published segments, which their names tell: the inputs have no gaps."""
        names = (parse_segment_name(file.name) for file in self._folder.glob("*/*-*.*"))
        return sum(name.to_offset + 1 - name.from_offset for name in names if name is not None)

    def has_begun(self, copied: int) -> bool:
        """With the first file, published or not: what is written before the first publication is copying too."""
        return copied > 0 or any(self._folder.glob("*/*"))


class PublishedWatch(ArchiveWatch):
    """The same, begun with the first published segment: what a store holds before it, not every store shows."""

    def has_begun(self, copied: int) -> bool:
        """With the first published segment."""
        return copied > 0
