"""Writes a shard's own records, progress and pages of offset maps, and dead letters into its open transaction."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from mirrorlake.clock import Clock
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.map.marks.empty_mark import EMPTY_HEADER, encode_empty_mark
from mirrorlake.destinations.map.marks.route_mark import ROUTE_HEADER, encode_route_mark
from mirrorlake.destinations.map.marks.select_mark import SELECT_HEADER, encode_mark
from mirrorlake.destinations.map.progress import (
    MapPage,
    MapProgress,
    PageKey,
    ProgressKey,
    encode_page,
    encode_page_key,
    encode_progress,
    encode_progress_key,
)
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.transactions.own_records import KeyAndValue, columns_of
from mirrorlake.destinations.transactions.record_writer import RecordWriter
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint

Marks = list[tuple[bytes, bytes]]

NO_MARKS: Mapping[bytes, Marks] = MappingProxyType({})

PROGRESS_BATCH_BYTES_MAX = 512 << 10
"""Half of what a topic takes by default."""


class ProgressWriter:
    """Appends to the shard's own partitions under one identity.

    Args:
        session: whose open transaction the records are part of; the partitions are added by who writes.
        progress_partition: where the shard's progress is kept.
        pages_partition: where the full pages of its offset maps are kept.
        sequences: the next one that each of the partitions expects.
        clock: dates the records.
        crash_point: called before every append.
    """

    def __init__(
        self,
        session: TransactionSession,
        *,
        progress_partition: TopicPartition,
        pages_partition: TopicPartition,
        sequences: Mapping[TopicPartition, int],
        clock: Clock,
        crash_point: CrashPoint,
    ) -> None:
        self.progress_partition = progress_partition
        self.pages_partition = pages_partition
        self._clock = clock
        self._writer = RecordWriter(session, sequences, crash_point=crash_point)

    @property
    def progress_sequence(self) -> int:
        """The sequence that the next progress record gets; every transaction writes one."""
        return self._writer.sequence_of(self.progress_partition)

    async def write_progress(self, written: Iterable[tuple[ProgressKey, MapProgress]]) -> None:
        """Appends progress records.

        Raises:
            MirrorlakeError: as ``TransactionSession.produce``; the transaction must not be committed.
        """
        records: list[KeyAndValue] = []
        marks: dict[bytes, Marks] = {}
        for key, progress in written:
            key_bytes = encode_progress_key(key)
            records.append((key_bytes, encode_progress(progress)))
            said = (
                (SELECT_HEADER, encode_mark(progress.select)),
                (ROUTE_HEADER, encode_route_mark(progress.route)),
                (EMPTY_HEADER, encode_empty_mark(progress.empty_from)),
            )
            if held := [(name, mark) for name, mark in said if mark is not None]:
                marks[key_bytes] = held
        await self._write(self.progress_partition, records, marks=marks)

    async def write_pages(
        self, pages: Iterable[tuple[PageKey, MapPage]], *, forgotten: Collection[PageKey] = ()
    ) -> None:
        """Appends full pages, and takes those ``forgotten`` back.

        Raises:
            MirrorlakeError: as ``write_progress``.
        """
        records: list[KeyAndValue] = [(encode_page_key(key), encode_page(page)) for key, page in pages]
        records += [(encode_page_key(key), None) for key in forgotten]
        await self._write(self.pages_partition, records)

    def opens_letters(self, sequences: Mapping[TopicPartition, int]) -> None:
        """Takes partitions for dead letters, with the next sequence that each expects."""
        self._writer.opens(sequences)

    async def write_letters(self, partition: TopicPartition, letters: Letters, *, batch_bytes_max: int) -> None:
        """Appends dead letters to a partition that was opened for them and added to the transaction.

        Raises:
            MirrorlakeError: as ``write_progress``.
        """
        for columns in letters.parts(batch_bytes_max):
            await self._writer.append(partition, columns, codec=letters.codec, step=Step.SEND_LETTERS)

    async def _write(
        self, partition: TopicPartition, records: Iterable[KeyAndValue], *, marks: Mapping[bytes, Marks] = NO_MARKS
    ) -> None:
        """Appends records, those with marks by their keys, in as many batches as needed, one after the other."""
        part: list[KeyAndValue] = []
        size = 0
        for key, value in records:
            record_bytes = len(key) + len(value or b"")
            if part and size + record_bytes > PROGRESS_BATCH_BYTES_MAX:
                await self._append_own(partition, part, marks)
                part, size = [], 0
            part.append((key, value))
            size += record_bytes
        if part:
            await self._append_own(partition, part, marks)

    async def _append_own(
        self, partition: TopicPartition, records: list[KeyAndValue], marks: Mapping[bytes, Marks]
    ) -> None:
        headers = [marks.get(key, []) for key, _ in records] if marks else None
        columns = columns_of(records, int(self._clock.now_seconds() * 1000), headers=headers)
        await self._writer.append(partition, columns, codec=Codec.NONE, step=Step.SEND_PROGRESS)
