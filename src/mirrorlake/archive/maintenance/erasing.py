"""Taking records out of an archive: one segment without them in the place of several with them.

Order of effects: 1. read what every input says of itself; 2. write the output, hidden, without the records; 3. read the
inputs once more, and the output back: they differ by the records of these keys and by nothing else; 4. announce, look
again, write the audit object, and create the output if absent (`publication`); 5. compare the published file with what
was read back; 6. confirm that it stands, and that nobody is about to publish what was read before; 7. delete inputs.

A crash before 4 leaves a hidden file that is swept; before the output is there, an announcement, which the next run
finishes; from then on output and inputs, of which readers take the output, and the next run of any merger or eraser
deletes the inputs once it has proven that nothing but what the output calls erased is missing in it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import FileSum, SegmentFooter
from mirrorlake.archive.maintenance.cleaning import (
    check_gone,
    delete_covered,
    delete_orphaned_descriptions,
    delete_retired,
)
from mirrorlake.archive.maintenance.erase_audit import Erasure, record_erasure
from mirrorlake.archive.maintenance.erased_keys import Key, KeySet, WithoutKeys
from mirrorlake.archive.maintenance.joined_proof import prove_written, reread_segment
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.making import Input, SegmentMaking, Written
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.archive.maintenance.on_hold import HoldsOf, no_holds
from mirrorlake.archive.maintenance.proof import Content, content_without, naming_damaged_input
from mirrorlake.archive.maintenance.publication import MergePublication
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import StagedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What became of a group: its range, what was taken out of it, and how many inputs were deleted."""

    offsets: OffsetRange
    inputs: int
    records: int
    output_bytes: int
    deleted: int


class GroupErase:
    """Takes the records of some keys out of one group of neighbours of one partition.

    Args:
        archived: the partition.
        inputs: neighbours of its chain, at least two, the newest not among them.
        keys: whose records go.
        compression: of Parquet's pages.
        writer: who does it, for the output and the audit object.
        token: of this attempt alone; see `MergeName`.
        salt: of the hashes in the audit object; of one run.
        clock: tells when.
        holds: asked once more when the range is announced.
        crash_point: called before every step that touches the store; for tests.
    """

    def __init__(
        self,
        archived: ArchivedPartition,
        inputs: Sequence[Segment],
        keys: Collection[Key],
        *,
        compression: str,
        writer: str,
        token: str,
        salt: bytes,
        clock: Clock,
        holds: HoldsOf = no_holds,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._archived = archived
        self._segments = tuple(inputs)
        self._keys = tuple(keys)
        self._writer = writer
        self._token = token
        self._salt = salt
        self._clock = clock
        self._holds = holds
        self._making = SegmentMaking(archived, inputs, compression=compression, writer=writer, clock=clock)
        self._publication = MergePublication(
            archived, inputs, token=token, erases=True, now_seconds=clock.now_seconds, crash_point=crash_point
        )

    def run(self) -> Erased:
        """Erases. What it returns is done: no reader finds the records, and nobody who read them can publish them.

        Raises:
            SourceChangedError: the inputs are of two sources: take those before the offset it names, or behind it.
            ChainBrokenError: an input is damaged, or the output is not what was written; no input was deleted.
            PositionMovedError: a merger, another eraser, retention or a legal hold stands against it, or may: run
                again.
            MirrorlakeError: the store could not be read, or refuses.
        """
        inputs = self._making.read_inputs()
        left_out = WithoutKeys(self._keys)
        staged = self._publication.stage()
        try:
            with naming_damaged_input(self._archived, self._segments):
                made = self._making.write(staged.file, inputs, keep=left_out)
                written = self._prove(staged, made, inputs, left_out.runs)
            footer = made.footer
            self._publication.announce()
            self._check_holds()
            self._record(footer, left_out)
            if footer.file is not None:
                create_sidecar(self._archived.store, self._publication.key, footer)
            is_ours = self._publication.publish(staged)
        finally:
            staged.discard()
        if not is_ours:
            raise PositionMovedError(f"{self._publication.key} was published by another one meanwhile: run again")
        self._publication.check_published(written)
        self._publication.confirm()
        self._publication.release()
        return Erased(
            offsets=self._making.offsets,
            inputs=len(inputs),
            records=left_out.records,
            output_bytes=written.bytes,
            deleted=self._delete_inputs(),
        )

    def _prove(self, staged: StagedObject, made: Written, inputs: Sequence[Input], erased: OffsetRuns) -> FileSum:
        """Compares the hidden output with its inputs, and looks for the keys in it; returns the sum of its bytes."""
        where = f"{self._publication.key} before it was published"
        parts = [self._part(each, erased) for each in inputs]
        written = prove_written(staged, made, parts, extension=self._archived.extension, where=where)
        keys = KeySet(self._keys)
        with reread_segment(staged, self._archived.extension, made.footer, where=where) as reader:
            for columns in reader.records():
                if keys.rows(columns.keys).any():
                    raise ChainBrokenError(f"{where} still holds records that were to be erased")
        return written

    def _part(self, each: Input, erased: OffsetRuns) -> Content:
        own = erased.within(each.segment.name.offsets)
        if not len(own):
            return each.content
        part = content_without(self._archived, each.segment, own)
        if part is None:
            raise PositionMovedError(f"{self._archived.prefix}: {each.segment.name} was merged or retired meanwhile")
        if part.records + own.offset_count != each.content.records:
            raise ChainBrokenError(
                f"{self._archived.prefix}/{each.segment.name} holds {each.content.records} records, of which "
                f"{own.offset_count} were to be erased, and {part.records} are left",
                hint="`mirrorlake archive check --level checksums` says more",
            )
        return part

    def _check_holds(self) -> None:
        if labels := self._holds(self._making.offsets):
            self._publication.release()
            raise PositionMovedError(
                f"{self._archived.prefix}: {self._making.offsets} is held by {', '.join(labels)} since a moment ago"
            )

    def _record(self, footer: SegmentFooter, left_out: WithoutKeys) -> None:
        if left_out.records:
            erasure = Erasure(
                name=self._publication.segment_name,
                inputs=self._segments,
                origin=Origin.of(footer),
                footer=footer,
                runs=left_out.runs,
                records=left_out.records,
                keys=left_out.found,
            )
            record_erasure(
                self._archived,
                erasure,
                token=self._token,
                salt=self._salt,
                writer=self._writer,
                now_seconds=self._clock.now_seconds(),
            )

    def _delete_inputs(self) -> int:
        """Deletes what the output stands for, proven a moment ago: no time is given to who still reads it."""
        look = look_at(self._archived)
        inputs = {each.name for each in self._segments}
        mine = replace(
            look,
            covered=tuple(each for each in look.covered if each.segment.name in inputs),
            # Retention that passed them meanwhile may have been killed before it deleted them.
            retired=tuple(each for each in look.retired if each.name in inputs),
        )
        covered = delete_covered(
            self._archived, mine, keep_seconds=0.0, now_seconds=self._clock.now_seconds(), prove=lambda *_: None
        )
        retired = delete_retired(self._archived, mine)
        gone = [*(each.segment for each in mine.covered), *mine.retired]
        delete_orphaned_descriptions(self._archived, look, gone=gone)
        check_gone(self._archived, inputs)
        return covered.files + retired.files
