"""What `mirrorlake archive ls` and `archive check` find out, in parallel, as rows for people and programs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.inspection import (
    NamesReport,
    all_segments,
    check_segment,
    footer_of,
    inspect_names,
    key_of,
)
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.maintenance.holds import Holds, read_holds, unreadable_hold
from mirrorlake.archive.maintenance.snapshot_publication import check_says_erased
from mirrorlake.archive.newest import newest_footer
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_covered, covered_segments
from mirrorlake.archive.source_continuity import SourceContinuity
from mirrorlake.archive.topic_record import recorded_origins
from mirrorlake.errors import MirrorlakeError
from mirrorlake.service.archives.places import ArchivePlace, Finding, doubt_about
from mirrorlake.stores.object_store import ObjectMissingError
from mirrorlake.stores.opening import open_store

Cell = str | int | None
Progressed = Callable[[int], None]
"""Called with the number of bytes of archive that have been dealt with."""

READS_AT_ONCE = 8
"""Files looked at side by side: enough to hide an object store's latency; each holds one row group in memory."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class PartitionReport:
    """One archived partition. ``contents`` are the footers' sums; None where footers were not read.

    ``bare`` is how many of the files that were read whole say nothing of themselves, so were compared with nothing.
    ``doubt`` is why retention, where it is configured, leaves the partition alone: it is not certain whose it is.
    """

    place: ArchivePlace
    archived: PartitionFolder | None = None
    names: NamesReport = field(default_factory=NamesReport)
    contents: "Contents | None" = None
    bare: int = 0
    holds: tuple[str, ...] = ()
    doubt: str = ""

    def fields(self) -> dict[str, Cell]:
        """Returns what every row of a report begins with."""
        archived, names = self.archived, self.names
        return {
            "name": self.place.name,
            "partition": self.place.partition,
            "store": self.place.store.where(""),
            "mirror": self.place.mirror,
            "format": archived.extension if archived is not None and names.segments else None,
            "segments": names.segments,
            "start": names.start_offset,
            "position": names.position,
            "bytes": names.size_bytes,
            "claims": names.claims,
            "covered": names.covered,
            "floor": names.floor,
            "holds": ", ".join(self.holds) or None,
            "doubt": self.doubt or None,
        }


@dataclass(slots=True)
class Contents:
    """What the footers of a partition add up to.

    ``records``, ``gap_offsets`` and times leave out the files without a footer, which are counted in ``unknown``.
    """

    records: int = 0
    gap_offsets: int = 0
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    unknown: int = 0

    def take(self, footer: SegmentFooter | None) -> None:
        """Adds a file's footer."""
        if footer is None:
            self.unknown += 1
            return
        self.records += footer.records
        self.gap_offsets += sum(footer.gap_offsets.values())
        low, high = footer.timestamp_ms_min, footer.timestamp_ms_max
        if low is not None:
            self.first_time_ms = low if self.first_time_ms is None else min(low, self.first_time_ms)
        if high is not None:
            self.last_time_ms = high if self.last_time_ms is None else max(high, self.last_time_ms)

    def as_json(self) -> dict[str, Cell]:
        """Returns the fields; counts are null where a file does not say."""
        is_known = not self.unknown
        return {
            "records": self.records if is_known else None,
            "gaps": self.gap_offsets if is_known else None,
            "first_time": _time(self.first_time_ms),
            "last_time": _time(self.last_time_ms),
        }


def finding_row(finding: Finding) -> dict[str, Cell]:
    """Returns the row of what is no partition folder, or none that is there: the same fields, as far as known."""
    return {
        "name": finding.name,
        "partition": finding.partition,
        "store": finding.store.where(""),
        "mirror": None,
        "format": None,
        "segments": 0,
        "start": 0,
        "position": 0,
        "bytes": 0,
        "claims": 0,
        "covered": 0,
        "floor": 0,
        "holds": None,
        "doubt": None,
    }


def read_names(places: Sequence[ArchivePlace]) -> list[PartitionReport]:
    """Reads the names of every partition, and its topic's holds; what does not answer is a problem of its partition."""
    topics = {(place.store, place.name): place for place in places}
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="archive-names") as pool:
        reports = list(pool.map(_read_names, places))
        found = dict(zip(topics, pool.map(_read_holds, topics.values()), strict=True))
    for report in reports:
        holds = found[report.place.store, report.place.name]
        if isinstance(holds, MirrorlakeError):
            report.names.problems.append(holds)
        else:
            report.holds = holds.labels(report.place.partition)
            where = report.place.store.where(report.place.name)
            report.names.problems += [unreadable_hold(where, name) for name in holds.unreadable]
    return reports


def _read_holds(place: ArchivePlace) -> Holds | MirrorlakeError:
    try:
        return read_holds(open_store(place.store), place.name)
    except MirrorlakeError as error:
        return error


def read_footers(
    reports: Sequence[PartitionReport],
    *,
    progressed: Progressed,
    each: Callable[[PartitionReport, Segment, SegmentFooter | None], None],
) -> None:
    """Reads every file's footer into its report's ``contents``, calling ``each`` in the order of the chains."""

    def read(pair: tuple[PartitionReport, Segment]) -> SegmentFooter | MirrorlakeError | None:
        report, segment = pair
        assert report.archived is not None
        try:
            return footer_of(report.archived, segment)
        except MirrorlakeError as error:
            return error

    for report in reports:
        report.contents = Contents()
    for (report, segment), footer in _in_order(read, _files(reports)):
        assert report.contents is not None
        if isinstance(footer, MirrorlakeError):
            report.names.problems.append(footer)
            footer = None
        report.contents.take(footer)
        each(report, segment, footer)
        progressed(segment.size_bytes)


def check_ends(reports: Sequence[PartitionReport]) -> None:
    """Looks at the newest file of every partition, whose name is its position, and at what covered files say.

    Whatever is wrong becomes a problem of its report; names that are no chain are not looked behind.
    """

    def check(report: PartitionReport) -> None:
        archived = report.archived
        if archived is None or report.names.problems:
            return
        try:
            tail = archived.read_chain().tail
            if tail is not None:
                newest_footer(archived, tail)
            if isinstance(archived, ArchivedPartition):
                check_covered(archived)
            else:
                for counting in {counting for _, counting in archived.replaced()}:
                    check_says_erased(archived, counting)
        except MirrorlakeError as error:
            report.names.problems.append(error)

    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="archive-ends") as pool:
        list(pool.map(check, reports))


def check_contents(reports: Sequence[PartitionReport], *, progressed: Progressed) -> None:
    """Reads every file whole, covered ones too; whatever is wrong becomes a problem of its report."""

    def check(pair: tuple[PartitionReport, Segment]) -> SegmentFooter | MirrorlakeError | None:
        report, segment = pair
        assert report.archived is not None
        try:
            return check_segment(report.archived, segment)
        except MirrorlakeError as error:
            return error

    continuities = {id(report): SourceContinuity(_recorded(report)) for report in reports}
    gone: dict[int, list[Segment]] = {}
    for (report, segment), found in _in_order(check, _files(reports)):
        assert report.archived is not None
        continuity = continuities[id(report)]
        if isinstance(found, ObjectMissingError):
            gone.setdefault(id(report), []).append(segment)
            continuity.pass_over()
        elif isinstance(found, MirrorlakeError):
            report.names.problems.append(found)
            continuity.pass_over()
        else:
            report.names.problems += continuity.follow(key_of(report.archived, segment), found)
            report.bare += found is None
        progressed(segment.size_bytes)
    for report in reports:
        report.names.problems += continuities[id(report)].end()
        if report.archived is not None and (missing := gone.get(id(report))):
            report.names.problems += _check_instead(report.archived, missing)
    for (report, segment), found in _in_order(check, _covered_files(reports)):
        assert report.archived is not None
        if isinstance(found, MirrorlakeError):
            if not isinstance(found, ObjectMissingError):  # whoever merges deletes what is covered
                report.names.problems.append(found)
            continue
        report.names.problems += continuities[id(report)].check_beside(key_of(report.archived, segment), found)


def _check_instead(archived: PartitionFolder, gone: Sequence[Segment]) -> list[MirrorlakeError]:
    """Checks what now has the offsets of segments that went after they were listed, as whoever merges deletes inputs.

    Returns what is wrong with it: a hole where they were, or a segment that is listed a second time and cannot be read.
    """
    problems: list[MirrorlakeError] = []
    known = {segment.name for segment in gone}
    for _ in range(LOOKS_MAX):
        try:
            archived.read_chain()
            now = list(all_segments(archived))
        except MirrorlakeError as error:
            return [*problems, error]
        gone, before = [], gone
        for segment in (each for each in now if any(_share(each, other) for other in before)):
            try:
                check_segment(archived, segment)
            except ObjectMissingError as error:
                if segment.name in known:
                    problems.append(error)
                else:
                    gone.append(segment)
            except MirrorlakeError as error:
                problems.append(error)
        if not gone:
            return problems
        known |= {segment.name for segment in gone}
    return [*problems, moved(archived.prefix)]


def _share(one: Segment, other: Segment) -> bool:
    return one.name.from_offset < other.name.end_offset and other.name.from_offset < one.name.end_offset


def _recorded(report: PartitionReport) -> Sequence[Origin]:
    """Returns whose records the topic's records say a partition holds; a store that cannot be read says none."""
    try:
        return recorded_origins(open_store(report.place.store), report.place.name, report.place.partition)
    except MirrorlakeError as error:
        report.names.problems.append(error)
        return ()


def segment_row(report: PartitionReport, segment: Segment, footer: SegmentFooter | None) -> dict[str, Cell]:
    """Returns the row of one file in `archive ls --segments`; what only its footer says is null without one."""
    contents = Contents()
    contents.take(footer)
    return {
        "name": report.place.name,
        "partition": report.place.partition,
        "store": report.place.store.where(""),
        "mirror": report.place.mirror,
        "file": str(segment.name),
        "start": segment.name.from_offset,
        "end": segment.name.end_offset,
        "bytes": segment.size_bytes,
        **contents.as_json(),
    }


def _read_names(place: ArchivePlace) -> PartitionReport:
    report = PartitionReport(place=place)
    try:
        report.archived = place.open()
        report.names = inspect_names(report.archived)
    except MirrorlakeError as error:
        report.names.problems.append(error)
    report.doubt = _doubt(place)
    return report


def _doubt(place: ArchivePlace) -> str:
    """Returns why retention leaves a partition alone; empty where it does not, or is not configured."""
    if place.destination is None or place.destination.retain is None or place.are_snapshots:
        return ""
    try:
        return doubt_about(place)
    except MirrorlakeError as error:
        return f"its topic record cannot be read: {error.message}"


def _files(reports: Iterable[PartitionReport]) -> Iterator[tuple[PartitionReport, Segment]]:
    for report in reports:
        if report.archived is not None:
            try:
                for segment in all_segments(report.archived):
                    yield report, segment
            except MirrorlakeError as error:
                report.names.problems.append(error)


def _covered_files(reports: Iterable[PartitionReport]) -> Iterator[tuple[PartitionReport, Segment]]:
    for report in reports:
        if isinstance(report.archived, ArchivedPartition):
            try:
                for segment in covered_segments(report.archived):
                    yield report, segment
            except MirrorlakeError as error:
                report.names.problems.append(error)


def _in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Yields every item with what ``work`` made of it in a thread; never more than a few items at once."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="archive-files") as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) >= 2 * READS_AT_ONCE:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)  # a producer may write any number
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
