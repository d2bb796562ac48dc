"""Making one segment of several, and putting it in their place.

Order of effects: 1. read what every input says of itself, and whether they are of one source; 2. write the output,
hidden, input by input; 3. read it back and compare it with what the inputs say they hold; 4. announce, look again, and
create the output if absent (`publication`); 5. compare the published file with what was read back; 6. delete the
inputs, unless they are kept for a while.

A crash before 4 leaves a hidden file that is swept; between 4 and 6 output and inputs, of which readers take the
output; the next run of any merger goes on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.parquet_copying import COPIED_GROUP_BYTES_MIN
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.maintenance.cleaning import delete_covered, delete_orphaned_descriptions
from mirrorlake.archive.maintenance.joined_proof import prove_written
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.making import EveryRecord, SegmentMaking
from mirrorlake.archive.maintenance.offset_runs import OffsetRuns
from mirrorlake.archive.maintenance.proof import (
    Content,
    naming_damaged_input,
    prove_holds,
    proven_content,
)
from mirrorlake.archive.maintenance.publication import MergePublication
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.clock import Clock
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a group: the name of its output and its size, and how many inputs were deleted."""

    offsets: OffsetRange
    inputs: int
    input_bytes: int
    output_bytes: int
    records: int
    deleted: int
    is_ours: bool


class GroupMerge:
    """Merges one group of neighbours of one partition.

    Args:
        archived: the partition.
        inputs: neighbours of its chain, at least two, the newest not among them.
        compression: of Parquet's pages.
        writer: who does it, for the output.
        token: of this attempt alone; see `MergeName`.
        clock: tells when.
        copied_bytes_min: from which size on row groups of Parquet are copied; see `COPIED_GROUP_BYTES_MIN`.
        crash_point: called before every step that touches the store; for tests.
    """

    def __init__(
        self,
        archived: ArchivedPartition,
        inputs: Sequence[Segment],
        *,
        compression: str,
        writer: str,
        token: str,
        clock: Clock,
        copied_bytes_min: int = COPIED_GROUP_BYTES_MIN,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._archived = archived
        self._segments = tuple(inputs)
        self._clock = clock
        self._making = SegmentMaking(
            archived, inputs, compression=compression, writer=writer, clock=clock, copied_bytes_min=copied_bytes_min
        )
        self._publication = MergePublication(
            archived, inputs, token=token, now_seconds=clock.now_seconds, crash_point=crash_point
        )

    def run(self, *, deletes_inputs: bool, tidies_up: bool = True) -> Merged:
        """Merges; ``deletes_inputs`` unless they are to stay for a while.

        Without ``tidies_up`` the caller looks at the folder once for all its merges of it, and deletes announcements
        and descriptions that nobody needs, and outputs that came too late.

        Raises:
            SourceChangedError: the inputs are of two sources: merge those before the offset it names, or behind it.
            ChainBrokenError: an input is damaged, or the output is not what was written; no input was deleted.
            PositionMovedError: another merger, an eraser or retention was here meanwhile; nothing was published.
            StoreUnusableError: the store has lost what was published; no input was deleted.
            MirrorlakeError: the store could not be read, or refuses.
        """
        inputs = self._making.read_inputs()
        staged = self._publication.stage()
        try:
            where = f"{self._publication.key} before it was published"
            parts = [each.content for each in inputs]
            with naming_damaged_input(self._archived, self._segments):
                made = self._making.write(staged.file, inputs, keep=EveryRecord())
                written = prove_written(staged, made, parts, extension=self._archived.extension, where=where)
            footer = made.footer
            self._publication.announce()
            if footer.file is not None:
                create_sidecar(self._archived.store, self._publication.key, footer)
            is_ours = self._publication.publish(staged)
        finally:
            staged.discard()
        if is_ours:
            self._publication.check_published(written)
        self._publication.release()
        return Merged(
            offsets=self._making.offsets,
            inputs=len(inputs),
            input_bytes=sum(each.segment.size_bytes for each in inputs),
            output_bytes=written.bytes,
            records=footer.records,
            deleted=self._deleted(deletes_inputs=deletes_inputs, tidies_up=tidies_up) if is_ours else 0,
            is_ours=is_ours,
        )

    def _deleted(self, *, deletes_inputs: bool, tidies_up: bool) -> int:
        """Deletes inputs, and returns how many.

        No look is needed for these: what was published and compared holds them, and it goes itself only where a larger
        one is proven to hold it.
        """
        if tidies_up:
            return self._tidy_up(deletes_inputs=deletes_inputs)
        for each in self._segments if deletes_inputs else ():
            self._archived.store.delete(f"{self._archived.prefix}/{each.name}")
        return len(self._segments) if deletes_inputs else 0

    def _tidy_up(self, *, deletes_inputs: bool) -> int:
        """Deletes what the output covers, proven a moment ago; and the output, where it came too late.

        So late that a larger segment holds its range already, as to everybody else this merger looked dead. That one
        may be without records that were erased meanwhile: their bytes are not to lie here again.
        """
        look = look_at(self._archived)
        output = self._publication.segment_name
        is_late = any(each.segment.name == output for each in look.covered)
        names = {each.name for each in self._segments} if deletes_inputs else set()
        mine = replace(look, covered=tuple(each for each in look.covered if each.segment.name in names | {output}))
        cleaned = delete_covered(
            self._archived,
            mine,
            keep_seconds=0.0,
            now_seconds=self._clock.now_seconds(),
            prove=partial(prove_by_reading, self._archived) if is_late else lambda *_: None,
        )
        if not cleaned.flaws:
            delete_orphaned_descriptions(self._archived, look, gone=[each.segment for each in mine.covered])
        return cleaned.files


def prove_by_reading(archived: ArchivedPartition, cover: Segment, covered: Sequence[Segment]) -> None:
    """Proves that a published segment holds what those inside of it hold; see `cleaning.Prove`.

    But for records that were erased: those of offsets of which the larger segment says so, and those of which the
    smaller one does, where a merger that was late brought them back.

    Raises:
        ChainBrokenError: it does not, or one of them cannot be read: nothing may be deleted.
        ObjectMissingError: it was merged itself meanwhile.
        MirrorlakeError: the store could not be read.
    """
    key = f"{archived.prefix}/{cover.name}"
    with open_segment(archived.store, key) as reader:
        erased = OffsetRuns.erased_by(reader.footer)
        parts: list[Content] = []
        for segment in covered:
            if (content := proven_content(archived, segment, erased)) is not None:
                parts.append(content)
        prove_holds(reader, where=key, parts=parts)
