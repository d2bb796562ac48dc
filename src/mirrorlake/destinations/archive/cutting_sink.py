"""What the sinks of archive destinations have in common: files that are cut inside one lease, written in one thread.

A subclass says what a file is and where it ends; here is how a sink lives: filled in the encoder's thread, and given up
without anything unpublished staying behind. A finished file may be on its way to its store, in another thread, while
the next one is written; it is one at most, so that files of a partition are published one after the other.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import ClassVar, TypeVar

from mirrorlake.archive.claims import RangeClaim
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.destinations.archive.adoption import claim_ahead
from mirrorlake.destinations.interface import Delivery, Progress, PublishedSegment
from mirrorlake.destinations.orders import Orders
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.offsets import TopicPartition

T = TypeVar("T")

Published = tuple[PublishedSegment, SegmentFooter]
"""What comes of a publication: what to tell of it, and what the file says about itself."""


class CuttingSink(ABC):
    """A sink that reads up to an end and publishes files of what it read.

    Args:
        executor: one thread, where the lease's encoding happens.
        may_begin: False once the lease should begin no further file.
        changed: called when room, failure or the end changed.
    """

    is_endless = False
    needs_encoder = True
    reads_alone = False

    _written: ClassVar[str]
    """What is written, for messages."""

    def __init__(self, *, executor: Executor, may_begin: Callable[[], bool], changed: Callable[[], None]) -> None:
        self.progress = Progress()
        self.failure: MirrorlakeError | None = None
        self._executor = executor
        self._may_begin = may_begin
        self._changed = changed
        self._next_offset = 0
        self._claim: RangeClaim | None = None
        self._claimed_end: int | None = None
        self._leader_epoch: int | None = None
        self._is_done = False
        self._is_abandoned = False
        self._publishing: Future[Published] | None = None

    @property
    def next_offset(self) -> int:
        """The source offset the next delivery must start at."""
        return self._next_offset

    @property
    def has_room(self) -> bool:
        """Always: one delivery is taken in before the next one is."""
        return True

    @property
    @abstractmethod
    def wanted_end(self) -> int:
        """The source offset (exclusive) up to which it wants to read, as far as it is known now."""

    @property
    def is_done(self) -> bool:
        """True once what was due is published, or turned out not to be due."""
        return self._is_done

    async def deliver(self, delivery: Delivery) -> None:
        """Takes a delivery, publishing every file that is cut in it.

        Raises:
            CorruptBatchError: a batch is not what it claims to be; nothing of it is written.
            MirrorlakeError: the store refused, or what is written cannot hold a record.
        """
        try:
            await self._in_thread(lambda: self._take(delivery))
        except MirrorlakeError as error:
            self._drop()
            self.failure = error
            raise
        self._changed()

    @property
    def is_settled(self) -> bool:
        """True where no finished file is on its way, or its outcome is known."""
        return self._publishing is None

    async def settle(self) -> None:
        """Waits until the file on its way is published; without effect where there is none.

        Raises:
            MirrorlakeError: it was not; ``failure`` says so too.
        """
        if self._publishing is None:
            return
        over = asyncio.wrap_future(self._publishing)
        # Looked at whoever still waits, so that the loop does not report it as lost.
        over.add_done_callback(lambda over: over.cancelled() or over.exception())
        # Waited for and not awaited: who gives up waiting does not cancel it.
        await asyncio.wait([over])
        try:
            self._note_published()
        except MirrorlakeError as error:
            self.failure = self.failure or error
            raise

    async def end_encoding(self) -> None:
        """Drops what was not cut: nothing is open for this sink any more."""
        # In the thread, which may still be at work for a delivery that was cut short.
        await self._in_thread(self._drop)

    async def finish(self) -> None:
        """Drops what was not cut, and waits until all that was cut is published.

        Raises:
            MirrorlakeError: an earlier failure.
        """
        await self.end_encoding()
        with contextlib.suppress(MirrorlakeError):
            await self.settle()
        if self.failure is not None:
            raise self.failure

    async def stands(self) -> bool:
        """Returns False: it is not asked."""
        return False

    def drop_unsent(self) -> None:  # noqa: B027  nothing to do is the answer of every archive
        """Keeps everything: what is not cut is dropped by ``finish``."""

    def abandon(self) -> None:
        """Drops everything but what is published already; a thread still at work finds out before it publishes."""
        self._is_abandoned = True
        if self._publishing is not None and self._publishing.done():
            with contextlib.suppress(MirrorlakeError):  # it is not published then, and the position is read again
                self._note_published()
        # In the thread, behind what it is at: closed under its hands, a file's descriptor may belong to another file
        # or a connection by the time it writes. A thread that is shut down leaves the file to the sweep.
        with contextlib.suppress(RuntimeError):
            self._executor.submit(self._drop)

    async def _adopt(
        self, claim: RangeClaim, source: TopicPartition, orders: Orders, read_source_end: Callable[[], Awaitable[int]]
    ) -> None:
        """Takes the end of another writer's claim for that of the next file, once the source has records up to it.

        Raises:
            ClaimAheadError, ChainBrokenError: it has not; see `claim_ahead`.
            MirrorlakeError: the source could not be asked.
        """
        if claim.end_offset > orders.read_end_offset:
            # Asked after the claim was read, so that no later end is taken for an earlier one.
            source_end = await read_source_end()
            if claim.end_offset > source_end:
                raise claim_ahead(claim, source=source, source_end=source_end, looks=orders.claim_looks)
        self._claim, self._claimed_end = claim, claim.end_offset

    async def _in_thread(self, work: Callable[[], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # Set before anybody can reuse the bytes the thread is reading: what it makes of them is not published.
            self._is_abandoned = True
            raise

    def _note_published(self) -> None:
        """Takes the outcome of the file on its way, waiting for it; called where nobody else looks at it meanwhile.

        Raises:
            MirrorlakeError: it was not published.
        """
        publishing, self._publishing = self._publishing, None
        if publishing is not None:
            published, footer = publishing.result()
            self.progress.position = published.offsets.end_offset
            self._note_segment(published, footer)

    # --- in the thread ------------------------------------------------------------------------------------

    @abstractmethod
    def _take(self, delivery: Delivery) -> None:
        """Writes a delivery, and publishes what is cut in it."""

    @abstractmethod
    def _drop(self) -> None:
        """Drops what was written and not published; without effect where there is nothing."""

    def _check_wanted(self) -> None:
        if self._is_abandoned:
            raise OutcomeUnknownError(f"the lease ended while a {self._written} was being written")

    def _note_batches(self, delivery: Delivery) -> None:
        for item in delivery.batches:
            self.progress.batches[f"{item.path}:{item.reason}"] += 1
            if item.batch.header.leader_epoch >= 0:
                self._leader_epoch = max(item.batch.header.leader_epoch, self._leader_epoch or 0)

    def _note_segment(self, published: PublishedSegment, footer: SegmentFooter | None) -> None:
        """Counts what was published."""
        assert footer is not None, "a published segment has a footer"
        self.progress.records += published.records
        self.progress.raw_bytes += published.raw_bytes
        for kind, offsets in footer.gap_offsets.items():
            self.progress.gap_offsets[kind.value] += offsets
        if footer.timestamp_ms_min is not None and footer.timestamp_ms_max is not None:
            self.progress.saw_timestamps(footer.timestamp_ms_min, footer.timestamp_ms_max)
        self.progress.flushes.append(published)
