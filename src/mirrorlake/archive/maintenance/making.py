"""Making one segment of several neighbours: what they say of themselves, and their records in one file, input by input.

What is left out on the way is for a `RecordFilter` to say; a merger leaves out nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO, Protocol

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SELECTS_DIFFER, SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.interface import RecordWriter, SegmentReader, SegmentWriter
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import LogBatch, log_batch
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.named_segment import read_named_footer
from mirrorlake.archive.formats.parquet_copying import COPIED_GROUP_BYTES_MIN, copyable
from mirrorlake.archive.formats.parquet_joining import CopiedGroups, EncodedGroups, JoiningParquetWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import LOG, NDJSON, PARQUET, open_segment, record_writer
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredAccount
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merge_plan import MERGED_BYTES_MAX
from mirrorlake.archive.maintenance.proof import Content, content_of, said_by
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, undescribed
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError, CorruptBatchError, PermanentError, UnsupportedError
from mirrorlake.kafka.records.batches import Batch
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter, joined_counts
from mirrorlake.kafka.schema_ids.counts import common_sides
from mirrorlake.offsets import FOLLOWING_KINDS, Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression

_PUT_BYTES_MAX = 5_000_000_000
"""One conditional put holds 5 GiB on S3."""


KNOWN_GAPS_MAX = 200_000
"""Runs of offsets that a segment lists although they are not absent: some 10 MB of what it says of itself."""


class RecordFilter(Protocol):
    """What of the inputs goes into the segment; sees every record once, in offset order."""

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is ever left out, so that nobody need show it the records."""
        ...

    @property
    def gaps(self) -> Sequence[Gap]:
        """What was left out so far, in offset order."""
        ...

    def columns(self, columns: RecordColumns) -> RecordColumns:
        """Returns those of decoded records that stay."""
        ...

    def batches(self, batches: Sequence[Batch]) -> list[LogBatch]:
        """Returns those of a log's batches that stay; of one that stays in part, what is left as a batch of its own."""
        ...


class EveryRecord:
    """A merger's filter: everything stays, and a log's batches are not looked into."""

    @property
    def keeps_all(self) -> bool:
        """True."""
        return True

    @property
    def gaps(self) -> Sequence[Gap]:
        """Nothing."""
        return ()

    def columns(self, columns: RecordColumns) -> RecordColumns:
        """Returns them all."""
        return columns

    def batches(self, batches: Sequence[Batch]) -> list[LogBatch]:
        """Returns them all."""
        return [log_batch(batch) for batch in batches]


class SourceChangedError(PermanentError):
    """Two neighbouring segments are of different sources; ``offset`` is where the later one begins."""

    @property
    def offset(self) -> int:
        """Where the later one begins."""
        offset = self.facts["offset"]
        assert isinstance(offset, int), "made without its offset"
        return offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What an input says of itself, without its list of gaps that follow from the offsets."""

    segment: Segment
    footer: SegmentFooter | None
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A segment that was written: what it says of itself, and, of one that was joined, what lies in it in order."""

    footer: SegmentFooter
    sections: tuple[CopiedGroups | EncodedGroups, ...] = ()


class SegmentMaking:
    """Makes one segment of some neighbours of one partition.

    Args:
        archived: the partition.
        inputs: neighbours of its chain, at least two, the newest not among them.
        compression: of Parquet's pages.
        writer: who does it, for the output.
        clock: tells when.
        copied_bytes_min: from which size on row groups are copied; see `COPIED_GROUP_BYTES_MIN`.
    """

    def __init__(
        self,
        archived: ArchivedPartition,
        inputs: Sequence[Segment],
        *,
        compression: str,
        writer: str,
        clock: Clock,
        copied_bytes_min: int = COPIED_GROUP_BYTES_MIN,
    ) -> None:
        assert len(inputs) >= 2, "one segment alone keeps its name, and a name means one content for ever"
        self._archived = archived
        self._segments = tuple(inputs)
        self._compression = compression
        self._writer = writer
        self._clock = clock
        self._copied_bytes_min = copied_bytes_min
        self._filtered = NOTHING_FILTERED
        self.offsets = OffsetRange(start_offset=inputs[0].name.from_offset, end_offset=inputs[-1].name.end_offset)

    def read_inputs(self) -> list[Input]:
        """Returns what the inputs say of themselves.

        Raises:
            SourceChangedError: they are of two sources: take those before the offset it names, or behind it.
            ChainBrokenError: one is damaged, or gone.
            UnsupportedError: one is a snapshot.
            MirrorlakeError: the store could not be read.
        """
        inputs: list[Input] = []
        filtered = FilteredAccount()
        first: Origin | None = None
        bare: list[Segment] = []
        for segment in self._segments:
            key = self._key(segment)
            footer = self._named_footer(segment)
            if footer is None:
                content = content_of(self._archived, segment)
                if content is None:
                    raise _gone(key)
                inputs.append(Input(segment=segment, footer=None, content=content))
                bare.append(segment)
                continue
            self._check_no_description_is_lost(bare, footer)
            bare.clear()
            if footer.snapshot is not None:
                raise UnsupportedError(f"{key} is a snapshot: each is whole, so there is nothing to merge")
            origin = Origin.of(footer)
            if first is not None and not origin.agrees_with(first):
                raise SourceChangedError(
                    f"{key} holds records of {origin}, and those before it of {first}",
                    hint="they are never merged; `mirrorlake archive check` says more",
                    offset=segment.name.from_offset,
                )
            first = origin if first is None else first.completed_by(origin)
            content = said_by(footer, segment, key=key)
            filtered.add(footer.gaps, footer.gap_offsets.get(GapKind.FILTERED, 0))
            known = tuple(gap for gap in footer.gaps if gap.kind not in FOLLOWING_KINDS)
            inputs.append(Input(segment=segment, footer=replace(footer, gaps=known), content=content))
        if bare and (following := self._following()) is not None:
            self._check_no_description_is_lost(bare, self._named_footer(following))
        self._filtered = filtered.until(self.offsets.end_offset)
        return inputs

    def _named_footer(self, segment: Segment) -> SegmentFooter | None:
        """Returns what a segment says of itself; what says nothing must begin and end as mirror-v3's files do."""
        store, prefix, partition = self._archived.store, self._archived.prefix, self._archived.partition
        return read_named_footer(store, prefix, segment, partition=partition, is_snapshot=False)

    def _check_no_description_is_lost(self, bare: Sequence[Segment], footer: SegmentFooter | None) -> None:
        """Checks that the segment behind ``bare`` ones knows that mirror-v3 wrote them.

        Raises:
            ChainBrokenError: it does not: merged, nobody could tell any more what they have lost.
        """
        keys = [self._key(each) for each in bare if each.name.extension in FORMATS_WITH_SIDECAR]
        if keys and footer is not None and footer.seal is not None and not footer.envelope.follows_mirror_v3:
            raise undescribed(keys[0], keys[-1])

    def _following(self) -> Segment | None:
        end = self.offsets.end_offset
        return next((each for each in look_at(self._archived).chain if each.name.from_offset == end), None)

    def write(self, file: BinaryIO, inputs: Sequence[Input], *, keep: RecordFilter) -> Written:
        """Writes what the inputs hold, but for what the filter leaves out, and returns what was written.

        Where nothing is left out, row groups of Parquet are copied as they are, if that is as good as encoding them.

        Raises:
            ChainBrokenError: the inputs do not fit together, or one is damaged; the file is nothing then.
            UnsupportedError: it becomes larger than one conditional put can hold.
            MirrorlakeError: the store could not be read.
        """
        envelope = self._envelope(inputs)
        epochs = [each.footer.leader_epoch for each in inputs if each.footer is not None]
        known = [gap for each in inputs if each.footer is not None for gap in each.footer.gaps]
        said = [None if each.footer is None else each.footer.schema_ids for each in inputs]
        counter = None if keep.keeps_all else SchemaIdCounter(common_sides(said))
        writer: SegmentWriter
        sections: Sequence[CopiedGroups | EncodedGroups] = ()
        if self._archived.extension == LOG:
            writer = log = LogSegmentWriter(file, envelope)
            pieces = self._log_pieces(log, keep, counter)
        elif self._archived.extension == PARQUET and keep.keeps_all:
            compression = Compression(self._compression)
            writer = joining = JoiningParquetWriter(file, envelope, compression=compression)
            pieces, sections = self._joined_pieces(joining, envelope, compression), joining.sections
        else:
            assert self._archived.extension in (PARQUET, NDJSON)
            writer = records = record_writer(self._archived.extension, file, envelope, compression=self._compression)
            pieces = self._record_pieces(records, keep, counter)
        try:
            for _ in pieces:
                self._check_size(file.tell())
            gaps = _joined(sorted([*known, *keep.gaps]))
            self._check_gaps(len(gaps))
            footer = writer.close(
                end_offset=self.offsets.end_offset,
                gaps=gaps,
                leader_epoch=next((epoch for epoch in reversed(epochs) if epoch is not None), None),
                filtered=self._filtered,
                # Of records that all stay nothing need be counted again: a log's are not even decoded.
                schema_ids=joined_counts(said) if counter is None else counter.counts,
            )
            return Written(footer=footer, sections=tuple(sections))
        except (CorruptBatchError, ValueError) as error:
            writer.abandon()
            raise ChainBrokenError(
                f"{self._archived.prefix}: the segments of {self.offsets} do not fit together: {error}",
                hint="`mirrorlake archive check --level checksums` says which",
            ) from error
        except BaseException:
            writer.abandon()
            raise

    def _envelope(self, inputs: Sequence[Input]) -> SegmentEnvelope:
        said = [each.footer.envelope for each in inputs if each.footer is not None]
        topic = self._topic_of_bare([each.segment for each in inputs if each.footer is None], said)
        return SegmentEnvelope(
            cluster_id=next((each.cluster_id for each in said if each.cluster_id), ""),
            topic_id=next((each.topic_id for each in said if each.topic_id), None),
            topic=topic,
            partition=self._archived.partition,
            start_offset=self.offsets.start_offset,
            writer=self._writer,
            created_at=datetime.fromtimestamp(self._clock.now_seconds(), UTC).isoformat(timespec="milliseconds"),
            follows_mirror_v3=self._follows_mirror_v3(inputs[0]),
            select=_select_of(inputs),
        )

    def _topic_of_bare(self, bare: Sequence[Segment], said: Sequence[SegmentEnvelope]) -> str:
        """Returns whose records these are; where a segment does not say it, mirror-v3 has it in every record.

        Raises:
            ChainBrokenError: records of another topic or partition are among them.
        """
        found = {(each.topic, self._archived.partition) for each in said}
        for segment in bare:
            with open_segment(self._archived.store, self._key(segment)) as reader:
                found |= reader.sources()
        topics = {topic for topic, _ in found}
        if len(topics) != 1 or {partition for _, partition in found} != {self._archived.partition}:
            raise ChainBrokenError(
                f"{self._archived.prefix}: the records of {self.offsets} are of {sorted(found)}",
                hint="files were swapped: put the right ones back",
            )
        return topics.pop()

    def _follows_mirror_v3(self, first: Input) -> bool:
        if first.footer is not None:
            return first.footer.envelope.follows_mirror_v3
        before = None
        for segment in look_at(self._archived).chain:
            if segment.name.end_offset == self.offsets.start_offset:
                before = segment
        if before is None:
            return False
        with open_segment(self._archived.store, self._key(before)) as reader:
            return reader.footer is None

    def _record_pieces(
        self, writer: RecordWriter, keep: RecordFilter, counter: SchemaIdCounter | None
    ) -> Iterator[None]:
        for reader in self._readers():
            _check_seal(reader)
            for columns in reader.records():
                if len(kept := keep.columns(columns)):
                    writer.write(kept)
                    if counter is not None:
                        counter.take(kept)
                yield

    def _joined_pieces(
        self, writer: JoiningParquetWriter, envelope: SegmentEnvelope, compression: Compression
    ) -> Iterator[None]:
        for segment, reader in zip(self._segments, self._readers(), strict=True):
            whole = None
            if isinstance(reader, ParquetSegmentReader):
                where, bytes_min = self._key(segment), self._copied_bytes_min
                whole = copyable(reader, envelope, compression=compression, bytes_min=bytes_min, where=where)
            if whole is not None:
                yield from writer.copy(whole)
                continue
            _check_seal(reader)
            for columns in reader.records():
                writer.write(columns)
                yield

    def _log_pieces(
        self, writer: LogSegmentWriter, keep: RecordFilter, counter: SchemaIdCounter | None
    ) -> Iterator[None]:
        for reader in self._readers():
            assert isinstance(reader, LogSegmentReader)
            for batches in reader.batches():
                kept = keep.batches(batches)
                writer.write(kept)
                if counter is not None and counter.counts is not None:
                    for columns in reader.decoded([each.batch for each in kept]):
                        counter.take(columns)
                yield

    def _readers(self) -> Iterator[SegmentReader]:
        for segment in self._segments:
            with open_segment(self._archived.store, self._key(segment)) as reader:
                yield reader

    def _check_gaps(self, count: int) -> None:
        if count > KNOWN_GAPS_MAX:
            raise UnsupportedError(
                f"{self._archived.prefix}: {self.offsets} would have {count} runs of erased or truncated offsets, and "
                f"one segment lists {KNOWN_GAPS_MAX} at most: its segments stay as they are, with their records",
                hint="erase fewer keys at a time, to see whose records are that many; for the others copy the archive "
                "into smaller files (a mirror with `source: {store: …}` and a lower `flush.max-bytes`), erase there, "
                "and delete this one",
            )

    def _check_size(self, written_bytes: int) -> None:
        if written_bytes > _PUT_BYTES_MAX:
            raise UnsupportedError(
                f"{self._archived.prefix}: {self.offsets} becomes a file of more than {_PUT_BYTES_MAX} bytes",
                hint=f"lower `max-bytes` of the merge's steps (at most {MERGED_BYTES_MAX} bytes of inputs)",
            )

    def _key(self, segment: Segment) -> str:
        return f"{self._archived.prefix}/{segment.name}"


def _joined(gaps: Sequence[Gap]) -> list[Gap]:
    """Returns the gaps, those of one kind that meet as one."""
    joined: list[Gap] = []
    for gap in gaps:
        last = joined[-1] if joined else None
        if last is not None and last.kind is gap.kind and last.offsets.end_offset == gap.offsets.start_offset:
            offsets = OffsetRange(start_offset=last.offsets.start_offset, end_offset=gap.offsets.end_offset)
            joined[-1] = Gap(offsets=offsets, kind=gap.kind)
        else:
            joined.append(gap)
    return joined


def _check_seal(reader: SegmentReader) -> None:
    """Compares what will be decoded with its seal: gaps and leader epochs go along, and are in no checksum of records.

    Descriptions of the other formats are compared with theirs wherever they are read.

    Raises:
        ChainBrokenError: it is damaged.
        MirrorlakeError: the store could not be read.
    """
    if isinstance(reader, ParquetSegmentReader):
        reader.check_seal()


def _gone(key: str) -> ChainBrokenError:
    return ChainBrokenError(f"{key} is gone", hint="it was merged or retired meanwhile: run again", key=key)


def _select_of(inputs: Sequence[Input]) -> str:
    """Returns by which `select` the records of all inputs were made; those of mirror-v3 by none."""
    said = {each.footer.envelope.select if each.footer is not None else "" for each in inputs}
    return said.pop() if len(said) == 1 else SELECTS_DIFFER
