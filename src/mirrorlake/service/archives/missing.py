"""What is not in an archive and should be, as its markers say: topics, partitions, and their ends."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import structlog

from mirrorlake.archive.groups.objects import read_groups
from mirrorlake.archive.names import parse_segment_name, partition_prefix
from mirrorlake.archive.root_marker import ROOT_MARKER, read_root_marker
from mirrorlake.archive.topic_record import (
    TOPICS_FOLDER,
    TopicRecord,
    lost_partition,
    lost_topic,
    partitions_in,
    read_topic_record,
    recorded_topics,
)
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.service.archives.places import ArchivePlace, Finding, Survey
from mirrorlake.service.archives.reports import PartitionReport
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings

NAMED_MAX = 10
"""Folders that one hint names."""

_log = structlog.get_logger("mirrorlake")


def find_missing(survey: Survey, reports: Sequence[PartitionReport]) -> list[Finding]:
    """Returns what should be there and is not; what is wrong with a partition that is there becomes its own problem.

    Warns of an archive without markers, of which nobody can say what is missing.
    """
    found = [finding for store in survey.owners for finding in _missing_in(store, survey, reports)]
    if not reports and not found and not any(not finding.is_odd_name for finding in survey.findings):
        if survey.filters.names and survey.names:
            return list(_not_there(survey, reports, survey.findings))
        return [_nothing_checked(store, survey) for store in survey.owners]
    return found + list(_not_there(survey, reports, [*found, *survey.findings]))


def _not_there(survey: Survey, reports: Sequence[PartitionReport], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yields what was asked for by name, and of which there was nothing to check and nothing was found."""
    stores = list(survey.owners)
    where = " and ".join(store.where("") for store in stores)
    names = {report.place.name for report in reports} | {finding.name for finding in findings}
    for name in sorted(survey.filters.names - names):
        error = ChainBrokenError(
            f"nothing was checked of {name}: {where} holds no folder of that name",
            hint=f"correct the name of the folder, or put it back; there {_named(survey.names)}",
        )
        yield Finding(store=stores[0], name=name, error=error)
    numbers = {report.place.partition for report in reports} | {finding.partition for finding in findings}
    for number in sorted(survey.filters.partitions - numbers):
        error = ChainBrokenError(
            f"nothing was checked of partition {number}: {where} holds none of that number",
            hint="correct the number, or put the partition's folder back",
        )
        yield Finding(store=stores[0], partition=number, error=error)


def _named(names: Collection[str]) -> str:
    """Returns the names of folders as the end of a sentence, as many as one wants to read."""
    if not names:
        return "is none"
    shown = sorted(names)[:NAMED_MAX]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(f'`{name}`' for name in shown)}{more}"


def _missing_in(store: StoreSettings, survey: Survey, reports: Sequence[PartitionReport]) -> Iterator[Finding]:
    here = [report for report in reports if report.place.store == store]
    opened = open_store(store)
    try:
        marker = read_root_marker(opened)
        names = _asked_for(survey, store, opened, there=(report.place.name for report in here))
    except MirrorlakeError as error:
        yield Finding(store=store, error=error)
        return
    if marker is None and here:
        try:
            hint = _why_no_marker(store, opened, {report.place.name for report in here})
        except MirrorlakeError as error:
            yield Finding(store=store, error=error)
            return
        _log.warning(
            f"{store.where(ROOT_MARKER)} is not there: partitions and topics that are missing cannot be told", hint=hint
        )
    for name in names:
        in_topic = {report.place.partition: report for report in here if report.place.name == name}
        try:
            record = read_topic_record(opened, name)
            groups = read_groups(opened, name)
            missing = _missing_of_topic(opened, store, name, record, survey, in_topic)
        except MirrorlakeError as error:
            yield Finding(store=store, name=name, error=error)
            continue
        for key in groups.damaged:
            damage = _damaged_groups(store.where(key), is_unknown=groups.is_unknown)
            yield Finding(store=store, name=name, error=damage)
        yield from missing
        if record is None and in_topic and marker is not None:
            _log.warning(
                f"{store.where(name)} has no _topic.json: partitions that are missing cannot be told",
                hint="the next run adds it",
            )


def find_lost(survey: Survey, reports: Sequence[PartitionReport]) -> list[Finding]:
    """Returns the topics and partitions that had segments, as recorded, and are gone.

    Of a partition that ends before where it once did, that becomes its own problem.
    """
    found: list[Finding] = []
    for store in survey.owners:
        here = [report for report in reports if report.place.store == store]
        try:
            opened = open_store(store)
            names = _asked_for(survey, store, opened, there=(report.place.name for report in here))
        except MirrorlakeError as error:
            found.append(Finding(store=store, error=error))
            continue
        for name in names:
            in_topic = {report.place.partition: report for report in here if report.place.name == name}
            try:
                found += _missing_of_topic(opened, store, name, read_topic_record(opened, name), survey, in_topic)
            except MirrorlakeError as error:
                found.append(Finding(store=store, name=name, error=error))
    return found


def lost_topics(survey: Survey) -> Iterator[Finding]:
    """Yields the topics that are asked for, were recorded, and are gone with all they held.

    Raises:
        MirrorlakeError: a store could not be read.
    """
    for store in survey.owners:
        opened, there = open_store(store), {place.name for place in survey.places if place.store == store}
        for name in sorted(recorded_topics(opened) - there):
            if survey.is_asked_for(store, name) and not _has_come(opened, name):
                yield _lost_topic(store, name)


def lost_partitions(survey: Survey) -> list[ArchivePlace]:
    """Returns the partitions that are asked for, that had segments, as recorded, and whose folders are gone.

    Raises:
        MirrorlakeError: a store, or what was recorded of a topic, could not be read.
    """
    found: list[ArchivePlace] = []
    for store in survey.owners:
        opened, there = open_store(store), {(p.name, p.partition) for p in survey.places if p.store == store}
        for name in _asked_for(survey, store, opened, there=(name for name, _ in there)):
            record = read_topic_record(opened, name)
            for partition, reached in record.reached.items() if record is not None else ():
                if not reached or (name, partition) in there or not _is_wanted(survey, partition):
                    continue
                if (place := survey.place(store, name, partition)) is not None:
                    found.append(place)
    return found


def _asked_for(survey: Survey, store: StoreSettings, opened: ObjectStore, *, there: Iterable[str]) -> list[str]:
    """Returns the folders that are asked for among those that are there or were recorded, in order.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    return sorted(name for name in {*there} | recorded_topics(opened) if survey.is_asked_for(store, name))


def _is_wanted(survey: Survey, partition: int) -> bool:
    return not survey.filters.partitions or partition in survey.filters.partitions


def _lost_topic(store: StoreSettings, name: str) -> Finding:
    gone = lost_topic(name, where=store.where(name), register=store.where(TOPICS_FOLDER))
    return Finding(store=store, name=name, error=gone)


def _why_no_marker(store: StoreSettings, opened: ObjectStore, names: Collection[str]) -> str:
    """Returns the remedy where a root has no marker: a marker in a folder below is that of the root that is meant.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    above = {str(parent) for name in names for parent in PurePosixPath(name).parents} - {"."}
    inner = [folder for folder in sorted(above) if _holds(opened, f"{folder}/{ROOT_MARKER}")]
    if inner:
        roots = ", ".join(store.where(folder) for folder in inner[:NAMED_MAX])
        return f"the root of an archive is below it: {roots}; name that one"
    return "mirror-v3 or an earlier version wrote this archive; the next run adds it"


def _holds(opened: ObjectStore, key: str) -> bool:
    try:
        opened.read(key)
    except ObjectMissingError:
        return False
    return True


def _damaged_groups(where: str, *, is_unknown: bool) -> ChainBrokenError:
    instead = "cannot be told" if is_unknown else "is read from the object before it"
    return ChainBrokenError(
        f"{where} is damaged: what consumer groups had committed {instead}",
        hint="put it back from a copy; or delete it: the next look of a run archives anew what groups have committed",
        key=where,
    )


def _missing_of_topic(
    opened: ObjectStore,
    store: StoreSettings,
    name: str,
    record: TopicRecord | None,
    survey: Survey,
    there: dict[int, PartitionReport],
) -> list[Finding]:
    if record is None:
        return [] if there or _has_come(opened, name) else [_lost_topic(store, name)]
    found: list[Finding] = []
    for partition, reached in record.reached.items():
        if not _is_wanted(survey, partition):
            continue
        report = there.get(partition)
        position = report.names.position if report is not None else 0
        # The record may be of a later moment than the look: what it speaks of was there before it, and so is now.
        if position >= reached or _end_now(opened, name, partition) >= reached:
            continue
        error = lost_partition(opened, name, partition, reached=reached, position=position)
        if report is None:
            found.append(Finding(store=store, name=name, partition=partition, error=error))
        elif not report.names.problems:
            report.names.problems.append(error)
    return found


def _end_now(opened: ObjectStore, name: str, partition: int) -> int:
    """Returns the highest end of a partition's segments, by their names; 0 where there is none."""
    names = (parse_segment_name(info.name) for info in opened.list(partition_prefix(name, partition)))
    return max((each.end_offset for each in names if each is not None), default=0)


def _has_come(opened: ObjectStore, name: str) -> bool:
    """Tells whether a topic that was recorded has a partition's folder by now, or a record of its own."""
    return bool(partitions_in(opened, name)) or read_topic_record(opened, name) is not None


def check_is_archive(survey: Survey) -> None:
    """Checks that there is something to keep, or that nothing was archived yet.

    Raises:
        ChainBrokenError: nothing is there of what was asked for by name, or the root holds neither a partition nor the
            marker of an archive: it may not be mounted.
        MirrorlakeError: a store could not be read.
    """
    if survey.places:
        return
    is_narrow = bool(survey.filters.names or survey.filters.partitions)
    for store in survey.owners:
        if is_narrow or read_root_marker(open_store(store)) is None:
            raise _nothing_found(store, survey)


def _nothing_checked(store: StoreSettings, survey: Survey) -> Finding:
    return Finding(store=store, error=_nothing_found(store, survey, but="nothing was checked: "))


def _nothing_found(store: StoreSettings, survey: Survey, *, but: str = "") -> ChainBrokenError:
    filters = survey.filters
    is_narrow = bool(filters.names or filters.partitions or filters.mirrors or survey.owners[store])
    is_misnamed = bool(survey.names and filters.names) and not filters.names & survey.names
    return ChainBrokenError(
        f"{but}{store.where('')} holds no partition" + (" that was asked for" if is_narrow else ""),
        hint=f"correct the name of the folder, or put it back; there {_named(survey.names)}"
        if is_misnamed
        else "is this the root of an archive, and is its file system mounted?",
    )
