"""What the reader of a broker and the readers of its partitions know of one another."""

from typing import Protocol

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.offsets import TopicPartition


class PinnedAnswer:
    """A fetch answer that gives its buffer back when the last pin is gone."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._pins = 1

    def pin(self) -> None:
        """Keeps the bytes for one more holder."""
        self._pins += 1

    def unpin(self) -> None:
        """Lets go; the last holder gives the buffer back to the pool."""
        self._pins -= 1
        if self._pins == 0:
            self._frame.release()


class ReadPartition(Protocol):
    """A partition as the reader sees it."""

    source: TopicPartition

    @property
    def topic_id(self) -> str:
        """The id the source topic must have; empty where its cluster gives none."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch the source's leader must lead in, −1 for any: after an election a log is looked at first."""
        ...

    @property
    def wants_fetch(self) -> bool:
        """True where the partition can take a delivery now."""
        ...

    @property
    def is_over(self) -> bool:
        """True where the partition needs nothing more in this lease."""
        ...

    @property
    def fetch_offset(self) -> int:
        """The offset to ask for next."""
        ...

    @property
    def is_at_end(self) -> bool:
        """True where all is read that there was when the broker last answered; False where it has not yet."""
        ...

    @property
    def is_steady(self) -> bool:
        """True where what it wants changes by answers only, and where `BrokerReader.changed` is told of it."""
        ...

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        """Takes what came for this partition; pins the frame if it keeps any of it.

        ``is_quiet`` says that what is not in it was not left out for want of room: the whole answer is empty, or the
        partition was the first to be asked for, which gets its first batch however large (KIP-74).
        """
        ...

    def fetch_failed(self, error: MirrorlakeError) -> None:
        """Learns that the broker could not be read."""
        ...
