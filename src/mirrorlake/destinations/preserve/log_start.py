"""A source that no longer has offset 0: the destination begins where it begins, at the same offset.

What lies before is filled by fillers and deleted at once (DeleteRecords), so that no consumer is ever shown one. A
crash between the two leaves fillers at the start of the log; the next owner finds them there and deletes them, as far
as the source's log start: a gap with which the source itself begins is filled by fillers too, and its offsets stay.

Nothing is deleted that was not looked at. A filler is told by three things together: the producer id is one of ours,
its transaction was aborted, and no record in it has a value. What lacks one of them stays, and stops the partition.
"""

import asyncio

from mirrorlake.destinations.tail import check_is_readable
from mirrorlake.destinations.tail_check import REMEDY
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.wire.error_codes import POLICY_VIOLATION
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.offsets import TopicPartition

_READ_BYTES = 1 << 16
"""What one read asks for; a batch of fillers comes whole, however large."""

_PAUSES_SECONDS = (0.01, 0.05, 0.25, 1.0, 2.0)


class LogStart:
    """The beginning of one destination partition.

    Args:
        client: of the destination cluster.
        partition: of the destination.
    """

    def __init__(self, client: ClusterClient, partition: TopicPartition) -> None:
        self._client = client
        self._partition = partition

    async def read(self) -> int:
        """Returns the log start offset.

        Raises:
            MirrorlakeError: it could not be read.
        """
        return await self._client.offset_at(self._partition, EARLIEST)

    async def fillers_end(self, position: int, own: frozenset[int]) -> int:
        """Returns where the fillers end with which the log begins, exclusive; 0 where it begins with something else.

        They are those below the source's log start, of an owner who died before it deleted them, or of a gap with
        which the source itself begins. Reads only.

        Args:
            position: the log end, exclusive.
            own: every producer id that is ours.

        Raises:
            MirrorlakeError: the log could not be read.
        """
        start = await self.read()
        end = await self._fillers_end(start, position, own)
        return end if end > start else 0

    async def delete_all(self, before: int, own: frozenset[int]) -> None:
        """Deletes all below ``before``, which was filled by this mirror; what is not there any more changes nothing.

        A topic that is only compacted refuses that (POLICY_VIOLATION), whoever asks: its cleaner takes aborted data
        by itself, and they stay until then.

        Raises:
            DestinationForeignError: something else than fillers is there; nothing was deleted.
            PermissionDeniedError: the user may not delete records there.
            MirrorlakeError: it was not done.
        """
        start = await self.read()
        if before <= start:
            return
        end, _ = await self._look(start, before, own)
        if end < before:
            raise DestinationForeignError(
                f"destination {self._partition} was filled up to offset {before}, to be deleted below it, but the "
                f"record at offset {end} is none of this mirror's fillers",
                hint=REMEDY.replace("appended", "deleted"),
                position=before,
                differing_offset=end,
            )
        await self._delete_before(before)

    async def holds_only_fillers(self, position: int, own: frozenset[int]) -> bool:
        """Returns whether the log holds fillers from offset 0 to ``position``, and nothing else: the copy is new.

        Raises:
            MirrorlakeError: the log could not be read.
        """
        return await self.read() == 0 and await self._fillers_end(0, position, own) == position

    async def _fillers_end(self, start: int, position: int, own: frozenset[int]) -> int:
        """Returns where the run of fillers and markers at ``start`` ends, ``start`` where no filler is in it."""
        end, has_filler = await self._look(start, position, own)
        return end if has_filler else start

    async def _look(self, start: int, position: int, own: frozenset[int]) -> tuple[int, bool]:
        """Returns where what is ours and no record ends, from ``start`` to ``position``, and whether fillers are in it.

        Raises:
            BrokerNotReadyError: the broker does not show it all yet.
            MirrorlakeError: the log could not be read.
        """
        has_filler = False
        fillers = FillerTest(own)
        at = start
        while at < position:
            frame, answer = await fetch_known(
                self._client, self._partition, at, max_bytes=_READ_BYTES, isolation_level=READ_COMMITTED
            )
            with frame:
                before = at
                aborted = AbortedTransactions(answer.aborted)
                for batch in walk(answer.records):
                    is_aborted = aborted.is_aborted(batch)
                    if not (_holds_nothing(batch, own) or fillers.is_filler(batch, is_aborted=is_aborted)):
                        return at, has_filler
                    if batch.header.next_offset > position:
                        return at, has_filler
                    has_filler = has_filler or is_aborted
                    at = max(at, batch.header.next_offset)
                if at == before:
                    readable = check_is_readable(self._partition, position, answer)
                    await check_empty(self._client, self._partition, at, readable_end=readable)
                    break  # the cleaner has left nothing here, so nothing says that it was ours
        return at, has_filler

    async def _delete_before(self, offset: int) -> None:
        for pause_seconds in _PAUSES_SECONDS:
            found = (await self._client.delete_records({self._partition: offset}))[self._partition]
            if isinstance(found, MirrorlakeError) and found.facts.get("code") == POLICY_VIOLATION:
                return
            if not isinstance(found, SourceTruncatedError):
                break
            # Only what all replicas in sync have can be deleted; the last marker is on its way to them.
            await asyncio.sleep(pause_seconds)
        _known(found)


class FillerTest:
    """Tells our fillers from everything else. It remembers one, because those of a long gap are the same bytes.

    Args:
        own: every producer id that is ours.
    """

    def __init__(self, own: frozenset[int]) -> None:
        self._own = own
        self._seen: tuple[int, int, bytes] | None = None

    def is_filler(self, batch: Batch, *, is_aborted: bool) -> bool:
        """Tells whether a batch of a destination with equal offsets is one of our fillers.

        Args:
            batch: as it lies in the log.
            is_aborted: what the broker's list of aborted transactions says of it.

        Raises:
            CorruptBatchError: its records cannot be decoded.
        """
        header = batch.header
        if header.is_control or not (is_aborted and header.is_transactional and header.producer_id in self._own):
            return False
        same = (header.codec, header.record_count)
        if self._seen is not None and self._seen[:2] == same and batch.payload == self._seen[2]:
            return True
        # A tenth of a second for the longest ones, of which there are two hundred in a gap of the default's length.
        values = decode_batches([batch], start_offset=header.base_offset, end_offset=header.next_offset).values
        if values.null_count < len(values):
            return False
        self._seen = (*same, bytes(batch.payload))
        return True


def _holds_nothing(batch: Batch, own: frozenset[int]) -> bool:
    """Tells a marker of ours, or a batch of which the cleaner has left the header."""
    header = batch.header
    return header.producer_id in own if header.is_control else header.record_count == 0


def _known(found: int | MirrorlakeError) -> int:
    if isinstance(found, MirrorlakeError):
        raise found
    return found
