"""A source that no longer has offset 0: the destination begins where it begins, at the same offset.

What lies before is filled by fillers and deleted at once (DeleteRecords), so that no consumer is ever shown one. A
crash between the two leaves fillers at the start of the log; the next owner finds them there and deletes them.
"""

import asyncio

from mirrorlake.errors import MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.batches import walk
from mirrorlake.kafka.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.error_codes import POLICY_VIOLATION
from mirrorlake.kafka.fetch import READ_UNCOMMITTED
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

    async def delete_before(self, offset: int) -> None:
        """Deletes all below ``offset``; again changes nothing.

        A topic that is only compacted refuses that (POLICY_VIOLATION), whoever asks: its cleaner takes aborted data
        by itself, and they stay until then.

        Raises:
            PermissionDeniedError: the user may not delete records there.
            MirrorlakeError: it was not done.
        """
        for pause_seconds in _PAUSES_SECONDS:
            found = (await self._client.delete_records({self._partition: offset}))[self._partition]
            if isinstance(found, MirrorlakeError) and found.facts.get("code") == POLICY_VIOLATION:
                return
            if not isinstance(found, SourceTruncatedError):
                break
            # Only what all replicas in sync have can be deleted; the last marker is on its way to them.
            await asyncio.sleep(pause_seconds)
        _known(found)

    async def delete_fillers(self, position: int) -> bool:
        """Deletes the fillers with which the log begins, as long as something else follows them below ``position``.

        Returns:
            True where nothing else follows: the log is still being filled up to the source's log start. They are
            left then, because they say so.

        Raises:
            MirrorlakeError: the log could not be read, or nothing deleted.
        """
        start = await self.read()
        end = await self._fillers_end(start, position)
        if start < end < position:
            await self.delete_before(end)
        return start < end == position

    async def holds_only_fillers(self, position: int) -> bool:
        """Returns whether the log holds fillers from offset 0 to ``position``, and nothing else.

        Raises:
            MirrorlakeError: the log could not be read.
        """
        return await self.read() == 0 and await self._fillers_end(0, position) == position

    async def _fillers_end(self, start: int, position: int) -> int:
        """Returns where the run of fillers and markers at ``start`` ends, ``start`` where no filler is in it."""
        has_filler = False
        at = start
        while at < position:
            frame, answer = await self._client.fetch_once(
                self._partition, at, max_bytes=_READ_BYTES, isolation_level=READ_UNCOMMITTED
            )
            with frame:
                before = at
                for batch in walk(answer.records):
                    header = batch.header
                    if not (header.is_transactional or header.is_control) or header.next_offset > position:
                        return at if has_filler else start
                    has_filler = has_filler or not header.is_control
                    at = max(at, header.next_offset)
                if at == before:
                    break
        return at if has_filler else start


def _known(found: int | MirrorlakeError) -> int:
    if isinstance(found, MirrorlakeError):
        raise found
    return found
