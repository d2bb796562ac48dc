"""What waits at one partition of a copy that keeps offsets: batches, gaps to fill, dead letters to write, in order."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from mirrorlake.destinations.append_channel import Append
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.offsets import Gap, OffsetRange


@dataclass(slots=True)
class Fill:
    """A gap that waits in the queue; grows while further gaps follow it directly."""

    gap: Gap
    timestamp_ms: int | None = None
    deletes: bool = False


@dataclass(slots=True)
class WaitingLetters:
    """Dead letters that wait in the queue, before the gaps their records leave; in offset order."""

    letters: list[Letters]

    @property
    def size_bytes(self) -> int:
        """About what they take in memory."""
        return sum(each.size_bytes for each in self.letters)


QueueItem = Append | Fill | WaitingLetters


class SendQueue:
    """A queue of which the head may be *in work*: a gap being filled, letters being written. Those are not changed.

    Attributes:
        is_head_in_work: whether it is.
        held_bytes: of the batches that wait, and of those handed out and not let go of.
        letter_bytes: of the letters that wait.
        gaps: how many wait, or are being filled: what is put now is sent after them.
    """

    def __init__(self) -> None:
        self.is_head_in_work = False
        self.held_bytes = 0
        self.letter_bytes = 0
        self._items: deque[QueueItem] = deque()
        self.gaps = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def head(self) -> QueueItem | None:
        """What comes next; None where nothing waits."""
        return self._items[0] if self._items else None

    def put(self, append: Append) -> None:
        """Puts a batch behind all others; a gap before it that knows no time takes its."""
        last = self._items[-1] if self._items else None
        if isinstance(last, Fill) and last.timestamp_ms is None:
            last.timestamp_ms = append.max_timestamp_ms  # a record's; the header's base may be a delete horizon
        self._items.append(append)
        self.held_bytes += append.size_bytes

    def put_fill(self, fill: Fill) -> None:
        """Puts a gap behind all others, joined with one of its kind right before it."""
        last = next(self._changeable(), None)
        if isinstance(last, Fill) and last.gap.kind is fill.gap.kind:
            joined = OffsetRange(start_offset=last.gap.offsets.start_offset, end_offset=fill.gap.offsets.end_offset)
            last.gap = Gap(offsets=joined, kind=last.gap.kind)
        else:
            self._items.append(fill)
            self.gaps += 1

    def put_letters(self, letters: Letters) -> None:
        """Puts letters where others wait already, so that one transaction writes them; else behind all others."""
        self.letter_bytes += letters.size_bytes
        for item in self._changeable():
            if isinstance(item, WaitingLetters):
                item.letters.append(letters)
                return
        self._items.append(WaitingLetters([letters]))

    def _changeable(self) -> Iterator[QueueItem]:
        """Yields what is not in work, from the end on."""
        for number, item in enumerate(reversed(self._items), 1):
            if number < len(self._items) or not self.is_head_in_work:
                yield item

    def take(self) -> None:
        """Takes the head out, which is done with or handed out."""
        head = self._items.popleft()
        self.is_head_in_work = False
        if isinstance(head, Fill):
            self.gaps -= 1
        elif isinstance(head, WaitingLetters):
            self.letter_bytes -= head.size_bytes

    def let_go(self, append: Append) -> None:
        """Gives up what a batch holds."""
        self.held_bytes -= append.size_bytes
        append.let_go()

    def drop(self, *, keeps_work: bool = False) -> None:
        """Forgets all that waits; what is in work stays where it is to be waited for."""
        kept = self.head if keeps_work and self.is_head_in_work else None
        for item in self._items:
            if isinstance(item, Append):
                self.let_go(item)
        self._items.clear()
        self.is_head_in_work = kept is not None
        self.gaps = int(isinstance(kept, Fill))
        self.letter_bytes = kept.size_bytes if isinstance(kept, WaitingLetters) else 0
        if kept is not None:
            self._items.append(kept)
