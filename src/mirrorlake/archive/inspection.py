"""Looking at an archived partition without a source: its names, what its files say, and whether they are what they say.

Reads only, and finds everything that is wrong, not the first thing only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.ends.lost_end import claims_in, lost_newest
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.name_check import misplaced, without_last_record
from mirrorlake.archive.formats.registry import open_segment, open_under_any_name
from mirrorlake.archive.looks import same_complaint
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.names import (
    HOLD_PREFIX,
    NESTED_MAX,
    RESERVED_MARK,
    ClaimName,
    parse_claim_name,
    parse_partition_folder,
    parse_segment_name,
)
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.schemas.id_counts import check_schema_ids
from mirrorlake.archive.sidecar import FORMATS_OF_MIRROR_V3
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content
from mirrorlake.archive.topic_record import strays_in
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter
from mirrorlake.kafka.schema_ids.counts import sides_of
from mirrorlake.stores.object_store import PROBE_NAME, ObjectStore

Folder = ArchivedPartition | SnapshotPartition

FILE_SYSTEMS_OWN = "lost+found"
"""In the root of ext file systems, closed to all but the superuser; no topic has such a name."""


@dataclass(slots=True)
class NamesReport:
    """What the names of a partition say. ``position`` is the last segment's end; offsets are 0 where there is none.

    ``covered`` counts files that wait for their deletion: those that a larger one holds, or that were retired, and
    snapshots in whose place another one counts.
    ``floor`` is the offset below which all was retired.
    """

    segments: int = 0
    start_offset: int = 0
    position: int = 0
    size_bytes: int = 0
    claims: int = 0
    covered: int = 0
    floor: int = 0
    problems: list[MirrorlakeError] = field(default_factory=list)

    def take(self, segment: Segment) -> None:
        """Counts the next segment of the chain."""
        if not self.segments:
            self.start_offset = segment.name.from_offset
        self.segments += 1
        self.position = max(self.position, segment.name.end_offset)
        self.size_bytes += segment.size_bytes


def archived_folders(
    store: ObjectStore,
    *,
    pass_over: Callable[[str, MirrorlakeError], None],
    strays: Callable[[str, ChainBrokenError], None] | None = None,
) -> Iterator[tuple[str, int]]:
    """Yields the name and number of every partition folder of a store, in the order of names and then numbers.

    A name may be several folders, parted by slashes, as mirror-v3 lets it.

    Args:
        store: where to look.
        pass_over: told of each folder that cannot be looked into, and why: ``ConfigurationError`` where its name is
            none that mirrorlake writes.
        strays: told of each topic's folder, and of a folder in it that is no partition's and holds files of an archive.

    Raises:
        MirrorlakeError: the root could not be read.
    """
    for name in store.folders(""):
        if name != FILE_SYSTEMS_OWN:
            # What begins with `_` may be a topic's, or our own: neither has others below it.
            deeper = 0 if name.startswith("_") else NESTED_MAX - 1
            yield from _partition_folders(store, name, deeper, pass_over, strays)


def _partition_folders(
    store: ObjectStore,
    name: str,
    deeper: int,
    pass_over: Callable[[str, MirrorlakeError], None],
    strays: Callable[[str, ChainBrokenError], None] | None,
) -> Iterator[tuple[str, int]]:
    try:
        folders = {folder: parse_partition_folder(folder) for folder in store.folders(name)}
    except MirrorlakeError as error:
        pass_over(name, error)
        return
    for number in sorted(number for number in folders.values() if number is not None):
        yield name, number
    others = sorted(folder for folder, number in folders.items() if number is None)
    # Else a folder above those of topics, whose listing may be long.
    if strays is not None and (len(others) < len(folders) or any(folder.isdecimal() for folder in others)):
        try:
            for stray in strays_in(store, name, others):
                strays(name, stray)
        except MirrorlakeError as error:
            pass_over(name, error)
    for folder in others:
        if deeper and not folder.startswith("_"):
            yield from _partition_folders(store, f"{name}/{folder}", deeper - 1, pass_over, strays)


def extension_found(store: ObjectStore, prefix: str) -> str | None:
    """Returns the extension of the first segment of a partition's folder; None without any."""
    first = first_segment(store, prefix)
    return first.name.extension if first else None


def first_segment(store: ObjectStore, prefix: str) -> Segment | None:
    """Returns the first segment of a partition's folder, of whatever format."""
    for info in store.list(prefix):
        if name := parse_segment_name(info.name):
            return Segment(name=name, size_bytes=info.size_bytes)
    return None


def are_snapshots(store: ObjectStore, prefix: str) -> bool:
    """Tells whether the first file of a folder says that it is a snapshot; mirror-v3's do not say.

    Raises:
        MirrorlakeError: the store could not be read; a damaged file says nothing.
    """
    first = first_segment(store, prefix)
    if first is None:
        return False
    try:
        with open_under_any_name(store, f"{prefix}/{first.name}") as reader:
            return reader.footer is not None and reader.footer.snapshot is not None
    except ChainBrokenError:
        return False


def inspect_names(archived: Folder) -> NamesReport:
    """Walks all names of a partition.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    claims, report = claims_in(archived), _survey(archived)
    if report.problems:
        before, claims, report = report.problems, claims_in(archived), _survey(archived)
        report.problems = [now for now in report.problems if any(same_complaint(each, now) for each in before)]
    if not report.problems:
        report.problems += _missing_at_the_end(archived, claims, report.position)
    report.claims = len(claims)
    if not report.problems and isinstance(archived, ArchivedPartition):
        look = look_at(archived)
        report.covered, report.floor = len(look.covered) + len(look.retired), look.floor
    elif not report.problems and isinstance(archived, SnapshotPartition):
        report.covered = len(archived.replaced())
    report.problems += folders_in(archived)
    report.problems += _holds_in(archived)
    return report


def _holds_in(archived: Folder) -> Iterator[ChainBrokenError]:
    """Yields an error for each name that begins as a hold's does: here it keeps nothing, whatever one believes."""
    for info in archived.store.list(archived.prefix, start_after=HOLD_PREFIX[:-1]):
        if info.name.startswith(HOLD_PREFIX):
            yield ChainBrokenError(
                f"{archived.prefix}: {info.name!r} begins as a hold does, and holds nothing: holds lie in the topic's "
                "folder",
                hint="give the hold with `mirrorlake archive hold add`, and delete this",
                name=info.name,
            )


def folders_in(archived: Folder, *, also_reserved: bool = False) -> Iterator[ChainBrokenError]:
    """Yields an error for each folder that stands where only files do; readers go into it, or stumble over it.

    Listings of files do not show them. A partition on a file system of its own may have that one's.

    Args:
        archived: the partition's folder.
        also_reserved: whether those count that readers pass over by their names: there may be records in them.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    for name in archived.store.folders(archived.prefix):
        is_reserved = name.startswith(RESERVED_MARK) and parse_claim_name(name) is None
        if is_reserved and also_reserved:
            is_reserved = name.startswith(PROBE_NAME)
        if not is_reserved and name != FILE_SYSTEMS_OWN:
            yield ChainBrokenError(
                f"{archived.prefix}: {name!r} is a folder, and a partition's folder holds files only",
                hint="move it out of the folder",
                name=name,
            )


def _survey(archived: Folder) -> NamesReport:
    report = NamesReport()
    for segment in archived.survey(refuse=report.problems.append):
        report.take(segment)
    return report


def _missing_at_the_end(archived: Folder, claims: Sequence[ClaimName], position: int) -> Iterator[ChainBrokenError]:
    """Yields what says that a segment behind the last one was there; ``claims`` are of before ``position`` was read."""
    try:
        archived.read_chain()
        lost = lost_newest(archived, claims, position)
    except ChainBrokenError as error:
        lost = error
    if lost is not None:
        yield lost


def all_segments(archived: Folder) -> Iterator[Segment]:
    """Yields the segments of a chain as far as it is one; what is wrong with it is for `inspect_names`."""
    return archived.survey(refuse=_pass_over)


def footer_of(archived: Folder, segment: Segment) -> SegmentFooter | None:
    """Returns what a segment says about itself; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: damaged.
        MirrorlakeError: it could not be read.
    """
    with open_segment(archived.store, key_of(archived, segment)) as reader:
        return reader.footer


def check_segment(archived: Folder, segment: Segment) -> SegmentFooter | None:
    """Reads a segment whole and compares it with what it says and with its name.

    Args:
        archived: where it lies.
        segment: which.

    Returns:
        What it says of itself; None where mirror-v3 wrote it, or so it looks: `SourceContinuity` tells.

    Raises:
        ChainBrokenError: it was changed, cut, renamed or swapped; the text names it.
        MirrorlakeError: it could not be read.
    """
    if isinstance(archived, SnapshotPartition):
        footer = check_snapshot_content(archived, segment)
        if footer is not None:
            _check_place(archived, segment, footer)
        return footer
    key = key_of(archived, segment)
    with open_segment(archived.store, key) as reader:
        footer = reader.footer
        if footer is None:
            if segment.name.extension not in FORMATS_OF_MIRROR_V3:
                reader.check_content()  # its batches have checksums of their own
            _check_bare(archived, segment, reader)
            return None
        _check_place(archived, segment, footer)
        counted = footer.records + sum(footer.gap_offsets.values())
        if counted != len(footer.offsets):
            raise ChainBrokenError(
                f"{key} says of itself that {counted} offsets are records or gaps, of {len(footer.offsets)} it covers",
                hint="the file is damaged: put it back from a copy, or archive the range again",
                key=key,
            )
        _check_content(reader, footer, key)
    return footer


def _check_content(reader: SegmentReader, footer: SegmentFooter, key: str) -> None:
    """Compares all of a segment with what it says of itself, the schema ids of its records too."""
    counter = SchemaIdCounter(sides_of(footer.schema_ids))
    reader.check_content(each=counter.take)
    if counter.counts is not None and isinstance(reader, LogSegmentReader):
        for columns in reader.records():
            counter.take(columns)
    check_schema_ids(footer.schema_ids, counter.counts, where=key)


def _check_bare(archived: Folder, segment: Segment, reader: SegmentReader) -> None:
    """Checks a segment that says nothing of itself by its records: mirror-v3 wrote it, or so it looks."""
    key, last = key_of(archived, segment), None
    for columns in reader.records(within=None):
        low, last = int(columns.offsets[0]), int(columns.offsets[-1])
        if low < segment.name.from_offset or last > segment.name.to_offset:
            raise misplaced(key, f"holds offsets {low} to {last}", f"it covers {segment.name.offsets}")
    for topic, partition in sorted(reader.sources(), key=repr):
        if partition != archived.partition:
            raise misplaced(key, f"holds records of {topic}-{partition}", f"it holds partition {archived.partition}")
    if segment.name.extension in FORMATS_OF_MIRROR_V3 and last != segment.name.to_offset:
        raise without_last_record(key, segment.name)


def _check_place(archived: Folder, segment: Segment, footer: SegmentFooter) -> None:
    if footer.envelope.partition != archived.partition:
        holds = f"holds partition {footer.envelope.partition}"
        raise misplaced(key_of(archived, segment), holds, f"it holds partition {archived.partition}")


def key_of(archived: Folder, segment: Segment) -> str:
    """Returns the key of a segment in its store."""
    return f"{archived.prefix}/{segment.name}"


def _pass_over(error: ChainBrokenError) -> None:
    pass
